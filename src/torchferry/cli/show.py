"""`torchferry show`: one decision of a report, with its code, the programs that wait for it, and its choices."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.judging import within_project
from torchferry.cli.options import refuse_seen, selection_options
from torchferry.cli.output import terminal_layout
from torchferry.cli.scan import scanned
from torchferry.cli.settings import RunSettings, settle
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.files import read_regular
from torchferry.core.finding import Location
from torchferry.core.messages import say, translatable
from torchferry.core.terminal import print_data, print_text
from torchferry.report.decisions import ReportedDecision
from torchferry.report.model import Report
from torchferry.report.show_format import AROUND, lines, render_json
from torchferry.source.document import Document
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import kind_of
from torchferry.source.text import UndecodableError


@click.command("show")
@click.argument("decision")
@selection_options
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def command(choices: Choices, decision: str, output_format: str) -> None:
    """Show one decision of `torchferry scan`: what it is, the choices, the programs, and each place with its code.

    DECISION is its id, as the report prints it; PATHS are those of the scan.
    """
    refuse_seen(choices)
    choices = within_project(choices)
    setting = settle(choices, rewrite=False)
    report = scanned(setting, choices)
    chosen = decision_named(report, decision)
    if output_format == "json":
        print_data(render_json(chosen, report.target, choices.lang))
        return
    layout = terminal_layout(choices.lang)
    for line in lines(chosen, report.target, _CodeReader(setting).around, asked(choices, setting), layout):
        print_text(line)


def decision_named(report: Report, name: str) -> ReportedDecision:
    """Return the decision with an id.

    Raises:
        UsageError: the report has none with it.
    """
    every = report.decisions.all
    for decision in every:
        if decision.id == name:
            return decision
    if not every:
        raise UsageError(say("`{name}` is not open: nothing is left to decide", name=name))
    # translators: the kind of a name that is unknown, as in "unknown decision `x`"
    error = unknown_name(translatable("decision"), name, [decision.id for decision in every])
    raise UsageError(say("{error}: it is settled, or was never one", error=error.message), error.advice)


def asked(choices: Choices, setting: RunSettings) -> str:
    """Return the paths and the target as a command takes them."""
    return f"{' '.join(shlex.quote(str(path)) for path in choices.paths)} -t {setting.target}"


class _CodeReader:
    """Reads the code around places, each file once.

    Args:
        setting: The run, whose root the places are counted from.
    """

    def __init__(self, setting: RunSettings) -> None:
        self._root: Path = setting.root
        self._lines: dict[tuple[str, int], Sequence[str]] = {}

    def around(self, place: Location) -> Sequence[tuple[int, str]]:
        """Return the lines around a place with their numbers, from 1; none of what cannot be read."""
        key = (place.path, place.cell)
        if key not in self._lines:
            self._lines[key] = self._read(place)
        text = self._lines[key]
        first, last = max(place.line - AROUND, 1), min(place.end_line + AROUND, len(text), place.line + 4 * AROUND)
        return [(number, text[number - 1]) for number in range(first, last + 1)]

    def _read(self, place: Location) -> Sequence[str]:
        kind = kind_of(place.path)
        if kind is None:
            return ()
        try:
            document = Document.read(place.path, kind, read_regular(self._root / place.path))
        except (OSError, UndecodableError, NotJsonError):
            return ()
        if not place.cell:
            return document.source.text.split("\n")
        cells = document.notebook.cells if document.notebook is not None else ()
        return next((cell.text.split("\n") for cell in cells if cell.number == place.cell), ())
