"""`torchferry show`: one decision of a report, with its code, the programs that wait for it, and its choices."""

from __future__ import annotations

import shlex

import click

from torchferry.cli.choices import Choices
from torchferry.cli.judging import within_project
from torchferry.cli.options import refuse_seen, selection_options
from torchferry.cli.output import terminal_layout
from torchferry.cli.scan import scanned
from torchferry.cli.settings import RunSettings, settle
from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import say, translatable
from torchferry.core.terminal import print_data, print_text
from torchferry.report.decisions import ReportedDecision
from torchferry.report.excerpts import CodeReader
from torchferry.report.model import Report
from torchferry.report.show_format import lines, render_json


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
    for line in lines(chosen, report.target, CodeReader(setting.root).around, asked(choices, setting), layout):
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
        raise UsageError(say("unknown decision `{name}`: this scan leaves nothing to decide", name=name))
    # translators: the kind of a name that is unknown, as in "unknown decision `x`"
    error = unknown_name(translatable("decision"), name, [decision.id for decision in every])
    raise UsageError(say("{error}: this scan does not list it; it may be settled", error=error.message), error.advice)


def asked(choices: Choices, setting: RunSettings) -> str:
    """Return the paths and the target as a command takes them."""
    return f"{' '.join(shlex.quote(str(path)) for path in choices.paths)} -t {setting.target}"
