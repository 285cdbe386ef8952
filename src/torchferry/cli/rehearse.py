"""`torchferry rehearse`: run a command on a simulated card."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click

from torchferry.backends.operators import load_operators
from torchferry.backends.target import Target
from torchferry.backends.triton_front_end import front_end_of
from torchferry.cli import RehearsingCommand
from torchferry.cli.completion import target_option
from torchferry.cli.named_target import named_target
from torchferry.cli.writing import writable, write
from torchferry.core import exitcodes
from torchferry.core.messages import Message, language, say
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.rehearsal.aggregate import collect
from torchferry.rehearsal.config import prepare, verdicts
from torchferry.rehearsal.driver.plugin import UNSAID, not_taken
from torchferry.rehearsal.environments.entering import check_program, enter
from torchferry.rehearsal.environments.request import EnvironmentRequest, environment_request
from torchferry.rehearsal.environments.store import use
from torchferry.rehearsal.launcher import run
from torchferry.rehearsal.summary import document, lines, opening
from torchferry.rehearsal.visible_cards import environment_notes


@click.command("rehearse", cls=RehearsingCommand)
@target_option()
@click.option("--card", default="", metavar="NAME", help="Model of the card, such as 910B or S4000.")
@click.option("--devices", type=click.IntRange(1, 16), default=None, help="Number of devices.")
@click.option(
    "--profile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file that changes facts about the card.",
)
@click.option("--fault", multiple=True, metavar="SETTINGS", help="Inject a fault, such as op=aten.addmm,kind=nan.")
@click.option(
    "--fallback",
    multiple=True,
    metavar="OPERATOR",
    help="Run this operator on the CPU, such as aten::tril.out, and count it. Can be repeated.",
)
@click.option(
    "--plugin",
    default=UNSAID,
    metavar="PLUGIN",
    help="`installed` or the path of a wheel: the vendor's own plugin on a simulated driver; or "
    "`simulated`. Default: installed, where it is installed and the machine has no card.",
)
@click.option(
    "--beside-card",
    is_flag=True,
    help="With --plugin: rehearse even where this machine has a card; the card is hidden from the program.",
)
@click.option(
    "--races",
    is_flag=True,
    help="Also look for races: between streams, and of the host with copies that it has not waited for.",
)
@click.option(
    "--with",
    "packages",
    multiple=True,
    metavar="REQUIREMENT",
    help="Rehearse in an environment that has this, such as torch==2.9.0: made once, with torch for the CPU and the "
    "plugin that fits, and kept. Can be repeated.",
)
@click.option(
    "--with-requirements",
    "requirement_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also install what this file lists into that environment.",
)
@click.option("--python", default="", metavar="VERSION", help="Python of that environment, such as 3.11, or its path.")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 if something would fail on the card, or most of the work ran on the CPU.",
)
@click.option(
    "--summary-file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=writable,
    help="Also write the summary as JSON.",
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    target: str,
    card: str,
    devices: int | None,
    profile: Path | None,
    fault: tuple[str, ...],
    fallback: tuple[str, ...],
    plugin: str,
    beside_card: bool,
    races: bool,
    packages: tuple[str, ...],
    requirement_files: tuple[Path, ...],
    python: str,
    strict: bool,
    summary_file: Path | None,
    lang: str | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND on a simulated card, on the CPU.

    COMMAND is what you would type on the card's machine: `python train.py`, `torchrun ...`, `accelerate launch ...`, or
    a shell script that calls Python. The code meets the plugin's API, the card's memory, dtypes and operators, and its
    collective library. A summary lists what would fail there. It proves that code is right for the API; it says
    nothing about speed or accuracy on the card.

    \b
    torchferry rehearse -t NAME -- python train.py --epochs 1
    torchferry rehearse -t NAME --devices 2 -- torchrun --nproc_per_node 2 train.py
    torchferry rehearse -t NAME --with torch==2.9.0 --with einops -- python train.py
    """
    lang = lang or language()
    wanted = str(named_target(target, Path()))
    if packages or requirement_files or python:
        environment = environment_request(Target.requested(wanted), packages, requirement_files, python, plugin)
        options = _options_again(click.get_current_context(), target=wanted, lang=lang)
        _enter(environment, ["rehearse", *options, "--", *command], command[0], lang)
    rehearsal = prepare(
        wanted, card, devices or 0, profile, fault, plugin, beside_card=beside_card, fallback=fallback, races=races
    )
    print_notice(f"torchferry: {opening(rehearsal).render(lang)}")
    for note in environment_notes(rehearsal, os.environ):
        print_notice(f"torchferry: {note.render(lang)}")
    backend = rehearsal.resolved().backend
    for name in load_operators(backend).fallback_ignored:
        if name in os.environ:
            unread = say(
                "{name} is set, but nothing is known to read it; use --fallback to run operators on the CPU", name=name
            )
            print_notice(f"torchferry: {unread.render(lang)}")
    hint = not_taken(rehearsal.resolved().backend, plugin, wanted.partition("@")[2])
    if hint is not None:
        print_notice(f"torchferry: {hint.render(lang)}")
    with temporary_folder("torchferry-rehearsal-") as folder:
        code = run(list(command), rehearsal, folder)
        aggregate = collect(folder)
        found_by = verdicts(folder)
    first, *others = lines(rehearsal, aggregate, lang, code, found_by)
    print_notice(f"torchferry: {first}", *others)
    if aggregate.triton_launches and front_end_of(backend) is not None:
        launches = summary_file or Path("run.json")
        check = say(
            "the vendor's own front end compiles these kernels without the card: `torchferry triton check -t {target} "
            "--launches {file}`",
            target=wanted,
            file=launches,
        )
        if summary_file is None:
            check = say("{check}, once `--summary-file {file}` has recorded them", check=check, file=launches)
        print_notice(f"  {check.render(lang)}")
    if summary_file is not None:
        write(document(rehearsal, aggregate, code, list(command), found_by), summary_file)
    nothing = not aggregate.on_device or not aggregate.used
    if aggregate.could_not_begin:
        code = exitcodes.without_work(code)
    elif (
        code == 0 and strict and (aggregate.failures or aggregate.only_reported or nothing or aggregate.mostly_on_host)
    ):
        code = exitcodes.FINDINGS
    sys.exit(code)


