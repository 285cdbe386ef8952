"""Running a playbook through ansible-runner, and what its events say about hosts and steps.

ansible-runner starts `ansible-playbook` as a process; nothing of Ansible is imported. What it writes goes into a folder
of its own that only this user can read, and that is removed afterwards.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shlex
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchferry.core import own_python
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.temporary import temporary_folder
from torchferry.deploy.engine import ansible, environment
from torchferry.deploy.inventory import PlayOptions, hidden_texts, inventory_hosts, masked
from torchferry.deploy.plan import DeployPlan
from torchferry.deploy.playbook import SURVEY, TYPED, TreePlace, samples_of, tree, write_project

STATUSES = ("ok", "changed", "failed", "unreachable", "todo")

_HELPERS = (
    *("-end", "-begin", "-room", "-send", "-sent", "-arrive", "-restart", "-engine"),
    *("-spread", "-offer", "-fetch", "-offered"),
)
"""Endings of task names: what they do belongs to the step before the ending."""


class StepOutcome(NamedTuple):
    """How a step ended on a host.

    Attributes:
        host: The name in the inventory.
        step: The step, or `survey` where the host was not even looked at.
        status: `ok` (there was nothing to do), `changed`, `failed`, `unreachable`, or `todo` (not done, and not tried).
        seconds: How long it took; 0 where it was looked at together with others.
        output: What it said last, without addresses and accounts.
    """

    host: str
    step: str
    status: str
    seconds: float = 0.0
    output: str = ""


class HostOutcome(NamedTuple):
    """What is known of a host after a run: its steps by name, in the order of the plan, and what was changed there."""

    host: str
    steps: Mapping[str, StepOutcome]
    changed: tuple[str, ...] = ()

    @property
    def failed(self) -> StepOutcome | None:
        """The step that ended the run on this host."""
        return next((step for step in self.steps.values() if step.status in ("failed", "unreachable")), None)


OnOutcome = Callable[[StepOutcome], None]

_ENDS_WITH_US = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
)
"""ansible-runner has its terminal's end ignored: Ansible would go on, with nobody who knows, when we are killed."""


def play(plan: DeployPlan, options: PlayOptions, mode: str, on_outcome: OnOutcome) -> dict[str, HostOutcome]:
    """Run a plan's playbook; return the known facts about each host.

    Args:
        plan: What is done.
        options: Where, and how.
        mode: One of the modes of `write_project`.
        on_outcome: Called with each step as it ends.

    Raises:
        UsageError: Ansible is not installed, or the inventory is none.
        TorchferryError: Ansible itself failed.
    """
    program = ansible("ansible-playbook")
    hosts = inventory_hosts(options)
    with _room(), temporary_folder("torchferry-deploy-") as folder:
        project = folder / "project"
        project.mkdir()
        write_project(plan, project, mode, places_of(hosts, options))
        events = _Events(plan, hosts, hidden_texts(hosts, options), on_outcome)
        status, text = _run(program, folder, project, options, events.take)
        events.end(mode)
        outcomes = events.outcomes()
        if status not in ("successful", "failed") or not events.heard:
            raise TorchferryError(
                say(
                    "Ansible ended with status {status}: {text}", status=status, text=events.masked(text[-2000:]) or "-"
                ),
                say("check the inventory: `ansible-inventory -i {path} --list`", path=options.inventory),
            )
        return outcomes


class TaskResult(NamedTuple):
    """How a task ended on a host: `kind` is `ok`, `failed` or `unreachable`; the output has no addresses."""

    host: str
    task: str
    kind: str
    output: str


def run_tasks(
    options: PlayOptions,
    hosts: Mapping[str, Mapping[str, Any]],
    write: Callable[[Path], None],
    on_result: Callable[[TaskResult], None],
) -> None:
    """Run a play that has no steps.

    Args:
        options: Where, and how.
        hosts: The inventory's hosts with their variables.
        write: Writes the play `site.yml` and `ansible.cfg` into a folder.
        on_result: Called with each task as it ends on a host; tasks that are skipped are left out.

    Raises:
        UsageError: Ansible is not installed.
        TorchferryError: Ansible itself failed.
    """
    program = ansible("ansible-playbook")
    hidden = hidden_texts(hosts, options)

    def take(event: Mapping[str, Any]) -> bool:
        kind, data = str(event.get("event", "")).removeprefix("runner_on_"), event.get("event_data", {})
        if kind in ("ok", "failed", "unreachable") and data.get("host") in hosts:
            result = data.get("res") if isinstance(data.get("res"), dict) else {}
            on_result(TaskResult(data["host"], data.get("task", ""), kind, masked(_text_of(result), hidden)))
        return False

    with _room(), temporary_folder("torchferry-deploy-") as folder:
        project = folder / "project"
        project.mkdir()
        write(project)
        status, text = _run(program, folder, project, options, take)
        if status not in ("successful", "failed"):
            raise TorchferryError(
                say(
                    "Ansible ended with status {status}: {text}",
                    status=status,
                    text=masked(text[-2000:], hidden) or "-",
                )
            )


