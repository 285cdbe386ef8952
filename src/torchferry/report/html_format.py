"""A report as one HTML file that needs nothing else: no network, no fonts, no second file.

The verdict, the counts, what blocks and the findings are in the page before its script runs; the script turns the list
of findings into a table with filters and pages, and draws the differences. Every text of the project is escaped, and a
content security policy allows the page's own style and script alone, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say, say_plural
from torchferry.installed.describing import package_message, state_message
from torchferry.programs.model import Verdict as ProgramVerdict
from torchferry.report import html_words as words
from torchferry.report.full_format import GRADE_TITLES
from torchferry.report.headline import verdict_sentence
from torchferry.report.html_data import LONGEST, data
from torchferry.report.html_escape import json_in_html, lines, marked, paragraphs, text
from torchferry.report.model import FileDiff, ProjectVerdict, Report
from torchferry.report.pages import page
from torchferry.report.programs import VERDICT_GRADES, lines_of, unlooked_message, verdict_of
from torchferry.report.side_by_side import DiffRow, rows
from torchferry.rules.registry import family_name, family_title

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
_MESSAGES = 4
"""Messages of one blocking rule that are listed before the rest is folded away, those with most places first."""

_PLACES = 6
"""Places of one blocker that are listed before the rest is folded away."""

_BAR = 200
"""Width of the longest bar of the counts, in pixels."""


def render(report: Report, lang: str) -> str:
    """Return the page; the same report gives the same bytes."""
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"torchferry: {report.root} → {report.target_title.render(lang)}"
    compared = [(diff, list(rows(diff.before, diff.after))) for diff in report.diffs]
    body = "\n".join(_body(report, compared, lang))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<template id="data">{json_in_html(data(report, compared, lang))}</template>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def _say(template: str, lang: str, **values: object) -> str:
    return text(say(template, **values).render(lang))


def _say_plural(singular: str, plural: str, lang: str, *, count: int) -> str:
    return text(say_plural(singular, plural, count=count).render(lang))


def _word(word: Message, lang: str) -> str:
    return text(word.render(lang))


def _body(report: Report, compared: list[tuple[FileDiff, list[DiffRow]]], lang: str) -> Iterator[str]:
    if report.findings:
        yield f'<a class="skip" href="#findings">{_word(words.SKIP, lang)}</a>'
    yield f'<header class="top"><p><b>torchferry</b> {text(report.torchferry)}</p>'
    dark, light = _word(words.DARK, lang), _word(words.LIGHT, lang)
    yield f'<button type="button" class="theme" title="{_say("light or dark", lang)}" data-dark="{dark}"'
    yield f' data-light="{light}" hidden>{dark}</button></header>'
    yield "<main>"
    yield from _verdict(report, lang)
    yield from _programs(report, lang)
    yield from _failures(report, lang)
    yield from _blockers(report.blockers, lang)
    if report.native is not None:
        from torchferry.report.native import native_html  # imported late: most projects have no C++

        yield from native_html(report.native, lang)
    yield from _packages(report, lang)
    yield from _unlooked(report, lang)
    yield from _counts(report, lang)
    yield from _list(report, lang)
    yield from _changes(compared, lang)
    yield from _mentions(report, lang)
    yield from _rules(report, lang)
    yield "</main>"
    yield f"<footer>torchferry {text(report.torchferry)}</footer>"


def _verdict(report: Report, lang: str) -> Iterator[str]:
    title = report.target_title.render(lang)
    yield f'<section class="verdict {_CLASSES[report.verdict]}" aria-labelledby="verdict">'
    yield f'<p class="route">{text(report.root)} → {text(title)}</p>'
    yield f'<h1 id="verdict">{text(verdict_sentence(report).render(lang))}</h1>'
    yield '<ul class="facts">'
    yield f"<li>{_word(words.TARGET, lang)}<code>{text(report.target)}</code></li>"
    yield f"<li>{_say_plural('{count} file examined', '{count} files examined', lang, count=report.files)}</li>"
    if report.diffs:
        yield f"<li>{_word(words.FILES_CHANGE, lang)}{len(report.diffs)}</li>"
    yield "</ul>"
    if report.remarks:
        yield '<ul class="remarks">'
        yield from (f"<li>{marked(remark.render(lang))}</li>" for remark in report.remarks)
        yield "</ul>"
    if report.entry_points and not report.programs:
        yield f"<details><summary>{_word(words.PROGRAMS, lang)}{len(report.entry_points)}</summary>"
        yield '<ul class="paths">'
        yield from (f"<li>{text(path)}</li>" for path in report.entry_points)
        yield "</ul></details>"
    yield "</section>"


def _programs(report: Report, lang: str) -> Iterator[str]:
    """Yield the programs with their verdicts and the ways to what stands in them."""
    if not report.programs:
        return
    yield '<section class="programs" aria-labelledby="programs">'
    yield f'<h2 id="programs">{_word(words.PROGRAMS_TITLE, lang)}</h2><ul>'
    for judged in report.programs:
        items = [text(message.render(lang)) for message in lines_of(judged)]
        verdict = text(verdict_of(judged).render(lang))
        mark = f'<span class="{VERDICT_GRADES[judged.verdict]}">{verdict}</span>'
        head = f"<code>{text(judged.program.title)}</code> {mark}"
        items += [f"<code>{text(start.command)}</code> {text(start.place)}" for start in judged.program.starts]
        if not items:
            yield f"<li>{head}</li>"
            continue
        is_open = " open" if judged.verdict is ProgramVerdict.BLOCKED else ""
        inner = "".join(f"<li>{line}</li>" for line in items)
        yield f"<li><details{is_open}><summary>{head}</summary><ul>{inner}</ul></details></li>"
    yield "</ul></section>"


def _packages(report: Report, lang: str) -> Iterator[str]:
    """Yield what the packages of the environment show, those that need a look first."""
    if not report.packages:
        return
    telling = report.telling_packages
    yield '<section class="programs" aria-labelledby="packages">'
    yield f'<h2 id="packages">{_word(words.PACKAGES, lang)}</h2><ul>'
    for package in (*telling, *(package for package in report.packages if package not in telling)):
        name = text(f"{package.package} {package.version}".rstrip())
        state = text(state_message(package.state).render(lang))
        reason = text(package_message(package).render(lang)) if package in telling else ""
        mark = f'<span class="{"unsafe" if package in telling else "safe"}">{state}</span>'
        yield f"<li><code>{name}</code> {mark} {reason}</li>"
    yield "</ul></section>"


def _unlooked(report: Report, lang: str) -> Iterator[str]:
    if not report.unlooked:
        return
    yield '<section class="programs" aria-labelledby="unlooked">'
    yield f'<h2 id="unlooked">{_word(words.UNLOOKED, lang)}</h2><ul>'
    yield from (f"<li>{text(unlooked_message(unlooked).render(lang))}</li>" for unlooked in report.unlooked)
    yield "</ul></section>"


def _failures(report: Report, lang: str) -> Iterator[str]:
    for failure in report.failures:
        message = _say(
            "torchferry failed on {path} because of a bug in torchferry; please report it:", lang, path=failure.path
        )
        yield f'<section class="failure"><p class="manual">{message}</p><pre>{lines(failure.what)}</pre></section>'


def _blockers(blockers: list[Finding], lang: str) -> Iterator[str]:
    """Yield what blocks, once for each thing there is to do, with its places."""
    if not blockers:
        return
    yield f'<section class="blockers" aria-labelledby="blockers"><h2 id="blockers">{_say("What blocks", lang)}</h2>'
    order = sorted(blockers, key=lambda finding: (finding.code, finding.message.render(lang)))
    for code, of_code in groupby(order, key=lambda finding: finding.code):
        yield f'<h3><a class="code" href="#{text(code)}">{text(code)}</a> {marked(page(code, lang).title)}</h3>'
        alike = [
            (message, [finding.location for finding in group])
            for message, group in groupby(of_code, key=lambda finding: finding.message.render(lang))
        ]
        alike.sort(key=lambda todo: -len(todo[1]))
        yield from _todo(alike[:_MESSAGES], lang)
        rest = alike[_MESSAGES:]
        if rest:
            count = sum(len(places) for _, places in rest)
            yield f"<details><summary>{_word(words.MORE_PLACES, lang)}{count}</summary>"
            yield from _todo(rest, lang)
            yield "</details>"
    yield "</section>"


def _todo(alike: list[tuple[str, list[Location]]], lang: str) -> Iterator[str]:
    yield '<ul class="todo">'
    for message, places in alike:
        yield f"<li><p>{marked(message)}</p>"
        yield from _places(places, lang)
        yield "</li>"
    yield "</ul>"


def _places(places: Sequence[Location], lang: str) -> Iterator[str]:
    yield '<ul class="paths">'
    yield from (f"<li>{text(str(place))}</li>" for place in places[:_PLACES])
    yield "</ul>"
    rest = places[_PLACES:]
    if rest:
        yield f'<details><summary>{_word(words.MORE_PLACES, lang)}{len(rest)}</summary><ul class="paths">'
        yield from (f"<li>{text(str(place))}</li>" for place in rest)
        yield "</ul></details>"


def _counts(report: Report, lang: str) -> Iterator[str]:
    """Yield the counts; the script turns the cells into links to the findings they count."""
    if not report.findings:
        return
    yield f'<section class="counts" aria-labelledby="counts"><h2 id="counts">{_word(words.COUNTS, lang)}</h2>'
    yield '<ul class="tally">'
    for grade in Grade:
        name, count = grade.value, report.by_grade[grade]
        yield f'<li class="{name}{"" if count else " zero"}"><b data-grade="{name}" data-family="">{count}</b>'
        yield f" <span>{_say(GRADE_TITLES[grade], lang)}</span> <small>{_word(words.GRADES[grade], lang)}</small></li>"
    yield "</ul>"
    heads = "".join(f'<th scope="col" class="{grade.value}">{_say(GRADE_TITLES[grade], lang)}</th>' for grade in Grade)
    yield f'<div class="scroll"><table><thead><tr><th scope="col">{_say("Family", lang)}</th>{heads}<td></td></tr>'
    yield "</thead><tbody>"
    most = max(counts.total() for counts in report.by_family.values())
    for name, counts in report.by_family.items():
        yield f'<tr><th scope="row"><code>{text(name)}</code> <span data-grade="" data-family="{text(name)}">'
        yield f"{text(family_title(name).render(lang))}</span></th>"
        for grade in Grade:
            yield f'<td data-grade="{grade.value}" data-family="{text(name)}">{counts[grade] or ""}</td>'
        yield f"<td>{_bar([(grade.value, counts[grade]) for grade in Grade], most)}</td></tr>"
    yield "</tbody></table></div></section>"


def _bar(counts: list[tuple[str, int]], most: int) -> str:
    """Return counts as one bar; SVG, because the policy allows no style of an element's own."""
    at = 0.0
    pieces = []
    for name, count in counts:
        if count:
            width = max(count / most * _BAR, 1.5)
            pieces.append(f'<rect class="{name}" x="{at:.1f}" y="0" width="{width:.1f}" height="8"></rect>')
            at += width + 1
    return f'<svg width="{_BAR + 8}" height="8" aria-hidden="true">{"".join(pieces)}</svg>'


