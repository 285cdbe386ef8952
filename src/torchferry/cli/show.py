"""`torchferry show`: one thing of a report with its code: a decision, a program, what a rule found, a place."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import click

from torchferry.cli.choices import Choices
from torchferry.cli.judging import within_project
from torchferry.cli.options import refuse_seen, selection_options
from torchferry.cli.output import terminal_layout
from torchferry.cli.scan import scanned
from torchferry.cli.settings import RunSettings, settle
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.finding import Finding
from torchferry.core.json_text import json_text
from torchferry.core.messages import say, translatable
from torchferry.core.record import NamedTuple
from torchferry.core.recorded_decisions import FILE, RecordedDecision
from torchferry.core.terminal import print_data, print_text
from torchferry.programs.model import JudgedProgram, Unread
from torchferry.report.decisions import ReportedDecision
from torchferry.report.excerpts import CodeReader
from torchferry.report.json_format import finding_object, program_object, unread_object
from torchferry.report.model import Report
from torchferry.report.show_format import lines, render_json
from torchferry.report.show_places import program_lines, rule_or_place_lines, settled_lines
from torchferry.report.text_layout import TextLayout


@click.command("show")
@click.argument("decision")
@selection_options
@click.option("-f", "--output-format", type=click.Choice(["text", "json"]), default="text", help="Form of the answer.")
def command(choices: Choices, decision: str, output_format: str) -> None:
    """Show one thing of `torchferry scan` whole, with its code: a decision, a program, a rule's findings, a place.

    DECISION is the id of a decision, also of a settled one, or a program, a rule, `file` or `file:line`, as the report
    prints it; PATHS are those of the scan. A decision has its choices, and a program the way to what it comes to.
    """
    refuse_seen(choices)
    choices = within_project(choices)
    setting = settle(choices, rewrite=False)
    report = scanned(setting, choices)
    chosen = _named(report, setting.request.selection.decided, decision)
    if chosen is None:
        chosen = decision_named(report, decision, (judged.program.title for judged in report.programs))
    if output_format == "json":
        print_data(_as_json(chosen, report, choices.lang))
        return
    layout = terminal_layout(choices.lang)
    for line in _as_text(chosen, report, setting, asked(choices, setting), layout, decision):
        for part in layout.limited(line):
            print_text(part)


class _FindingsThere(NamedTuple):
    """What was found by a rule or at a place, and what programs reach there and nobody has read."""

    findings: tuple[Finding, ...]
    unread: tuple[tuple[JudgedProgram, Unread], ...]


_Shown = ReportedDecision | RecordedDecision | JudgedProgram | _FindingsThere


def _named(report: Report, recorded: Iterable[RecordedDecision], name: str) -> _Shown | None:
    """Return what a name of a report stands for: of several things the first in the order of the help; None for none.

    A decision that is open comes before one that is settled; of a program the end of its path will do, where no other
    has it.
    """
    for decision in report.decisions.all:
        if name.casefold() == decision.id.casefold():
            return decision
    settled = [each for each in recorded if each.id.casefold() == name.casefold()]
    if settled:
        return settled[0]
    path = os.path.normpath(name).replace(os.sep, "/")
    programs = [each for each in report.programs if each.program.title in (name, path)]
    programs = programs or [each for each in report.programs if each.program.title.endswith(f"/{path}")]
    if len(programs) == 1:
        return programs[0]
    findings = tuple(each for each in report.findings if each.code == name.upper() or _is_at(each.location, path))
    unread = tuple((judged, each) for judged in report.programs for each in judged.unread if _is_at(each.place, path))
    return _FindingsThere(findings, unread) if findings or unread else None


def _is_at(place: object, path: str) -> bool:
    """Whether a place is in a file, on a line of it or the place itself, as the report writes these."""
    return f"{place}:".startswith(f"{path}:")


def _as_text(
    chosen: _Shown, report: Report, setting: RunSettings, paths: str, layout: TextLayout, name: str
) -> Iterator[str]:
    read = CodeReader(setting.root).around
    if isinstance(chosen, ReportedDecision):
        yield from lines(chosen, report.target, read, paths, layout)
    elif isinstance(chosen, RecordedDecision):
        yield from settled_lines(report, chosen, read, layout)
    elif isinstance(chosen, JudgedProgram):
        yield from program_lines(report, chosen, read, layout)
    else:
        yield from rule_or_place_lines(report, name, chosen.findings, chosen.unread, read, layout)


def _as_json(chosen: _Shown, report: Report, lang: str) -> str:
    if isinstance(chosen, ReportedDecision):
        return render_json(chosen, report.target, lang)
    document: dict[str, Any]
    if isinstance(chosen, JudgedProgram):
        waits = report.decisions.of_program.get(chosen.program.title, ())
        document = {**program_object(chosen, lang), "waits_for": list(waits)}
    elif isinstance(chosen, RecordedDecision):
        findings = [each for each in report.findings if chosen.holds_for(*each.key)]
        document = {
            **{key: getattr(chosen, key) for key in ("id", "target", "choice", "by", "why")},
            "findings": [finding_object(each, lang) for each in findings],
        }
    else:
        document = {
            "findings": [finding_object(each, lang) for each in chosen.findings],
            "unread": [
                {"program": judged.program.title, **unread_object(unread, lang)} for judged, unread in chosen.unread
            ],
        }
    return json_text(document)


def decision_named(report: Report, name: str, others: Iterable[str] = ()) -> ReportedDecision:
    """Return the decision with an id.

    Args:
        report: The report.
        name: The id.
        others: What else has a name that could have been meant.

    Raises:
        UsageError: the report has none with it.
    """
    every = report.decisions.all
    for decision in every:
        if decision.id == name:
            return decision
    if not every:
        raise UsageError(say("unknown decision `{name}`: this scan leaves nothing to decide", name=name))
    # translators: the kind of a name that is unknown, as in "unknown decision `x`"
    error = unknown_name(translatable("decision"), name, [*(decision.id for decision in every), *others])
    raise UsageError(say("{error}: this scan does not list it; it may be settled", error=error.message), error.advice)


def refuse_settled(report: Report, recorded: Iterable[RecordedDecision], name: str) -> None:
    """Refuse to decide what is decided.

    Raises:
        UsageError: no open decision has the id, and a settled one has it.
    """
    settled = [each for each in recorded if each.id == name]
    if settled and all(each.id != name for each in report.decisions.all):
        values = {"id": name, "name": settled[0].by, "choice": settled[0].choice}
        raise UsageError(
            say("`{id}` is settled: {name} chose `{choice}`", **values),
            say("to decide again, remove its entry from {file} first", file=FILE),
        )


def asked(choices: Choices, setting: RunSettings) -> str:
    """Return the paths and the target as a command takes them."""
    return f"{' '.join(shlex.quote(str(path)) for path in choices.paths)} -t {setting.target}"