_OF_ENVIRONMENT = frozenset({"packages", "requirement_files", "python"})
"""The options that say in which environment is rehearsed."""


def _options_again(context: click.Context, **instead: str) -> Iterator[str]:
    """Yield the options of a command as words for the same command in an environment, but for those that name it.

    Args:
        context: The command with what it was given.
        instead: Values that stand for those that were given.
    """
    values = {**context.params, **instead}
    for option in context.command.params:
        value = values.get(option.name or "")
        if not isinstance(option, click.Option) or option.name in _OF_ENVIRONMENT or value in (None, "", False):
            continue
        word = max(option.opts, key=len)
        if option.is_flag:
            yield word
            continue
        for each in value if option.multiple else (value,):
            yield from (word, str(each))


def _enter(asked: tuple[EnvironmentRequest, Message | None], arguments: list[str], program: str, lang: str) -> NoReturn:
    """Go on in an environment, with the plugin that is in it unless another one is asked for."""
    request, lacking = asked
    if lacking is not None:
        print_notice(f"torchferry: {lacking.render(lang)}")
    used = use(request)
    holds = say("environment {name}: torch {torch}", name=request.name, torch=request.torch)
    if request.plugin:
        holds = say("{environment}, {plugin}", environment=holds, plugin=request.plugin)
    if not request.packages and not request.requirement_files:
        holds = say(
            "{environment}, and nothing else that your program imports: add it with `--with PACKAGE` or "
            "`--with-requirements FILE`",
            environment=holds,
        )
    print_notice(f"torchferry: {holds.render(lang)}")
    check_program(used.environment, program)
    enter(used, arguments)