def _list(report: Report, lang: str) -> Iterator[str]:
    """Yield the place of the table with its filters, and the plain list for browsers that run no script."""
    if not report.findings:
        return
    yield f'<section aria-labelledby="findings"><h2 id="findings" tabindex="-1">{_say("Findings", lang)}</h2>'
    yield from _filters(report, lang)
    yield '<div id="table"></div><nav id="pages"></nav><noscript>'
    for path, group in groupby(report.findings, key=lambda finding: finding.location.path):
        yield f'<h3 class="path">{text(path)}</h3><ul class="plain">'
        yield from (_plain(finding, lang) for finding in group)
        yield "</ul>"
    yield "</noscript></section>"


def _plain(finding: Finding, lang: str) -> str:
    place = finding.location
    where = f"{place.line}:{place.column}" + (f" [{place.cell}]" if place.cell else "")
    grade = finding.grade
    snippet = f"<pre>{text(finding.snippet)}</pre>" if finding.snippet else ""
    return (
        f'<li><span class="place">{where}</span> '
        f'<a class="code" href="#{text(finding.code)}">{text(finding.code)}</a> '
        f'<span class="{grade.value}">{_say(GRADE_TITLES[grade], lang)}</span> '
        f"<div>{marked(finding.message.render(lang))}{snippet}</div></li>"
    )