class _Events:
    """Turns Ansible's events into outcomes of steps."""

    def __init__(
        self, plan: DeployPlan, hosts: Iterable[str], hidden: list[tuple[str, str]], on_outcome: OnOutcome
    ) -> None:
        self._names = [planned.step.id for planned in plan.planned]
        self._on_outcome = on_outcome
        self._steps: dict[str, dict[str, StepOutcome]] = {host: {} for host in hosts}
        self._changed: dict[str, tuple[str, ...]] = {}
        self._seconds: dict[tuple[str, str], float] = {}
        self._hidden = hidden
        self._copies = frozenset(planned.step.id for planned in plan.planned if planned.copied is not None)
        self._samples = frozenset(planned.step.id for planned in samples_of(plan))
        self.heard = False
        """Whether any host was heard of."""

    def masked(self, text: str) -> str:
        """Return a text without what no output may show."""
        return masked(text, self._hidden)

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take an event of ansible-runner; True keeps its file, which nobody needs."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        if kind in ("runner_on_ok", "runner_on_failed", "runner_on_unreachable") and data.get("host") in self._steps:
            self._end(kind, data)
        return False

    def _end(self, kind: str, data: Mapping[str, Any]) -> None:
        host, task = data["host"], data.get("task", "")
        result = data.get("res") if isinstance(data.get("res"), dict) else {}
        assert isinstance(result, dict)
        text = self.masked(_text_of(result))
        if task == SURVEY and kind == "runner_on_ok":
            self._survey(host, result.get("stdout", ""))
            return
        step = task
        for ending in _HELPERS:  # `commit-end` is the step `commit`
            step = step.removesuffix(ending)
        seconds = self._seconds.get((host, step), 0.0) + float(data.get("duration") or 0)
        self._seconds[host, step] = seconds
        if kind == "runner_on_unreachable":
            outcome = StepOutcome(host, step, "unreachable", seconds, text)
        elif kind == "runner_on_failed":
            outcome = StepOutcome(host, step, "failed", seconds, text)
        elif task in self._names or task in ("undo-end", "commit-end"):
            outcome = StepOutcome(host, step, "changed" if result.get("changed") else "ok", seconds, text)
        else:
            return
        self._steps[host][step] = outcome
        self._on_outcome(outcome)

    def end(self, mode: str) -> None:
        """Take the end of a play: a host of which something was not heard has failed, it is not well.

        Ansible's answers are files on this machine: where its disk is full they do not come, and nobody says so.
        """
        wanted = {"undo": ["undo"], "commit": ["commit"]}.get(mode, self._names)
        for host, steps in self._steps.items():
            self.heard = self.heard or bool(steps)
            if any(outcome.status in ("failed", "unreachable") for outcome in steps.values()):
                continue
            lost = [name for name in wanted if name not in steps]
            if mode == "run":  # a file is copied where a step that takes it is not complete, and else is not
                lost += [
                    name for name, outcome in steps.items() if outcome.status == "todo" and name not in self._copies
                ]
            if mode == "verify":
                lost += self._samples_that_did_not_run(host, steps)
            if lost:
                text = f"TORCHFERRY lost: no answer came of {', '.join(lost)}"
                outcome = StepOutcome(host, SURVEY, "failed", 0.0, text)
                self._steps[host][SURVEY] = outcome
                self._on_outcome(outcome)

    def _samples_that_did_not_run(self, host: str, steps: dict[str, StepOutcome]) -> list[str]:
        """Return the samples that no answer came of; where other steps do not hold none runs, and none counts as ok."""
        left = [name for name in steps if name in self._samples and (host, name) not in self._seconds]
        asked = [outcome for name, outcome in steps.items() if name not in self._copies | self._samples]
        if all(outcome.status == "ok" for outcome in asked):
            return left
        text = "TORCHFERRY not run: other steps do not hold"
        steps.update((name, StepOutcome(host, name, "todo", 0.0, text)) for name in left)
        return []

    def _survey(self, host: str, text: str) -> None:
        changed: list[str] = []
        for line in text.splitlines():
            words = line.split(" ")
            if words[0] == "changed" and len(words) == 2:
                changed.append(words[1])
            elif len(words) == 4 and words[1] in self._names and words[1] not in self._steps[host]:
                try:
                    output = base64.b64decode(words[3]).decode("utf-8", "replace")
                except binascii.Error:
                    output = ""
                status = "ok" if words[2] == "0" else "todo"
                self._steps[host][words[1]] = StepOutcome(host, words[1], status, 0.0, self.masked(output))
        self._changed[host] = tuple(changed)
        for outcome in self._steps[host].values():
            self._on_outcome(outcome)

    def outcomes(self) -> dict[str, HostOutcome]:
        """Return the known facts about each host, with its steps in the order of the plan."""
        order = {name: number for number, name in enumerate([SURVEY, *self._names])}
        return {
            host: HostOutcome(
                host,
                dict(sorted(steps.items(), key=lambda item: order.get(item[0], -1))),
                self._changed.get(host, ()),
            )
            for host, steps in self._steps.items()
        }


