"""What a migration says when it is done: what was changed, what was checked, what remains, what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.importable import is_importable
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.migration.transaction import Write
from torchferry.report.decision_lines import decision_lines, fix_lines
from torchferry.report.full_format import blocker_lines, by_file, failure_lines
from torchferry.report.headline import verdict_sentence, work_and_unresolved
from torchferry.report.model import BEYOND_WORK, ProjectVerdict, Report
from torchferry.report.programs import lines_of
from torchferry.report.text_format import accepted_lines, unresolved_lines
from torchferry.report.text_layout import TextLayout
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts

_MOST = 40
"""Findings that are listed; the rest is counted, and `torchferry scan` lists it."""


class DeviceTest(NamedTuple):
    """How a migrated program ran on the simulated card: whether well, in words, and the command."""

    good: bool
    outcome: Message
    command: str


class MigrationOutput(NamedTuple):
    """How a migration was written: `in place`, `copy`, `beside`, `patch` or `nothing`, where, and in which style.

    `options` are the further options that decide what is written; the test on the device is there where one was asked
    for.
    """

    way: str
    place: Path
    style: str = "native"
    options: tuple[str, ...] = ()
    device_test: DeviceTest | None = None


def summary(
    report: Report,
    fixed: list[Finding],
    writes: list[Write],
    target: Target,
    written: MigrationOutput,
    lang: str,
    verbose: bool = False,
    settled: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of the summary.

    Args:
        report: What remains.
        fixed: What was fixed.
        writes: The files that were written.
        target: The target.
        written: How.
        lang: The language.
        verbose: Whether every finding is listed, and how the grades came about that were changed.
        settled: The ids of the decisions that the fixes have settled.
    """
    yield _headline(report, fixed, writes, target, written).render(lang)
    if report.verdict in BEYOND_WORK:
        yield verdict_sentence(report).render(lang)
    for remark in report.remarks:
        yield visible(remark.render(lang))
    yield ""
    yield from _table(fixed, writes, target, written, lang)
    test = written.device_test
    if test is not None and test.good and report.verdict is ProjectVerdict.READY and not report.unresolved:
        yield ""
        yield say("Ready on the simulated card; the card itself is still to be tried.").render(lang)
    yield from blocker_lines(report, lang)
    yield from failure_lines(report, lang)
    if written.way == "nothing" and fixed:
        yield ""
        yield say("What would change: {count}", count=len(fixed)).render(lang)
        yield from _listed(sorted(fixed, key=lambda finding: finding.location.order), lang, verbose)
    work = [finding for finding in report.findings if finding.grade is not Grade.NOTE]
    notes = [finding for finding in report.findings if finding.grade is Grade.NOTE]
    yield ""
    if settled:
        yield f"  ✓ {say('settled by the fixes: {names}', names=', '.join(map(visible, settled))).render(lang)}"
    layout = TextLayout(lang, verbose=verbose)
    if work:
        decisions = report.decisions
        remaining = work_and_unresolved(report) or say("what was not examined")
        yield say("What remains for you: {work}.", work=remaining).render(lang)
        yield from unresolved_lines(report, layout)
        yield from _lines_of_files_and_runs(work, lang)
        yield from decision_lines(decisions.to_decide, report.target, layout)
        yield from fix_lines(decisions.to_read, layout)
        if verbose:
            yield from by_file(work, lang, verbose=True)
    elif report.verdict is ProjectVerdict.MAY_NEED:
        yield say("Nothing remains for you to do; what the files do not say:").render(lang)
        for judged in report.programs:
            for message in lines_of(judged._replace(unverified=())) if judged.undecided else ():
                yield visible(f"  {judged.program.title}: {message.render(lang)}")
        yield from unresolved_lines(report, layout)
    elif report.verdict is ProjectVerdict.INCOMPLETE:
        yield say("Nothing remains for you in what was examined; what was not examined is named above.").render(lang)
        yield from unresolved_lines(report, layout)
    elif report.unresolved:
        yield say("What remains for you: {work}.", work=work_and_unresolved(report) or say("nothing")).render(lang)
        yield from unresolved_lines(report, layout)
    else:
        yield say("Nothing remains for you to do.").render(lang)
    yield from accepted_lines(report, layout)
    if notes:
        yield ""
    if notes and verbose:
        yield say_plural(
            "{count} note on a place that stays as it is:",
            "{count} notes on places that stay as they are:",
            count=len(notes),
        ).render(lang)
        yield from _listed(notes, lang, verbose)
    elif notes and written.style == "shim":
        yield say_plural(
            "{count} note on a place that stays as it is.",
            "{count} notes on places that stay as they are, most of them redirected.",
            count=len(notes),
        ).render(lang)
    elif notes:
        yield say_plural(
            "{count} note on a place that stays as it is; `torchferry scan -v` shows it.",
            "{count} notes on places that stay as they are; `torchferry scan -v` shows them.",
            count=len(notes),
        ).render(lang)
    yield ""
    yield from _next(report, work, writes, target, written, lang)


def _lines_of_files_and_runs(work: list[Finding], lang: str) -> Iterator[str]:
    """Yield why files were not examined, and what only a run has seen: an answer in few words does not say it."""
    about = [finding for finding in work if rule_facts(finding.code).about in (Subject.FILE, Subject.RUN)]
    for finding in about[:_MOST]:
        yield visible(f"  {finding.location}: {finding.message.render(lang)}")