def _filters(report: Report, lang: str) -> Iterator[str]:
    yield f'<div class="filters" role="search" aria-label="{_say("Filter", lang)}" hidden>'
    yield '<div class="grades" role="group">'
    for grade in Grade:
        name, count = grade.value, report.by_grade[grade]
        yield f'<button type="button" class="{name}" data-grade="{name}" aria-pressed="true">'
        yield f"{_say(GRADE_TITLES[grade], lang)} <span>{count}</span></button>"
    if report.blockers:
        yield '<button type="button" class="manual" data-blocking="1" aria-pressed="false">'
        yield f"{_word(words.ONLY_BLOCKING, lang)} <span>{len(report.blockers)}</span></button>"
    yield f'</div><select aria-label="{_say("Family", lang)}"><option value="">{_say("all families", lang)}</option>'
    for name in report.by_family:
        yield f'<option value="{text(name)}">{text(name)} {text(family_title(name).render(lang))}</option>'
    yield f'</select><input class="path" list="paths" aria-label="{_say("File", lang)}"'
    yield f' placeholder="{_say("all files", lang)}" spellcheck="false" autocomplete="off"><datalist id="paths">'
    looked = _say("words to look for", lang)
    yield f'</datalist><input type="search" class="find" aria-label="{looked}" placeholder="{looked}">'
    # translators: stands behind a number: how many findings the filter shows
    yield f'<span class="shown"><output>{len(report.findings)}</output> {_say("shown", lang)}</span></div>'


