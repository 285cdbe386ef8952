"""`torchferry accept`: whether a migrated project keeps what was promised of it, with the evidence."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from torchferry.acceptance import acceptfile, evidence, html_page, report, stages
from torchferry.acceptance.card_use import is_red_for_more, is_without_card
from torchferry.acceptance.gates import STAGES, GateStatus
from torchferry.acceptance.situation import Situation
from torchferry.acceptance.soak import forget, state_file
from torchferry.acceptance.units import duration, typed, words
from torchferry.backends.target import Target
from torchferry.cli import accept_init, accept_metric
from torchferry.cli.completion import target_option
from torchferry.cli.examination import allow_cpu_option
from torchferry.cli.named_target import named_target
from torchferry.cli.writing import creatable
from torchferry.core import exitcodes
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Message, language, say
from torchferry.core.terminal import print_notice, print_text, style
from torchferry.rehearsal.config import Rehearsal, prepare
from torchferry.rehearsal.driver.plugin import UNSAID

_OF_BASELINE = ("numbers", "outputs", "logs")
_COLOURS = {"green": ("green",), "red": ("red", "bold"), "not-judged": ("yellow",)}


@click.group("accept", invoke_without_command=True)
@target_option()
@click.option("--rehearse", is_flag=True, help="Judge on the simulated card; speed is then not judged.")
@click.option("--card", default="", metavar="NAME", help="With --rehearse: model of the card.")
@click.option("--devices", type=click.IntRange(1, 16), default=None, help="With --rehearse: number of devices.")
@click.option(
    "--plugin",
    default=UNSAID,
    metavar="PLUGIN",
    help="With --rehearse: the plugin, as in `torchferry rehearse --plugin`.",
)
@click.option(
    "--fault",
    multiple=True,
    metavar="SETTINGS",
    help="With --rehearse: inject a fault, as in `torchferry rehearse --fault`, to see which gate "
    "turns red; nothing is accepted.",
)
@click.option("--only", multiple=True, metavar="STAGE", help="Judge only this stage; can be repeated.")
@click.option(
    "--soak",
    default="",
    metavar="TIME",
    help="Also repeat the command for this time, such as 2h; an interrupted soak resumes.",
)
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path(acceptfile.NAME),
    show_default=True,
    help="The accept file; its folder is the project.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    callback=creatable,
    default=Path("evidence"),
    show_default=True,
    help="Folder for the evidence; it must not exist, or be evidence of an earlier run.",
)
@click.option(
    "--baseline", is_flag=True, help="Run the baseline's command here, to see whether its metrics are reproduced."
)
@allow_cpu_option
@click.option("--show", is_flag=True, help="Print the commands that would run, and run nothing.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default=None, help="Language of the output.")
@click.pass_context
def command(
    context: click.Context,
    target: str,
    rehearse: bool,
    card: str,
    devices: int | None,
    plugin: str,
    fault: tuple[str, ...],
    only: tuple[str, ...],
    soak: str,
    file: Path,
    out: Path,
    baseline: bool,
    allow_cpu: bool,
    show: bool,
    lang: str | None,
) -> None:
    """Judge a migrated project by torchferry.accept.toml, and keep the evidence.

    The stages are: environment, migration, syntax, loads, runs, numbers, outputs, memory, speed, stability, errors,
    logs, documents. A gate that cannot be judged says why, and is never green. Ends with 1 when a gate is red, and
    with 3 when no accelerator was used and nothing else is red. The commands of the file are run; --show prints them
    and runs nothing.

    \b
    torchferry accept init --log cuda.log          write the file
    torchferry accept --rehearse -t NAME           judge on the simulated card
    torchferry accept -t NAME --soak 2h            judge on the card
    torchferry accept metric val.log -m mIoU --at-least 84.96
    """
    if context.invoked_subcommand is not None:
        return
    lang = lang or language()
    for name in only:
        if name not in STAGES:
            # translators: the kind of a name that is unknown, as in "unknown stage `x`"
            raise unknown_name("stage", name, STAGES)
    if not file.exists():
        raise UsageError(
            say("there is no {path}", path=file), say("write one with `torchferry accept init`, and complete it")
        )
    accepted = acceptfile.read(file)
    resolved, rehearsal = _target(named_target(target, file.absolute().parent), rehearse, card, devices, plugin, fault)
    if baseline and (rehearse or soak or set(only) - set(_OF_BASELINE)):
        raise UsageError(
            say(
                "--baseline cannot be used with --rehearse or --soak, and --only can choose only {stages} for it",
                stages=", ".join(_OF_BASELINE),
            )
        )
    chosen = tuple(stage for stage in (_OF_BASELINE if baseline else STAGES) if not only or stage in only)
    situation = Situation(
        file=accepted,
        target=resolved,
        rehearsal=rehearsal,
        folder=Path(),
        tell=lambda message: print_notice(f"torchferry: {message.render(lang)}"),
        allow_cpu=allow_cpu,
        soak_seconds=_seconds(soak),
        ignored=(out.name, file.name),
        reproducing=baseline,
    )
    situation.soak_state = state_file(situation)
    for line in _commands(situation, chosen):
        (print_text if show else print_notice)(line.render(lang))
    if show:
        return
    partial = bool(only) or baseline or bool(fault)
    with evidence.gathered(out) as folder:
        situation.folder = folder
        gates = evidence.without_secrets(stages.judge(situation, chosen))
        document = evidence.document(situation, gates, chosen, partial=partial)
        page = html_page.page(situation, document, gates, partial, lang)
        evidence.write(folder, document, page, situation.made)
    if "stability" in chosen:
        forget(situation.soak_state)
    for text in report.lines(situation, gates, lang, partial, _paint):
        print_text(text)
    print_text(say("the evidence is in {path}", path=out).render(lang))
    if is_without_card(situation) and not is_red_for_more(gates):
        sys.exit(exitcodes.NO_ACCELERATOR)
    red = any(gate.status is GateStatus.RED for gate in gates)
    sys.exit(exitcodes.FINDINGS if red or fault else exitcodes.CLEAN)  # a fault that no gate sees is a finding too


def _target(
    wanted: Target, rehearse: bool, card: str, devices: int | None, plugin: str, faults: tuple[str, ...]
) -> tuple[Target, Rehearsal | None]:
    if not rehearse:
        if card or devices is not None or plugin != UNSAID or faults:
            raise UsageError(say("--card, --devices, --plugin and --fault need --rehearse"))
        return wanted, None
    rehearsal = prepare(str(wanted), card, devices or 0, None, faults, plugin)
    return rehearsal.resolved(), rehearsal


def _seconds(text: str) -> float:
    if not text:
        return 0.0
    try:
        return duration(text)
    except ValueError:
        raise UsageError(say("--soak: `{text}` is not a time", text=text), say("write 90 s, 30 min or 2h")) from None


def _commands(situation: Situation, chosen: tuple[str, ...]) -> list[Message]:
    """Return the commands of the file that will run, before any does."""
    shown: list[Message] = []
    command = situation.command
    root = situation.file.root
    if command is not None and set(chosen) - {"environment", "migration", "syntax", "documents"}:
        shown.append(say("will run in {folder}: {command}", folder=root / command.folder, command=typed(command.words)))
    documents = situation.file.documents
    if documents is not None and "documents" in chosen:
        commands = [typed(words(text)) for text in documents.commands]
        shown += [say("will run in a clean copy: {command}", command=text) for text in commands]
    return shown


def _paint(text: str, kind: str) -> str:
    return style(text, *_COLOURS[kind])


command.add_command(accept_init.command)
command.add_command(accept_metric.command)
