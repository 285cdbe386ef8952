"""`torchferry advise`: what would make a program faster on the target, with evidence for each piece of advice."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from torchferry.advice import html_page, report
from torchferry.advice.advising import advise, require_same_program
from torchferry.advice.measured import MeasuredRun
from torchferry.advice.training_code import TrainingCode
from torchferry.cli.choices import Choices
from torchferry.cli.completion import target_option
from torchferry.cli.judging import within_project
from torchferry.cli.profile_options import lang_option
from torchferry.cli.settings import settle
from torchferry.cli.writing import file_option, write
from torchferry.core import env, exitcodes
from torchferry.core.coded_errors import NoSourcesError
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import language, say
from torchferry.core.progress import doing
from torchferry.profiling.comparison import open_run
from torchferry.rules.analysis import analyse
from torchferry.rules.attention.attention_package import AttentionPackage
from torchferry.rules.base import Rule
from torchferry.rules.family import Subject
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rule_facts, rules
from torchferry.source.kinds import Kind


@click.command("advise")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@target_option()
@click.option(
    "--trace",
    type=click.Path(exists=True, path_type=Path),
    help="Trace of a run of the program, or the folder that `torchferry profile` wrote.",
)
@click.option("--force", is_flag=True, help="Use the trace even if it names another program.")
@click.option("--check", is_flag=True, help="Exit with 1 if there is anything to advise.")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Files or folders to leave out; can be repeated.")
@click.option(
    "-f",
    "--output-format",
    type=click.Choice(["text", "json", "markdown", "html"]),
    default="text",
    help="Form of the report.",
)
@file_option
@lang_option
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Number of processes that read files.")
def command(
    paths: tuple[Path, ...],
    target: str,
    trace: Path | None,
    force: bool,
    check: bool,
    exclude: tuple[str, ...],
    output_format: str,
    output_file: Path | None,
    lang: str | None,
    jobs: int | None,
) -> None:
    """Say what would make a program faster on the target: where, on what evidence, with which effect, by which edit.

    PATHS are the project's folder, or its programs; nothing is written in it. With a trace, what takes the largest
    share of a step comes first, and what the trace contradicts is left out. Without one, all advice is from the code
    alone.

    \b
    torchferry advise --target NAME .
    torchferry advise --target NAME --trace profile train.py
    """
    lang = lang or language()
    choices = Choices(paths or (Path("."),), target, (), (), exclude, lang, jobs or env.jobs(), None, None, False, None)
    choices = within_project(choices)
    setting = settle(choices._replace(paths=(choices.root,), around=None), rewrite=False)
    attention = [rule for rule in rules() if _says_what_does_not_come_along(rule)]
    request = setting.request._replace(rules=attention, selection=Selection())
    analysis = analyse(request)
    if analysis.project is None or not analysis.project.paths:
        raise NoSourcesError(say("{path} has no Python file", path=setting.root))
    code = TrainingCode(
        analysis.project, [item.outline for item in analysis.examined if item.outline is not None], choices.only
    )
    if choices.only and not code.named:
        raise NoSourcesError(say("{path} has no Python file", path=", ".join(map(str, paths))))
    measured = None
    if trace is not None:
        measured = MeasuredRun(open_run(trace))
        if not force:
            require_same_program(code, measured)
    notebooks = 0 if choices.only else sum(entry.kind is Kind.NOTEBOOK for entry in request.listing.entries)
    with doing(say("looking for advice")):
        counsel = advise(code, setting.target, analysis.findings, measured, notebooks)
    text: str | Iterable[str]
    if output_format == "json":
        text = report.json_text(counsel, setting.target)
    elif output_format == "markdown":
        text = report.markdown(counsel, setting.target, lang).split("\n")
    elif output_format == "html":
        text = html_page.page(counsel, setting.target, lang)
    else:
        text = report.text_lines(counsel, setting.target, lang)
    write(text, output_file)
    for failure in analysis.failures:
        raise TorchferryError(say("{path}: internal error", path=failure.path))
    sys.exit(exitcodes.FINDINGS if check and (counsel.advice or code.unread) else exitcodes.CLEAN)


def _says_what_does_not_come_along(rule: Rule) -> bool:
    """Whether the findings of a rule say that a package of attention kernels is not there on the target."""
    return isinstance(rule, AttentionPackage) or rule_facts(rule.CODE).about is Subject.REQUIREMENT
