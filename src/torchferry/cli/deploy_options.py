"""Options that the commands of `torchferry deploy` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from torchferry.backends import registry
from torchferry.backends.deployment import DeployValue
from torchferry.cli.completion import Function, target_option
from torchferry.cli.writing import writable
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say
from torchferry.core.terminal import print_data, print_notice, visible
from torchferry.deploy import playing, records
from torchferry.deploy.bundle import Bundle, read_bundle
from torchferry.deploy.inventory import PlayOptions
from torchferry.deploy.plan import (
    PLUGIN_VERSION,
    DeployPlan,
    StepChoice,
    check_value,
    facts_of,
    make_plan,
    unknown_values,
)
from torchferry.deploy.playbook import SURVEY
from torchferry.deploy.progress import DeployProgress
from torchferry.deploy.report import failure_lines, table_lines

_PLAN = (
    target_option(required=True),
    click.option(
        "-b", "--bundle", type=click.Path(file_okay=False, path_type=Path), help="Folder that `deploy bundle` made."
    ),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; can be repeated."),
    click.option("--from-stage", default="", metavar="STAGE", help="Leave out the stages before this one."),
    click.option(
        "--only",
        default="",
        metavar="NAMES",
        help="Only these stages or steps; the checks of the stage precheck always run.",
    ),
    click.option(
        "--timeout", "timeouts", multiple=True, metavar="STEP=SECONDS", help="Time limit of a step; can be repeated."
    ),
    click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output."),
)
LIMIT = click.option("--limit", default="", metavar="HOSTS", help="Only these hosts or groups, as Ansible takes them.")
VAULT = click.option(
    "--vault-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the password of Ansible's vault.",
)
TREE = (
    click.option(
        "--tree-above",
        type=click.IntRange(1),
        default=32,
        show_default=True,
        metavar="HOSTS",
        help="With more hosts than this, hosts pass files on to other hosts.",
    ),
    click.option(
        "--tree-width",
        type=click.IntRange(1, 1000),
        default=8,
        show_default=True,
        metavar="HOSTS",
        help="Hosts that each host of the tree sends to.",
    ),
)
_HOSTS = (
    click.option(
        "-i",
        "--inventory",
        required=True,
        type=click.Path(exists=True, path_type=Path),
        help="The hosts, as Ansible's inventory: INI, YAML or a folder.",
    ),
    LIMIT,
    click.option(
        "--forks",
        type=click.IntRange(1, 1000),
        default=25,
        show_default=True,
        help="Number of hosts that work at the same time.",
    ),
    *TREE,
    click.option("-k", "--ask-pass", is_flag=True, help="Ask for the password of the account on the hosts."),
    click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the password of sudo on the hosts."),
    VAULT,
    click.option(
        "--events",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=writable,
        help="File or pipe that gets a line of JSON for each step as it ends.",
    ),
)


@dataclass(frozen=True)
class DeployChoices:
    """What a user chose: the plan, the hosts, the language.

    Attributes:
        plan: What is done.
        options: Where; None for a command that touches no host.
        lang: The language of the output.
        events: Where each step is said as it ends, for programs; None: nowhere.
    """

    plan: DeployPlan
    options: PlayOptions | None
    lang: str
    events: Path | None = None

    @property
    def hosts(self) -> PlayOptions:
        """Where a command works that touches hosts."""
        assert self.options is not None
        return self.options

    @property
    def record(self) -> Path:
        """The file that the runs are recorded in."""
        return records.record_file(self.plan.target, self.hosts.inventory)

    def play(self, mode: str, action: str) -> Mapping[str, playing.HostOutcome]:
        """Run the playbook with progress on standard error; every run that may change something is recorded."""
        usual = records.usual_seconds(records.read_records(self.record)) if self.record.exists() else {}
        begun = records.now()
        events = records.EventLog(self.events, action, self.plan.target)
        with DeployProgress(self.plan, usual, self.lang, print_notice, mode) as progress:

            def take(outcome: playing.StepOutcome) -> None:
                events.step(outcome)
                progress.take(outcome)

            hosts = playing.play(self.plan, self.hosts, mode, take)
        if mode not in ("survey", "verify"):
            record = records.RunRecord(action, self.plan.target, begun, records.now(), hosts)
            try:
                records.write_record(self.record, record)
            except TorchferryError:  # what the hosts came to is said all the same
                print_notice(*table_lines(self.plan, hosts, self.lang))
                for failed in (host.failed for host in hosts.values() if host.failed is not None):
                    print_notice(*failure_lines(self.plan, failed, self.lang))
                events.end(hosts)
                raise
        events.end(hosts)
        return hosts


def plan_options(*, hosts: bool) -> Callable[[Function], Function]:
    """Return the options that make a plan, with `hosts` those that say where; a command gets them as `choices`."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def command(
            *,
            target: str,
            bundle: Path | None,
            settings: tuple[str, ...],
            from_stage: str,
            only: str,
            timeouts: tuple[str, ...],
            lang: str | None,
            **others: Any,
        ) -> Any:
            lang = lang or language()
            events = others.pop("events", None)
            options = _play_options(others) if hosts else None
            given = assignments(settings, "--set")
            limits = {name: _seconds(name, text) for name, text in assignments(timeouts, "--timeout").items()}
            names = tuple(name.strip() for name in only.split(",") if name.strip())
            read = read_bundle(bundle) if bundle is not None else None
            name, version = target_and_version(target)
            given = with_version(given, version)
            given = {**_asked(name, read, given, lang), **given}
            plan = make_plan(name, read, given, StepChoice(from_stage, names, limits))
            return function(choices=DeployChoices(plan, options, lang, events), **others)

        decorated: Any = command
        for option in reversed((*_PLAN, *(_HOSTS if hosts else ()))):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def status_of_hosts(hosts: Iterable[playing.HostOutcome], has_failed: bool) -> int:
    """Return the exit code: of a host that could not be asked nobody knows anything, which is no finding.

    Args:
        hosts: What is known of each host.
        has_failed: Whether something failed, or is in the way.
    """
    if any(_could_not_be_asked(step) for host in hosts for step in host.steps.values()):
        return exitcodes.ERROR
    return exitcodes.FINDINGS if has_failed else exitcodes.CLEAN


