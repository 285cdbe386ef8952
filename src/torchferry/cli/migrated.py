"""What a migration says when its files are examined: the programs' verdicts, the report or summary, the exit code.

`migrate` imports this while other processes examine files.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.cli.device_module import placement_remarks
from torchferry.cli.judging import Verdicts, verdicts, whole, within_project
from torchferry.cli.output import write_report
from torchferry.cli.settings import RunSettings, settings_lines
from torchferry.core import exitcodes
from torchferry.core.finding import Grade
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import print_notice, print_text
from torchferry.migration.plan import Plan
from torchferry.migration.remarks import remarks
from torchferry.programs.verdicts.blocking import blocking, rewritten
from torchferry.report.decision_lines import decision_lines, fix_lines
from torchferry.report.decisions import decisions_of
from torchferry.report.full_format import blocker_lines, by_file, failure_lines
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import BEYOND_WORK, ProjectVerdict, Report, diffs_of
from torchferry.report.summary import MigrationOutput, summary
from torchferry.report.text_format import unresolved_lines
from torchferry.report.text_layout import TextLayout

__all__ = ["MigrationOutput", "Shown", "finish", "judge", "report_of", "status", "tell_work", "warn"]


class Shown(NamedTuple):
    """How the outcome is shown: the form, where to, and how much of it."""

    form: str
    file: Path | None
    quiet: bool
    verbose: bool


def status(planned: Plan, report: Report, changes_count: bool = False) -> int:
    """Return the exit code: what is left to do or not known counts, and with --check and --diff what would change."""
    if planned.analysis.failures:
        return exitcodes.ERROR
    is_open = report.verdict in (ProjectVerdict.MAY_NEED, ProjectVerdict.INCOMPLETE)
    counts = _is_work_left(planned) or is_open or (changes_count and planned.writes)
    return exitcodes.FINDINGS if counts else exitcodes.CLEAN


def _is_work_left(planned: Plan) -> bool:
    return any(finding.grade is not Grade.NOTE for finding in planned.remaining)


def finish(
    setting: RunSettings,
    planned: Plan,
    judged: Verdicts,
    written: MigrationOutput,
    shown: Shown,
    choices: Choices,
    changes_count: bool = False,
    could_be_tested: bool = True,
) -> None:
    """Say what was done and what remains, and end with the exit code for it.

    Args:
        setting: What the command was asked.
        planned: The migration, judged by the programs.
        judged: The programs, judged by the files as they are.
        written: How it was written.
        shown: How the outcome is shown.
        choices: What was asked for on the command line.
        changes_count: Whether what would change counts as something that remains.
        could_be_tested: Whether a test on the device that was asked for could begin.
    """
    written = written._replace(style=setting.style, options=setting.options)
    form, file, lang = shown.form, shown.file, choices.lang
    # What nothing is written for is reported as it is: in the forms that have no place for both, what would change.
    as_it_is = written.way == "nothing" and (form != "text" or file is not None)
    report = report_of(setting, planned, judged, as_it_is)
    if form == "text" and file is None:
        before = decisions_of(report.target, planned.findings, judged.programs).all
        left = {each.id for each in report.decisions.all}
        settled = [each.id for each in before if each.id not in left]
        lines = summary(report, planned.fixed, planned.writes, setting.target, written, lang, shown.verbose, settled)
        if shown.verbose:
            applied = planned.fixed if written.way != "nothing" else []  # else they are listed as what would change
            for line in (*settings_lines(setting.config, choices), *by_file(applied, lang, verbose=True), ""):
                print_text(line)
        for line in islice(lines, 1) if shown.quiet else lines:
            print_text(line)
        if shown.quiet and report.verdict in BEYOND_WORK:
            print_notice(verdict_sentence(report).render(lang))
    else:
        # Where the files of the report lie: of a patch, and of what stands beside the originals, nowhere as a whole.
        folder = written.place if written.way in ("in place", "copy", "nothing") else None
        paths = [written.place] if written.way == "copy" else choices.paths
        write_report(report, form, lang, file, paths=paths, root=folder)
        warn(report, lang)
    failed = written.device_test is not None and not written.device_test.good
    if not could_be_tested:
        sys.exit(exitcodes.ERROR)
    sys.exit(status(planned, report, changes_count) or (exitcodes.FINDINGS if failed else exitcodes.CLEAN))


def judge(setting: RunSettings, choices: Choices, planned: Plan, shown: Shown, *, writing: bool) -> Verdicts:
    """Return the verdicts of the programs: by the files as they are, and where all that they may reach is there.

    The summary of what was written says of them what blocks, and where no finding remains, what could not be resolved:
    where findings remain of which none can block, nobody waits for the rest.
    """
    summed_up = writing and shown.form == "text" and shown.file is None
    can_block = any(finding.blocker or finding.lacks for finding in planned.findings)
    if within_project(choices) is not choices or (summed_up and _is_work_left(planned) and not can_block):
        return Verdicts()
    return verdicts(setting, choices, whole(setting, choices, planned.analysis))


def judged_plan(setting: RunSettings, planned: Plan, judged: Verdicts) -> Plan:
    """Return a migration whose findings block where a program comes to them, and nowhere else."""
    decisions = setting.request.selection.decided
    findings = [*blocking(planned.findings, judged.programs, decisions)]
    remaining = [*blocking(planned.remaining, judged.programs, decisions)]
    return planned._replace(findings=findings, remaining=remaining)


def report_of(setting: RunSettings, planned: Plan, judged: Verdicts, as_it_is: bool = False) -> Report:
    """Return the report of what remains after the migration, or of the project as it is.

    Args:
        setting: What the command was asked.
        planned: The migration, judged by the programs.
        judged: The programs, judged by the files as they are.
        as_it_is: Whether the findings are those of the project as it is.
    """
    shown = planned.findings if as_it_is else planned.remaining
    programs = judged.programs if as_it_is else tuple(rewritten(judged.programs, planned.remaining))
    return Report(
        target=str(setting.target),
        target_title=setting.target.title,
        root=setting.name,
        files=len(planned.analysis.examined),
        findings=tuple(sorted(shown, key=lambda finding: finding.location.order)),
        failures=tuple(planned.analysis.failures),
        entry_points=planned.analysis.entry_points,
        remarks=(
            *remarks(setting.root, setting.target, planned.analysis, setting.request.redirected),
            *(() if setting.placement is None else placement_remarks(setting.placement)),
            *judged.remarks,
        ),
        diffs=tuple(diffs_of(planned.analysis)),
        changes=tuple(write.path for write in planned.writes),
        ignored=planned.analysis.ignored,
        programs=programs,
        unexamined=judged.unexamined,
        partial=judged.partial,
        without_code=judged.without_code,
        native=setting.native,
        style=setting.style,
    )


def warn(report: Report, lang: str) -> None:
    """Say on standard error what a patch or a file does not show: that the project is blocked, or not known whole.

    Files that were not examined are named: nothing else in a patch speaks of them.
    """
    if report.verdict in BEYOND_WORK:
        print_notice(verdict_sentence(report).render(lang))
        unknown = by_file(report.not_examined, lang) if report.verdict is ProjectVerdict.INCOMPLETE else ()
        for line in (*blocker_lines(report, lang), *unknown, *failure_lines(report, lang)):
            print_notice(line)


def tell_work(report: Report, lang: str) -> None:
    """Say on standard error what is left to do."""
    decisions, layout = report.decisions, TextLayout(lang)
    for line in (
        *unresolved_lines(report, layout),
        *decision_lines(decisions.to_decide, report.target, layout),
        *fix_lines(decisions.to_read, layout),
        *failure_lines(report, lang),
    ):
        print_notice(line)