def _changes(compared: list[tuple[FileDiff, list[DiffRow]]], lang: str) -> Iterator[str]:
    """Yield how each file changes, as a plain patch; the script sets it side by side when it is opened."""
    if not compared:
        return
    yield f'<section class="changes" aria-labelledby="changes"><h2 id="changes">{_word(words.CHANGES, lang)}</h2>'
    yield '<p class="tools"></p>'
    for number, (diff, shown) in enumerate(compared):
        changes = sum(row.changed for row in shown)
        count = _say_plural("{count} line changes", "{count} lines change", lang, count=changes)
        yield f'<details class="diff" data-diff="{number}"><summary><span class="path">{text(diff.path)}</span> '
        yield f'<span class="faint">{count}</span></summary><pre>{"".join(_patch(shown, lang))}</pre></details>'
    yield "</section>"


def _patch(shown: list[DiffRow], lang: str) -> Iterator[str]:
    for row in shown:
        if row.folded:
            folded = _say_plural("{count} line as it is", "{count} lines as they are", lang, count=row.folded)
            yield f"    {folded}\n"
            continue
        sides = ((" ", row.after),) if not row.changed else (("-", row.before), ("+", row.after))
        for sign, parts in sides:
            if parts:
                yield f"{sign} {text(''.join(part.text for part in parts)[:LONGEST])}\n"


def _mentions(report: Report, lang: str) -> Iterator[str]:
    if not report.words.staying:
        return
    title = _say("CUDA words that stay as they are: {count}", lang, count=len(report.words.staying))
    yield f'<section aria-labelledby="kept"><h2 id="kept">{title}</h2><ul class="kept">'
    for kind, count in report.mentions_by_kind.items():
        yield f"<li><b>{count}</b> {_say(kind.value, lang)}</li>"
    yield "</ul></section>"


def _rules(report: Report, lang: str) -> Iterator[str]:
    codes = sorted({finding.code for finding in report.findings})
    if not codes:
        return
    title = _say("The rules that found something", lang)
    yield f'<section class="rules" aria-labelledby="rules"><h2 id="rules">{title}</h2>'
    for code in codes:
        rule_page = page(code, lang)
        yield f'<details id="{text(code)}" data-family="{text(family_name(code))}"><summary><code>{text(code)}</code> '
        yield f'{marked(rule_page.title)} <span class="faint">{text(rule_page.name)}</span></summary>'
        yield f"<div>{paragraphs(rule_page.body)}{paragraphs(rule_page.why)}</div></details>"
    yield "</section>"
