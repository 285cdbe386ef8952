"""A report as one HTML file that needs nothing else: no network, no fonts, no second file.

It says what the text report says, in the same words and the same order: a first screen with the verdict, the programs,
what to decide first and the command that comes next; then each decision once; then the rest, folded. It is whole
without its script, which filters the findings. Every text of the project is escaped, and a content security policy
allows the page's own style and script alone, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from torchferry.core.finding import Grade
from torchferry.core.messages import say, say_in
from torchferry.report.excerpts import ReadLines, no_code
from torchferry.report.first_screen import (
    FEW,
    MOST_FIRST,
    asked,
    card_step,
    first_text,
    first_title,
    further_steps,
    next_steps,
    program_classes,
    unverified_row,
    without_command,
)
from torchferry.report.full_format import GRADE_TITLES, head_lines
from torchferry.report.headline import verdict_sentence
from torchferry.report.html_decisions import decision_parts
from torchferry.report.html_lists import (
    change_part,
    package_part,
    program_ids,
    program_part,
    rule_part,
    stay_part,
    unlooked_part,
)
from torchferry.report.html_text import HtmlContext, HtmlPart, marked, text
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import VERDICT_GRADES

_FOLDER = Path(__file__).with_name("html")
_CLASSES = {
    ProjectVerdict.READY: "safe",
    ProjectVerdict.AFTER_FIXES: "safe",
    ProjectVerdict.AFTER_WORK: "unsafe",
    ProjectVerdict.MAY_NEED: "unsafe",
    ProjectVerdict.BLOCKED: "manual",
    ProjectVerdict.PARTLY_BLOCKED: "manual",
    ProjectVerdict.INCOMPLETE: "manual",
}


def render(report: Report, lang: str, paths: Sequence[str] = (".",), read: ReadLines = no_code) -> str:
    """Return the page; the same report and the same files give the same bytes.

    Args:
        report: The report.
        lang: The language.
        paths: What was named on the command line, for the commands of the page.
        read: Reads the code around a place.
    """
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"torchferry: {report.root} → {report.target_title.render(lang)}"
    context = HtmlContext(report, report.decisions, lang, asked(report, paths), read)
    body = "\n".join(_body(context, paths))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def _body(context: HtmlContext, paths: Sequence[str]) -> Iterator[str]:
    programs = program_ids(context)
    parts = [*_parts(context, programs)]
    yield from _top(context, parts)
    yield "<main>"
    yield from _first_screen(context, paths, programs, parts)
    yield from _filter(context)
    for part in parts:
        css = ' class="findings"' if part.has_findings else ""
        yield f'<section{css} aria-labelledby="{part.id}"><h2 id="{part.id}" tabindex="-1">{part.title}</h2>'
        yield from part.body
        yield "</section>"
    yield "</main>"
    yield f"<footer>torchferry {text(context.report.torchferry)}</footer>"


def _parts(context: HtmlContext, programs: Mapping[str, str]) -> Iterator[HtmlPart]:
    """Yield the parts below the first screen, in their order."""
    yield from decision_parts(context, programs)
    native = None
    if context.report.native is not None:
        from torchferry.report.native import native_part  # imported late: most projects have no C++

        native = native_part(context.report.native, context)
    others = (
        change_part(context),
        program_part(context, programs),
        native,
        package_part(context),
        stay_part(context),
        unlooked_part(context),
        rule_part(context),
    )
    yield from (part for part in others if part is not None)


def _top(context: HtmlContext, parts: Sequence[HtmlPart]) -> Iterator[str]:
    """Yield what is above the report: a link for the keyboard, and the button for light and dark."""
    for part in parts[:1]:
        skip = context.text(say_in("HTML report", "Skip to the findings"))
        yield f'<a class="skip" href="#{part.id}">{skip}</a>'
    dark, light = context.text(say_in("HTML report", "Dark")), context.text(say_in("HTML report", "Light"))
    yield f'<header class="top"><p><b>torchferry</b> {text(context.report.torchferry)}</p>'
    yield f'<button type="button" class="theme" title="{context.text(say("light or dark"))}" data-dark="{dark}"'
    yield f' data-light="{light}" hidden>{dark}</button></header>'


def _first_screen(
    context: HtmlContext, paths: Sequence[str], programs: Mapping[str, str], parts: Sequence[HtmlPart]
) -> Iterator[str]:
    """Yield the verdict, what was examined, the programs by verdict, what to decide first, and what comes next."""
    report = context.report
    route = f"{report.root} → {report.target_title.render(context.lang)}"
    yield f'<section class="verdict {_CLASSES[report.verdict]}" aria-labelledby="part:verdict">'
    yield f'<p class="route">{text(route)}</p>'
    yield f'<h1 id="part:verdict">{context.marked(verdict_sentence(report))}</h1><ul class="facts">'
    yield from (f"<li>{marked(line)}</li>" for line in head_lines(report, context.lang))
    yield "</ul></section>"
    yield '<div class="screen">'
    yield from _programs(context, programs)
    yield from _decided_first(context)
    yield from _next(context, paths)
    yield "</div>"
    yield '<nav class="contents"><ul>'
    yield from (f'<li><a href="#{part.id}">{part.title}</a></li>' for part in parts)
    yield "</ul></nav>"


def _programs(context: HtmlContext, programs: Mapping[str, str]) -> Iterator[str]:
    """Yield how many programs have each verdict, with their names folded."""
    report = context.report
    if report.entry_points and not report.programs:
        count = len(report.entry_points)
        yield f"<details><summary>{context.text(say_in('HTML report', 'Programs that use the device: '))}{count}"
        yield '</summary><ul class="names">'
        yield from (f"<li>{text(path)}</li>" for path in report.entry_points)
        yield "</ul></details>"
    if len(report.programs) < FEW:  # it is shown below with its reasons
        return
    title = context.text(say("Programs: {count}", count=len(report.programs)))
    yield f'<section aria-labelledby="part:verdicts"><h2 id="part:verdicts">{title}</h2>'
    for verdict, words, group, _ in program_classes(report):
        yield f'<details class="class"><summary><b>{len(group)}</b> <span class="{VERDICT_GRADES[verdict]}">'
        yield f'{context.text(words)}</span></summary><ul class="names">'
        for judged in group:
            name = judged.program.title
            yield f'<li><a href="#{programs[name]}">{text(name)}</a></li>'
        yield "</ul></details>"
    unverified = unverified_row(report)
    if unverified is not None:
        yield f"<p>{context.text(unverified)}</p>"
    yield "</section>"


def _decided_first(context: HtmlContext) -> Iterator[str]:
    report = context.report
    if not context.decisions.to_decide:
        return
    first = context.decisions.first(MOST_FIRST)
    title = context.title(first_title(report, first))
    yield f'<section aria-labelledby="part:first"><h2 id="part:first">{title}</h2>'
    yield '<ol class="first">'
    for each in first:
        name = text(each.id)
        yield f'<li><a href="#{name}">{name}</a> <span>{marked(first_text(report, each, context.lang))}</span></li>'
    yield "</ol></section>"


def _next(context: HtmlContext, paths: Sequence[str]) -> Iterator[str]:
    first = context.decisions.first(MOST_FIRST)
    steps = [
        *next_steps(context.report, first, paths),
        *card_step(context.report),
        *further_steps(context.report, paths),
    ]
    if steps:
        title = context.title(say("Next:"))
        yield f'<section class="next" aria-labelledby="part:next"><h2 id="part:next">{title}</h2><ul>'
        yield from (f"<li><code>{text(each.command)}</code> {context.text(each.purpose)}</li>" for each in steps)
        yield "</ul></section>"
        return
    alone = without_command(context.report)
    if alone is not None:
        yield f"<p>{context.text(alone)}</p>"


def _filter(context: HtmlContext) -> Iterator[str]:
    """Yield the controls of the filter; the script shows them."""
    report = context.report
    if not report.findings:
        return
    filtering, looked = context.text(say("Filter")), context.text(say("words to look for"))
    yield f'<div class="filters" id="part:filter" role="search" aria-label="{filtering}" hidden>'
    yield '<div class="grades" role="group">'
    for grade in Grade:
        name, count = grade.value, report.by_grade[grade]
        yield f'<button type="button" class="{name}" data-grade="{name}" aria-pressed="true">'
        yield f"{context.text(say(GRADE_TITLES[grade]))} <span>{count}</span></button>"
    if report.blockers:
        only = context.text(say_in("HTML report", "only what blocks"))
        yield '<button type="button" class="manual" data-blocking="1" aria-pressed="false">'
        yield f"{only} <span>{len(report.blockers)}</span></button>"
    yield f'</div><input class="path" list="part:paths" aria-label="{context.text(say("File"))}"'
    yield f' placeholder="{context.text(say("all files"))}" spellcheck="false" autocomplete="off">'
    yield '<datalist id="part:paths"></datalist>'
    yield f'<input type="search" class="find" aria-label="{looked}" placeholder="{looked}">'
    # translators: stands behind a number: how many findings the filter shows
    yield f'<span class="shown"><output>{len(report.findings)}</output> {context.text(say("shown"))}</span>'
    none = context.text(say_in("HTML report", "Nothing matches this filter."))
    clear = context.text(say_in("HTML report", "clear the filter"))
    yield f'<p class="nothing" hidden>{none} <button type="button">{clear}</button></p>'
    opened, closed = (
        context.text(say_in("HTML report", "open all")),
        context.text(say_in("HTML report", "close all")),
    )
    yield f'<p class="tools"><button type="button" data-open="1">{opened}</button>'
    yield f'<button type="button" data-open="">{closed}</button></p></div>'
