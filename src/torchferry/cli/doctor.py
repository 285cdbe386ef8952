"""`torchferry doctor`: what this machine lacks for a target's cards, why, and the command that mends it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.cli import doctor_symbol
from torchferry.cli.completion import complete_target, target_or
from torchferry.cli.help_text import help_text
from torchferry.core import exitcodes
from torchferry.core.config import load as load_config
from torchferry.core.errors import UsageError
from torchferry.core.json_text import json_text
from torchferry.core.messages import language, say, say_plural
from torchferry.core.terminal import print_data, print_notice, print_text, style
from torchferry.doctor import detection, engine, fixing, probe, report, snapshot
from torchferry.doctor.check import SIDES
from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Host
from torchferry.doctor.registry import all_checks
from torchferry.doctor.result import CheckStatus
from torchferry.rehearsal.config import VARIABLE, read

_AUTO = "auto"
_COLOURS = {
    "failure": ("red", "bold"),
    "warning": ("yellow",),
    "unknown": ("cyan",),
    "skipped": ("dim",),
    "ok": ("green",),
    "side": ("bold",),
}


_BAD = (CheckStatus.FAILURE, CheckStatus.WARNING)
_NOTHING = say("no target was found on this machine: no driver, device node, tool, toolkit or plugin")


@dataclass(frozen=True)
class _Choices:
    """Options of the group that its commands share."""

    target: str
    python: str
    select: tuple[str, ...]
    lang: str


_target_option = click.option(
    "-t",
    "--target",
    default="",
    metavar="NAME",
    shell_complete=complete_target,
    callback=target_or(_AUTO),
    help=help_text("{targets}; default: what is found on this machine.", targets=", ".join(registry.built_in())),
)
_python_option = click.option(
    "--python", default="", metavar="PATH", help="The Python to examine; default: the one that runs torchferry."
)


@click.group("doctor", invoke_without_command=True)
@_target_option
@_python_option
@click.option("--select", default="", metavar="CODES", help="Checks, families or sides to run: driver,python.versions.")
@click.option(
    "--probe", "probing", is_flag=True, help="Also use the device: memory, operators, collectives, bandwidth."
)
@click.option(
    "--probe-timeout", type=click.IntRange(1, 3600), default=180, show_default=True, help="Seconds for the probe."
)
@click.option(
    "--fix", is_flag=True, help="Apply the fixes that only add something and can be undone; each is printed first."
)
@click.option("--dry-run", is_flag=True, help="With --fix: print, change nothing.")
@click.option(
    "--env-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --fix: the file that environment lines go into, such as ~/.bashrc.",
)
@click.option(
    "-f", "--output-format", type=click.Choice(["text", "json", "issue"]), default="text", help="Form of the report."
)
@click.option("-q", "--quiet", is_flag=True, help="Show only failures, warnings and unknown results.")
@click.option("-v", "--verbose", is_flag=True, help="Also show why checks were skipped.")
@click.option("--list", "listing", is_flag=True, help="List the checks and exit.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.pass_context
def command(
    context: click.Context,
    target: str,
    python: str,
    select: str,
    probing: bool,
    probe_timeout: int,
    fix: bool,
    dry_run: bool,
    env_file: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
    listing: bool,
    lang: str | None,
) -> None:
    """Check this machine for a target's cards, with the cause of each failure and a command that fixes it.

    Driver, device nodes, management tool, toolkit, libraries, container, limits, disk, clock, torch and plugin are
    examined; nothing is changed. Ends with 1 when something fails. What nobody has verified is unknown, never ok.

    \b
    torchferry doctor --target NAME             all checks
    torchferry doctor --target NAME --probe     also use the device
    torchferry doctor -f issue                  a block to paste into an issue
    torchferry doctor snapshot > a.json         the state of this machine
    torchferry doctor diff a.json b.json        two machines compared
    """
    codes = tuple(code.strip() for code in select.split(",") if code.strip())
    choices = _Choices(target, python, codes, lang or language())
    context.obj = choices
    if context.invoked_subcommand is not None:
        return
    if (dry_run or env_file is not None) and not fix:
        raise UsageError(say("--dry-run and --env-file work only with --fix"), say("add --fix"))
    if listing:
        _list(choices.lang)
        return
    engine.choose(codes)  # a name that is none is refused on every machine, before anything is looked at
    if _nothing_here(choices, output_format):
        sys.exit(exitcodes.FINDINGS)
    diagnosis = _diagnose(choices, probe_timeout if probing else None)
    if output_format == "json":
        print_data(report.render_json(diagnosis, choices.lang))
    elif output_format == "issue":
        print_text(*report.issue_lines(diagnosis, choices.lang))
    else:
        detail = report.Detail.BRIEF if quiet else report.Detail.FULL if verbose else report.Detail.USUAL
        print_text(*report.text_lines(diagnosis, choices.lang, _paint, detail))
    if fix:
        _fix(diagnosis, env_file, dry_run, choices.lang)
    sys.exit(exitcodes.CLEAN if diagnosis.ok else exitcodes.FINDINGS)


@command.command("snapshot")
@_target_option
@_python_option
@click.pass_obj
def take(choices: _Choices, target: str, python: str) -> None:
    """Print the state of this machine as JSON, for `doctor diff`. Secrets in variables are hidden."""
    choices = replace(choices, target=target or choices.target, python=python or choices.python)
    print_data(json_text(snapshot.snapshot(_diagnose(choices, None), choices.lang), indent=2))


@command.command("diff")
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.pass_obj
def diff(choices: _Choices, first: Path, second: Path) -> None:
    """Compare two snapshots, FIRST and SECOND. Ends with 1 when they differ in anything lasting."""
    first_snapshot, second_snapshot = snapshot.load(first), snapshot.load(second)
    differences = snapshot.compare(first_snapshot, second_snapshot)
    lasting = [item for item in differences if not item.passing]
    for item in lasting:
        _tell(item)
    if len(lasting) < len(differences):
        print_text(say("Values that change from moment to moment; they do not count:").render(choices.lang))
        for item in differences[len(lasting) :]:
            _tell(item)
    print_text(
        say_plural("{count} lasting difference", "{count} lasting differences", count=len(lasting)).render(choices.lang)
    )
    print_text(
        say(
            "The times of the snapshots cannot be used to compare the clocks; run the check `system.clock` "
            "on each host."
        ).render(choices.lang)
    )
    sys.exit(exitcodes.FINDINGS if lasting else exitcodes.CLEAN)


def _tell(item: snapshot.SnapshotDifference) -> None:
    print_text(report.shown(item.name))
    print_text(f"  < {report.shown(item.first[:500])}")
    print_text(f"  > {report.shown(item.second[:500])}")


def _diagnose(choices: _Choices, probe_timeout: int | None) -> engine.Diagnosis:
    checks = engine.choose(choices.select)
    host = Host(python=choices.python or sys.executable)
    rehearsal = os.environ.get(VARIABLE, "")
    target = _target(host, choices, rehearsal)
    if rehearsal and host.python == sys.executable:
        from torchferry.rehearsal.build import library  # needs a system that the other commands do not

        library()  # built once, before any clock of ours runs
    probed = None
    if probe_timeout is not None:
        probed = probe.run_probe(host, target, probe_timeout, bool(rehearsal))
    return engine.examine(CheckContext(host, target, rehearsed=bool(rehearsal), probe=probed), checks)


def _target(host: Host, choices: _Choices, rehearsal: str) -> Target:
    """Return the target: as named, as rehearsed, as in the settings file, or as found.

    Raises:
        UsageError: nothing here speaks for one target alone, or another one is rehearsed.
    """
    wanted = choices.target if choices.target != _AUTO else ""
    if rehearsal:
        rehearsed = read(Path(rehearsal)).resolved()
        if wanted and Target.named(wanted).name != rehearsed.name:
            raise UsageError(
                say(
                    "the requested target is {wanted}, but {rehearsed} is being rehearsed",
                    wanted=wanted,
                    rehearsed=rehearsed.name,
                ),
                say(
                    "leave out --target, or rehearse that target: torchferry rehearse --target {wanted}", wanted=wanted
                ),
            )
        return rehearsed
    if not wanted and choices.target != _AUTO:
        wanted = load_config(Path()).target
    if wanted:
        return Target.requested(wanted)
    detected = detection.detect(host)
    decided = detection.decide(detected)
    names = ", ".join(registry.names())
    if decided is None and detected:
        listed = "; ".join(f"{name}: {', '.join(signs)}" for name, signs in detected.items())
        raise UsageError(
            say("several targets were found on this machine: {listed}", listed=listed),
            say("name one with `--target`: {names}", names=names),
        )
    if decided is None:
        raise UsageError(_NOTHING, say("name one with `--target`: {names}", names=names))
    print_notice(
        "torchferry: "
        + say("target {name} was detected from {signs}", name=decided, signs=", ".join(detected[decided])).render(
            choices.lang
        )
    )
    return Target.named(decided)


def _nothing_here(choices: _Choices, form: str) -> bool:
    """On a machine that has nothing of any target, say what was looked for and what can be done; else return False."""
    named = choices.target not in ("", _AUTO) or os.environ.get(VARIABLE)
    if named or (not choices.target and load_config(Path()).target):
        return False
    if detection.detect(Host(python=choices.python or sys.executable)):
        return False
    sought = {name: detection.sought(name) for name in registry.names()}
    if form == "json":
        empty = {"schema": report.SCHEMA, "kind": "torchferry doctor", "target": "", "ok": False, "sought": sought}
        print_data(json_text({**empty, "groups": [], "results": []}, indent=2))
        return True
    lang = choices.lang
    looked = [_NOTHING.render(lang), say("Searched for:").render(lang)]
    looked += [
        f"  {name:<6} {Target.named(name).title.render(lang)}: {', '.join(sights)}" for name, sights in sought.items()
    ]
    if form == "issue":
        host = Host(python=choices.python or sys.executable)
        print_text(*report.issue_block(host, _NOTHING.render(lang), [], looked))
        return True
    print_text(*looked)
    print_text(
        say(
            "To see what a target needs and how to install it: {command}",
            command="torchferry doctor --target NAME",
        ).render(lang)
    )
    print_text(
        say(
            "Without a card, you can test code on a simulated card: {command}",
            command="torchferry rehearse --target NAME -- python YOUR_PROGRAM.py",
        ).render(lang)
    )
    return True


def _fix(diagnosis: engine.Diagnosis, file: Path | None, dry_run: bool, lang: str) -> None:
    """Print each fix with what takes it back, then apply it."""
    steps, waiting = fixing.plan(diagnosis.results, diagnosis.context.host, file)
    for step in steps:
        print_notice(say("fix: {command}", command=step.do).render(lang))
        print_notice(say("undo: {command}", command=step.undo).render(lang))
        if not dry_run:
            fixing.apply(step)
    for remedy in waiting:
        print_notice(say("with --env-file FILE this line is added to FILE: {line}", line=remedy.text).render(lang))
    if not any(result.commands for result in diagnosis.results if result.status in _BAD):
        print_notice(say("nothing needs a fix: no check failed or warned").render(lang))
    elif not steps and not waiting:
        print_notice(say("nothing can be fixed automatically; run the commands above yourself").render(lang))
    elif dry_run:
        print_notice(say("nothing was changed (--dry-run)").render(lang))


def _list(lang: str) -> None:
    for check in all_checks():
        print_text(f"{check.code:<28} {SIDES[check.side].render(lang):<10} {check.title.render(lang)}")


def _paint(text: str, kind: str) -> str:
    return style(text, *_COLOURS[kind])


command.add_command(doctor_symbol.command)