def _text_of(result: Mapping[str, Any]) -> str:
    """Return what a task printed, or what Ansible says of it."""
    # Ansible's own programs on the host say why they failed in keys of their own
    result = {**result, "stdout": result.get("stdout") or result.get("module_stdout")}
    result["stderr"] = result.get("stderr") or result.get("module_stderr")
    parts = [str(result.get(key) or "").strip() for key in ("stdout", "stderr", "msg")]
    if parts[2].startswith("non-zero return code"):  # a command that was killed says nothing itself
        parts[2] = "" if parts[0] or parts[1] else f"ended with {result.get('rc')}, and said nothing"
    return "\n".join(part for part in parts if part)


def _run(
    program: str, folder: Path, project: Path, options: PlayOptions, take: Callable[[Mapping[str, Any]], bool]
) -> tuple[str, str]:
    """Run the playbook; return ansible-runner's word for how it ended, and what Ansible printed."""
    from ansible_runner.config.runner import RunnerConfig  # imported late: it is in the extra `deploy`
    from ansible_runner.runner import Runner

    arguments = ["--become-method=sudo"]
    prompts = {"ssh": "--ask-pass", "become": "--ask-become-pass"}
    arguments += [prompts[name] for name in options.passwords]
    if options.vault_password_file is not None:
        arguments += ["--vault-password-file", str(options.vault_password_file.resolve())]
    patterns = {"ssh": r"SSH password:\s*?$", "become": r"(?:BECOME|SUDO) password[^:]*:\s*?$"}
    variables = environment(project / "ansible.cfg")
    with _as_environment(variables), _told(folder, options.passwords) as more:
        # the configuration takes the passwords, and unlike `ansible_runner.run` writes them nowhere
        configuration = RunnerConfig(
            private_data_dir=str(folder),
            project_dir=str(project),
            playbook="site.yml",
            inventory=str(options.inventory.resolve()),
            limit=options.limit or None,
            forks=options.forks,
            cmdline=shlex.join([*arguments, *more]),
            quiet=True,
            fact_cache_type="memory",  # in files, whose names are those of hosts, nobody looks for them again
            passwords={patterns[name]: password for name, password in options.passwords.items()},
            envvars={name: text for name, text in variables.items() if name.startswith("ANSIBLE_")},
        )
        configuration.prepare()
        configuration.command[:1] = own_python.bare_command("-c", _ENDS_WITH_US, program)
        written = Path(configuration.artifact_dir, "command")

        def on_status(status: Mapping[str, Any], runner_config: object) -> None:
            if status["status"] == "running":  # before Ansible starts: what was written there has the environment
                written.unlink(missing_ok=True)

        runner = Runner(config=configuration, event_handler=take, status_handler=on_status, remove_partials=True)
        status, _ = runner.run()
        try:
            text = runner.stdout.read()
        except (OSError, AttributeError, TypeError):
            text = ""
    return str(status), text


def places_of(hosts: Iterable[str], options: PlayOptions) -> dict[str, TreePlace] | None:
    """Return who sends files to whom; None where this machine sends them to every host."""
    names = list(hosts)
    return tree(names, options.tree_width) if len(names) > options.tree_above else None


@contextmanager
def _room() -> Iterator[None]:
    """Say where this machine cannot keep what a run needs while it goes."""
    try:
        yield
    except OSError as error:
        several = re.search(r"\[Errno \d+\] ([^:'\"]+)", str(error))  # shutil names all files that could not be copied
        problem = error.strerror or (several[1] if several else error)
        raise TorchferryError(
            say("cannot write below {folder}: {error}", folder=tempfile.gettempdir(), error=problem),
            say("free space there, or name another folder with TMPDIR; then run the same command again"),
        ) from error


@contextmanager
def _told(folder: Path, passwords: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield options with which Ansible reads the typed password of the account, once, out of a pipe in our folder.

    What is sent beside Ansible's own connection needs it, and neither variables of a process nor files are to have it.
    """
    if "ssh" not in passwords:
        yield []
        return
    pipe = folder / "variables"
    os.mkfifo(pipe, 0o600)
    text = json.dumps({TYPED: {"__ansible_unsafe": passwords["ssh"]}})
    teller = threading.Thread(target=lambda: pipe.write_text(text, encoding="utf-8"), daemon=True)
    teller.start()
    try:
        yield ["--extra-vars", f"@{pipe}"]
    finally:
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # Ansible may have ended without reading it
        teller.join()
        os.close(reader)


@contextmanager
def _as_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Make these the variables of our process while Ansible starts: ansible-runner passes ours on."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