def _could_not_be_asked(step: playing.StepOutcome) -> bool:
    """Whether nobody knows how a host is; a sample that fails is an answer."""
    return step.status == "unreachable" or (step.status == "failed" and step.step == SURVEY)


def target_and_version(target: str) -> tuple[str, str]:
    """Return the name of a target that was given by its name or an alias, and the plugin's version (empty: none)."""
    choice = registry.choose(target)
    return choice.backend.NAME, choice.version


def target_alone(target: str) -> str:
    """Return the name of a target where the plugin's version decides nothing.

    Raises:
        UsageError: a version was given.
    """
    name, version = target_and_version(target)
    if version:
        raise UsageError(
            say("the version {version} has no effect here: the plugin comes with the image", version=version),
            say("name an image that has this version: --set image=..."),
        )
    return name


def with_version(given: dict[str, str], version: str) -> dict[str, str]:
    """Return settings with the plugin's version that was given beside the target.

    Raises:
        UsageError: the settings have another one.
    """
    if given.get(PLUGIN_VERSION, version) != version and version:
        raise UsageError(
            say("two versions of the plugin were given: {one} and {other}", one=version, other=given[PLUGIN_VERSION]),
            say("give one of them"),
        )
    return {**given, PLUGIN_VERSION: version} if version else given


def assignments(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return `NAME=VALUE` texts as names and values.

    Raises:
        UsageError: one has no `=`.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(say("{option} takes NAME=VALUE, not `{text}`", option=option, text=text[:80]))
        values[name.strip()] = value
    return values


def print_json(document: Mapping[str, Any]) -> None:
    """Print a result for programs."""
    print_data(json_text(document, indent=2))


def _asked(target: str, bundle: Bundle | None, given: Mapping[str, str], lang: str) -> dict[str, str]:
    """Ask on a terminal for the settings that are not public; elsewhere the plan says which are missing."""
    if not sys.stdin.isatty():
        return {}
    missing = unknown_values(facts_of(target), {*given, *(bundle.values if bundle else {})})
    return {value.name: _answer(value, lang) for value in missing}


def _answer(value: DeployValue, lang: str) -> str:
    """Ask for a setting until there is an answer that fits; on standard error, which is nobody's result."""

    def fitting(text: str) -> str:
        try:
            check_value(value, text.strip())
        except UsageError as error:
            raise click.UsageError(" ".join(error.lines())) from None
        return text.strip()

    asked = visible(f"{value.name} ({value.about.render(lang)})")
    answer: str = click.prompt(asked, value_proc=fitting, err=True)
    return answer


def _seconds(step: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 86400:
        raise UsageError(
            say("--timeout {step}: `{text}` is not a number of seconds from 1 to 86400", step=step, text=text[:80])
        )
    return int(text)


def _play_options(others: dict[str, Any]) -> PlayOptions:
    """Take the options of hosts out of a command's, and ask for passwords: they are never on a command line."""
    passwords: dict[str, str] = {}
    if others.pop("ask_pass"):
        passwords["ssh"] = click.prompt("SSH password", hide_input=True, err=True)
    if others.pop("ask_become_pass"):
        passwords["become"] = click.prompt("sudo password", hide_input=True, err=True)
    return PlayOptions(
        others.pop("inventory"),
        others.pop("limit"),
        others.pop("forks"),
        passwords,
        others.pop("vault_password_file"),
        others.pop("tree_above"),
        others.pop("tree_width"),
    )