def _listed(findings: list[Finding], lang: str, verbose: bool) -> Iterator[str]:
    yield from by_file(findings if verbose else findings[:_MOST], lang, verbose=verbose)
    if len(findings) > _MOST and not verbose:
        yield say("... and {count} more", count=len(findings) - _MOST).render(lang)


def _headline(
    report: Report, fixed: list[Finding], writes: list[Write], target: Target, written: MigrationOutput
) -> Message:
    values = {
        "root": report.root,
        "target": target.title,
        "fixes": say_plural("{count} fix", "{count} fixes", count=len(fixed)),
        "files": say_plural("{count} file", "{count} files", count=len(writes)),
        "place": written.place,
    }
    if not writes:
        return say("{root}: nothing to rewrite for {target}.", **values)
    if written.way == "nothing":
        return say("{root}: {fixes} in {files} would be applied for {target}; no file was changed.", **values)
    if written.way == "patch":
        return say("{root}: {fixes} in {files} for {target}, as a patch in {place}.", **values)
    if written.way == "copy":
        return say("{root}: {fixes} in {files} for {target}, in the copy {place}.", **values)
    if written.way == "beside":
        values["files"] = say_plural("{count} new file", "{count} new files", count=len(writes))
        return say("{root}: {fixes} for {target}, in {files} next to the originals.", **values)
    return say("{root}: {fixes} applied in {files} for {target}.", **values)


def _files(count: int, written: MigrationOutput) -> Message:
    return (
        say("{count} would be written", count=count)
        if written.way == "nothing"
        else say("{count} written", count=count)
    )


def _table(
    fixed: list[Finding], writes: list[Write], target: Target, written: MigrationOutput, lang: str
) -> Iterator[str]:
    """Yield what is known to hold now, and what is not."""
    plugin = target.backend.PLUGIN
    paths = sum(rule_facts(finding.code).about is Subject.PATH for finding in fixed)
    python = sum(write.path.endswith(".py") for write in writes)
    installed = is_importable(plugin)
    environment = (
        say("{plugin} can be imported here", plugin=plugin)
        if installed
        else say("{plugin} is not installed here; {install}", plugin=plugin, install=target.install)
    )
    rows = [
        (say_in("row", "environment"), installed, environment),
        (say_in("row", "files"), written.way != "nothing", _files(len(writes), written)),
        (say_in("row", "paths"), True, say("{count} rewritten from your `paths` table", count=paths)),
        (
            say_in("row", "syntax"),
            True,
            say_plural(
                "{count} Python file parses, and a second run changes nothing",
                "all {count} Python files parse, and a second run changes nothing",
                count=python,
            ),
        ),
    ]
    test = written.device_test
    if test is not None:
        device = say("`{command}`: {outcome}", command=test.command, outcome=test.outcome)
        rows.append((say_in("row", "device"), test.good, device))
    width = max(len(title.render(lang)) for title, _, _ in rows)
    for title, good, text in rows:
        failed = test is not None and not test.good and (title, good, text) == rows[-1]
        mark = "✓" if good else "✗" if failed else "-"
        yield f"  {mark} {title.render(lang):{width}}  {visible(text.render(lang))}"


def _next(
    report: Report, work: list[Finding], writes: list[Write], target: Target, written: MigrationOutput, lang: str
) -> Iterator[str]:
    """Yield the commands that come next."""
    place = visible(str(written.place))
    style = () if written.style == "native" else (f"--style {written.style}",)
    again = " ".join([f"torchferry migrate {place} --target {target}", *style, *written.options])
    if any(finding.grade is Grade.UNSAFE for finding in work) and written.way in ("in place", "nothing"):
        purpose = say("apply the fixes that you have read")
        yield _command(f"{again} --unsafe-fixes", purpose, lang)
    if written.way == "nothing" and writes:
        yield _command(again, say("apply the safe fixes"), lang)
    if written.way == "patch":
        yield _command(f"git apply {place}", say("apply the patch"), lang)
    if written.way in ("in place", "copy"):
        proof = f"torchferry scan {place} --target {target}" if written.style == "native" else f"{again} --check"
        yield _command(proof, say("review what remains"), lang)
    if report.native is not None and report.native.command:
        yield _command(visible(report.native.command), say("port the CUDA C++"), lang)
    programs = [path for path in report.entry_points if path.endswith(".py")]
    if written.way == "beside":  # the originals go on as they are; what was written is to be tried
        new = [[write.path for write in writes if write.path.startswith(path.removesuffix(".py"))] for path in programs]
        programs = [min(paths, key=len) for paths in new if paths]
    if written.way in ("in place", "copy", "beside") and programs:
        program = visible(str(written.place / programs[0]))
        tried = f"torchferry rehearse --target {target} -- python {program}"
        yield _command(tried, say("run it on a simulated card"), lang)
    setup_test = f"test_{target.name}_setup.py"  # of a kit
    if written.way != "nothing" and any(write.path == setup_test for write in writes):
        yield _command(f"python {setup_test}", say("test the machine that it is to run on"), lang)
    if written.way in ("in place", "beside") and writes:
        yield _command(f"torchferry undo {place}", say("restore every byte"), lang)


def _command(command: str, purpose: Message, lang: str) -> str:
    return f"  {command:<60}  # {purpose.render(lang)}"
