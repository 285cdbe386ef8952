"""The parts of a page below its decisions: safe fixes and changes, programs, what stays, what was not examined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.installed.describing import package_message, state_message
from torchferry.programs.model import JudgedProgram
from torchferry.report.full_format import GRADE_TITLES, failure_lines
from torchferry.report.html_decisions import folded_list
from torchferry.report.html_text import (
    HtmlContext,
    HtmlPart,
    clipped,
    lines,
    marked,
    paragraphs,
    place_html,
    rule_id,
    rule_link,
    text,
)
from torchferry.report.model import Report
from torchferry.report.pages import page
from torchferry.report.programs import VERDICT_GRADES, unexamined_message, verdict_of
from torchferry.report.reasons import Reason, program_groups, reasons_of
from torchferry.report.side_by_side import DiffRow, LinePart, rows

CHANGES = 6_000_000
"""Characters of changed files that a page carries."""

_AROUND = 200
"""Characters shown before and after each change in a line that is too long."""

_OPEN = 20
"""Files that are listed before the others are folded away."""


def change_part(context: HtmlContext) -> HtmlPart | None:
    """Return the safe fixes file by file, each file with its change."""
    report = context.report
    count = report.by_grade[Grade.SAFE]
    by_path = _by_path(finding for finding in report.findings if finding.grade is Grade.SAFE)
    diffs = {diff.path: diff for diff in report.diffs}
    if not by_path and not diffs:
        return None
    title = say_in("HTML report", "Changes")
    if count:
        fixes = say_plural("one safe fix", "{count} safe fixes", count=count)
        where = say_plural("one file", "{count} files", count=len(by_path))
        title = say("`torchferry migrate` makes {fixes} in {files}.", fixes=fixes, files=where)
    room = CHANGES
    left_out = 0
    files = []
    for path in sorted({*by_path, *diffs}):
        findings, diff = by_path.get(path, []), diffs.get(path)
        counts = []
        if findings:
            counts.append(say_plural("one safe fix", "{count} safe fixes", count=len(findings)))
        change = ""
        if diff is not None and room > 0:
            compared = list(rows(diff.before, diff.after))
            counts.append(_changed_lines(compared))
            change = f'<div class="source change">{"".join(_change(compared, context))}</div>'
            room -= len(change)
        elif diff is not None:
            left_out += 1
        files.append(_file(context, path, counts, findings, change))
    body = [*_folded_files(context, files)]
    if left_out:
        command = f"torchferry migrate {context.asked} --diff" if count else ""
        body.append(f'<p class="left">{context.marked(_changes_elsewhere(left_out, command))}</p>')
    return HtmlPart("changes", context.title(title).rstrip(".。"), body, has_findings=True)


def _changes_elsewhere(count: int, command: str) -> Message:
    if not command:  # they are made
        return say_plural(
            "The change of one file is not shown here.", "The changes of {count} files are not shown here.", count=count
        )
    return say_plural(
        "The change of one file is not shown here; `{command}` prints it.",
        "The changes of {count} files are not shown here; `{command}` prints them.",
        count=count,
        command=command,
    )


def _changed_lines(compared: Sequence[DiffRow]) -> Message:
    count = sum(row.changed for row in compared)
    return say_plural("{count} line changes", "{count} lines change", count=count)


def stay_part(context: HtmlContext) -> HtmlPart | None:
    """Return what stays as it is: what was accepted, the notes file by file, and the other words of CUDA, counted."""
    body = [*_staying(context)]
    return HtmlPart("stays", context.text(say("What stays as it is")), body, has_findings=True) if body else None


def _staying(context: HtmlContext) -> Iterator[str]:
    report = context.report
    notes = [finding for finding in report.findings if finding.grade is Grade.NOTE]
    if report.accepted:
        yield f"<h3>{context.text(say('Accepted as they are: {count}', count=len(report.accepted)))}</h3>"
        items = [
            f'<li class="note">{place_html(each.location)} <code>{text(each.code)}</code> '
            f"{context.marked(each.message)}</li>"
            for each in report.accepted
        ]
        more = say_in("HTML report", "More places: ")
        yield f'<div class="group">{folded_list(items, _OPEN, more, context)}</div>'
    if notes:
        title = say_plural(
            "{count} note on a place that stays as it is:",
            "{count} notes on places that stay as they are:",
            count=len(notes),
        )
        yield f"<h3>{context.title(title)}</h3>"
        by_path = _by_path(finding for finding in notes if not finding.is_accepted)
        files = [
            _file(context, path, [say_plural("one note", "{count} notes", count=len(findings))], findings)
            for path, findings in by_path.items()
        ]
        yield from _folded_files(context, files)
    if report.words.staying:
        words = say("CUDA words that stay as they are: {count}", count=len(report.words.staying))
        yield f'<h3>{context.text(words)}</h3><ul class="counted">'
        for kind, count in report.mentions_by_kind.items():
            yield f"<li><b>{count}</b> {context.text(say(kind.value))}</li>"
        yield "</ul>"


def _by_path(findings: Iterator[Finding]) -> dict[str, list[Finding]]:
    return {path: [*group] for path, group in groupby(findings, key=lambda finding: finding.location.path)}


def _folded_files(context: HtmlContext, files: Sequence[str]) -> Iterator[str]:
    """Yield files, the later ones folded."""
    yield from files[:_OPEN]
    if len(files) > _OPEN:
        summary = context.text(say("More files: {count}", count=len(files) - _OPEN))
        yield f'<details class="more"><summary>{summary}</summary>'
        yield from files[_OPEN:]
        yield "</details>"


def _file(
    context: HtmlContext, path: str, counts: Sequence[Message], findings: Sequence[Finding], change: str = ""
) -> str:
    """Return one file: its findings, those together of which the same is said, and its change."""
    alike: dict[tuple[str, Message], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.code, finding.message), []).append(finding)
    groups = []
    for (code, message), group in alike.items():
        about = f"{rule_link(code)} {context.marked(message)}"
        places = "".join(
            f'<li class="{finding.grade.value}">{text(str(finding.location).removeprefix(f"{path}:"))}'
            f" <code>{text(finding.snippet)}</code></li>"
            for finding in group
        )
        groups.append(f'<div class="group"><p class="alike">{about}</p><ul class="at">{places}</ul></div>')
    counted = ", ".join(map(context.text, counts))
    return (
        f'<details class="file"><summary><span class="p">{text(path)}</span> <span class="faint">{counted}</span>'
        f"</summary>{''.join(groups)}{change}</details>"
    )


def _change(compared: Sequence[DiffRow], context: HtmlContext) -> Iterator[str]:
    """Yield the lines of a change: what stays over both columns, what changes side by side."""
    for row in compared:
        if row.folded:
            count = say_plural("{count} line as it is", "{count} lines as they are", count=row.folded)
            yield f'<div class="fold">{context.text(count)}</div>'
        elif not row.changed:
            yield f'<div data-n="{row.right}">{clipped("".join(part.text for part in row.after))}</div>'
        else:
            yield _side("gone", "del", row.left, row.before)
            yield _side("new", "ins", row.right, row.after)


def _side(css: str, tag: str, number: int, parts: Sequence[LinePart]) -> str:
    if not number:
        return f'<div class="{css} none"></div>'
    pieces = [(part.text, part.changed) for part in parts]
    if sum(len(piece) for piece, _ in pieces) > 5 * _AROUND:
        last = len(pieces) - 1
        pieces = [
            (_shortened(piece, bool(index), index < last), changed) for index, (piece, changed) in enumerate(pieces)
        ]
    line = "".join(f"<{tag}>{text(piece)}</{tag}>" if changed else text(piece) for piece, changed in pieces)
    return f'<div class="{css}" data-n="{number}">{line}</div>'


def _shortened(piece: str, head: bool, tail: bool) -> str:
    """Keep of a long piece what stands next to its neighbours: its start if `head`, its end if `tail`."""
    if len(piece) <= 2 * _AROUND:
        return piece
    return (piece[:_AROUND] if head or not tail else "") + " … " + (piece[-_AROUND:] if tail else "")


def program_ids(context: HtmlContext) -> dict[str, str]:
    """Return the id of each program on the page."""
    titles = dict.fromkeys(judged.program.title for judged in context.report.programs)
    return {title: f"program:{number}" for number, title in enumerate(titles, 1)}


def program_part(context: HtmlContext, ids: Mapping[str, str]) -> HtmlPart | None:
    """Return the programs with their verdicts, and what follows them; those together that share it."""
    count = len(context.report.programs)
    if not count:
        return None
    title = say("Programs, the worst first:") if count > 1 else say("Program:")
    return HtmlPart("programs", context.title(title), [*_programs(context, ids)])


def _programs(context: HtmlContext, ids: Mapping[str, str]) -> Iterator[str]:
    with_id: set[str] = set()
    for group in program_groups(context.report.programs, context.decisions):
        yield '<div class="programs">'
        for judged in group:
            name = judged.program.title
            anchor = "" if name in with_id else f' id="{ids[name]}"'
            with_id.add(name)
            yield f"<p{anchor}><b>{text(name)}</b> {_verdict(context, judged)}</p>"
        yield '<ul class="reasons">'
        for reason in reasons_of(group, context.decisions, whole=True):
            yield f"<li>{_reason(context, reason)}</li>"
        for judged in group:
            for start in judged.program.starts:
                yield f"<li><code>{text(start.command)}</code> {text(start.place)}</li>"
        yield "</ul></div>"


def _verdict(context: HtmlContext, judged: JudgedProgram) -> str:
    return f'<span class="{VERDICT_GRADES[judged.verdict]}">{context.text(verdict_of(judged))}</span>'


def _reason(context: HtmlContext, reason: Reason) -> str:
    """Return what follows a verdict, with links to the decisions that it is about."""
    words = context.text(reason.words)
    ids = [text(each) for each in reason.decisions]
    if len(ids) == 1 and reason.steps:
        words = f'<a href="#{ids[0]}">{words}</a>'
    elif ids:
        links = ", ".join(f'<a href="#{each}">{each}</a>' for each in ids)
        words = words.replace(", ".join(ids), links)
    return f"{words}: {text(' -> '.join(reason.steps))}" if reason.steps else words


def package_part(context: HtmlContext) -> HtmlPart | None:
    """Return what the packages of the environment show, those that need a look first."""
    report = context.report
    if not report.packages:
        return None
    telling = report.telling_packages
    title = say(
        "Packages of the environment: {count} reached, {told} to check", count=len(report.packages), told=len(telling)
    )
    items = []
    for package in (*telling, *(package for package in report.packages if package not in telling)):
        name = text(f"{package.package} {package.version}".rstrip())
        tells = package in telling
        state = context.text(state_message(package.state))
        reason = f"; {context.text(package_message(package))}" if tells else ""
        if package.chain and tells:
            reason += f"; {context.text(say('reached by {chain}', chain=' -> '.join(map(str, package.chain))))}"
        items.append(f'<li><b>{name}</b> <span class="{"unsafe" if tells else "safe"}">{state}</span>{reason}</li>')
    return HtmlPart("packages", context.text(title), ["<ul>", *items, "</ul>"])


def unlooked_part(context: HtmlContext) -> HtmlPart | None:
    """Return what was not looked at, and on what torchferry failed."""
    report = context.report
    if not report.unexamined and not report.failures:
        return None
    body = []
    for failure in report.failures:
        _, message, *_ = failure_lines(report._replace(failures=(failure,)), context.lang)
        body.append(f'<div class="failure"><p class="manual">{text(message)}</p><pre>{lines(failure.what)}</pre></div>')
    items = (f"<li>{context.text(unexamined_message(unexamined))}</li>" for unexamined in report.unexamined)
    return HtmlPart("unlooked", context.title(say("Not examined:")), [*body, "<ul>", *items, "</ul>"])


def rule_part(context: HtmlContext) -> HtmlPart | None:
    """Return the pages of the rules that found something, with how much each found."""
    body = [*_rules(context)]
    return HtmlPart("rules", context.text(say("The rules that found something")), body) if body else None


def _rules(context: HtmlContext) -> Iterator[str]:
    counts = _counts_by_rule(context.report)
    for code, grades in counts.items():
        rule_page = page(code, context.lang)
        counted = ", ".join(f"{context.text(say(GRADE_TITLES[grade]))}: {count}" for grade, count in grades.items())
        title = f'{marked(rule_page.title)} <span class="faint">{text(rule_page.name)}; {counted}</span>'
        yield f'<details class="rule" id="{rule_id(code)}"><summary><b class="code">{text(code)}</b> {title}</summary>'
        yield f"<div>{paragraphs(rule_page.body)}{paragraphs(rule_page.why)}</div></details>"


def _counts_by_rule(report: Report) -> dict[str, dict[Grade, int]]:
    """Return how many findings of each grade each rule has."""
    counts: dict[str, dict[Grade, int]] = {}
    for finding in report.findings:
        of_rule = counts.setdefault(finding.code, dict.fromkeys(Grade, 0))
        of_rule[finding.grade] += 1
    return {code: {grade: count for grade, count in counts[code].items() if count} for code in sorted(counts)}
