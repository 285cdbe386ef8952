"""A report as one HTML file that needs nothing else: no network, no fonts, no second file.

Everything is in the page before its script runs; the script only filters. Every text of the project is escaped, and a
content security policy allows the page's own style and script alone, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.report.families import TITLES
from torchferry.report.model import FileDiff, Report, Verdict, family
from torchferry.report.pages import page
from torchferry.report.side_by_side import Part, Row, rows
from torchferry.report.text_format import GRADE_TITLES

_FOLDER = Path(__file__).with_name("html")
_CODE = re.compile(r"`([^`]+)`")
_CLASSES = {
    Verdict.READY: "verdict-ready",
    Verdict.AFTER_FIXES: "verdict-fixes",
    Verdict.AFTER_WORK: "verdict-work",
    Verdict.BLOCKED: "verdict-blocked",
}


def render(report: Report, lang: str) -> str:
    """Return the page; the same report gives the same bytes."""
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    title = f"torchferry: {report.root} → {report.target_title.render(lang)}"
    body = "\n".join(_body(report, lang))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _text(text: str) -> str:
    """Escape a text; what is no character of a file name or cannot be shown is shown as an escape."""
    shown = "".join(
        char if char.isprintable() or char in "\t " else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in text
    )
    return escape(shown)


def _marked(text: str) -> str:
    """Escape a message and set what stands between backquotes as code."""
    return _CODE.sub(r"<code>\1</code>", _text(text))


def _body(report: Report, lang: str) -> Iterator[str]:
    yield f'<header><div class="{_CLASSES[report.verdict]}">'
    yield f'<p class="faint">{_text(report.root)} → {_text(report.target)}</p>'
    yield f"<h1>{_text(report.verdict_message.render(lang))}</h1>"
    yield f'<p class="faint">{_say("{count} files examined", lang, count=report.files)}</p></div>'
    for remark in report.remarks:
        yield f"<p>{_marked(remark.render(lang))}</p>"
    yield "</header>"
    yield "<main>"
    if report.blockers:
        yield f"<h2>{_say('What blocks', lang)}</h2>"
        yield from _findings(report.blockers, lang, with_path=True)
    if report.findings:
        yield f"<h2>{_say('Findings', lang)}</h2>"
        yield from _counts(report, lang)
        yield from _filters(report, lang)
    yield from _files(report, lang)
    yield from _kept(report, lang)
    yield from _failures(report, lang)
    yield from _rules(report, lang)
    yield "</main>"
    yield f"<footer>torchferry {_text(report.torchferry)}</footer>"


def _say(template: str, lang: str, **values: object) -> str:
    return _text(say(template, **values).render(lang))


def _counts(report: Report, lang: str) -> Iterator[str]:
    heads = "".join(f'<th class="{grade.value}">{_say(GRADE_TITLES[grade], lang)}</th>' for grade in Grade)
    yield f'<div class="scroll"><table class="counts"><thead><tr><th></th>{heads}</tr></thead><tbody>'
    for name, counts in report.by_family.items():
        cells = "".join(f"<td>{counts[grade] or ''}</td>" for grade in Grade)
        yield f"<tr><td>{_text(name)} {_text(TITLES[name].render(lang))}</td>{cells}</tr>"
    yield "</tbody></table></div>"


def _filters(report: Report, lang: str) -> Iterator[str]:
    yield f'<div class="filters" role="search" aria-label="{_say("Filter", lang)}" hidden>'
    for grade in Grade:
        name, title = grade.value, _say(GRADE_TITLES[grade], lang)
        yield f'<button type="button" class="{name}" data-grade="{name}" aria-pressed="true">{title}</button>'
    yield f'<select aria-label="{_say("Family", lang)}"><option value="">{_say("all families", lang)}</option>'
    yield from (f'<option value="{name}">{_text(TITLES[name].render(lang))}</option>' for name in report.by_family)
    yield f'</select><select aria-label="{_say("File", lang)}"><option value="">{_say("all files", lang)}</option>'
    paths = sorted({finding.location.path for finding in report.findings})
    yield from (f'<option value="{_text(path)}">{_text(path)}</option>' for path in paths)
    yield f'</select><input type="search" placeholder="{_say("words to look for", lang)}">'
    yield f'<span class="faint"><output>{len(report.findings)}</output> {_say("shown", lang)}</span>'
    yield f'<button type="button" class="theme">{_say("light or dark", lang)}</button></div>'


def _files(report: Report, lang: str) -> Iterator[str]:
    diffs = {diff.path: diff for diff in report.diffs}
    found = {path: list(group) for path, group in groupby(report.findings, key=lambda finding: finding.location.path)}
    for path in sorted({*found, *diffs}):
        yield f'<section class="file" data-file="{_text(path)}"><h3 class="path">{_text(path)}</h3>'
        yield from _findings(found.get(path, []), lang)
        if path in diffs:
            yield from _diff(diffs[path], lang)
        yield "</section>"


def _findings(findings: list[Finding], lang: str, with_path: bool = False) -> Iterator[str]:
    yield '<ul class="findings">'
    for finding in findings:
        place = finding.location
        where = f"{place.line}:{place.column}" + (f" [{place.cell}]" if place.cell else "")
        data = "" if with_path else f' data-grade="{finding.grade.value}" data-family="{family(finding.code)}"'
        yield f'<li{data}><span class="place">{_text(str(place) if with_path else where)}</span>'
        yield f'<a class="faint" href="#{finding.code}">{finding.code}</a>'
        yield f'<span class="{finding.grade.value}">{_say(GRADE_TITLES[finding.grade], lang)}</span>'
        yield f'<div class="what">{_marked(finding.message.render(lang))}'
        if finding.snippet:
            yield f"<pre>{_text(finding.snippet)}</pre>"
        yield "</div></li>"
    yield "</ul>"


def _diff(diff: FileDiff, lang: str) -> Iterator[str]:
    shown = list(rows(diff.before, diff.after))
    changes = sum(row.changed for row in shown)
    yield f"<details><summary>{_say('{count} lines change', lang, count=changes)}</summary>"
    yield '<table class="diff"><tbody>'
    for row in shown:
        if row.folded:
            folded = _say("{count} lines as they are", lang, count=row.folded)
            yield f'<tr class="fold"><td colspan="4">{folded}</td></tr>'
        else:
            yield f"<tr>{_side(row.left, row.before, row, 'gone')}{_side(row.right, row.after, row, 'new')}</tr>"
    yield "</tbody></table></details>"


def _side(number: int, parts: tuple[Part, ...], row: Row, kind: str) -> str:
    if not number:
        return '<td class="number empty"></td><td class="empty"></td>'
    text = "".join(f"<b>{_text(part.text)}</b>" if part.changed else _text(part.text) for part in parts)
    css = f' class="{kind}"' if row.changed else ""
    return f'<td class="number">{number}</td><td{css}>{text}</td>'


def _kept(report: Report, lang: str) -> Iterator[str]:
    if not report.kept:
        return
    yield f"<h2>{_say('Words of CUDA that stay as they are: {count}', lang, count=len(report.kept))}</h2><ul>"
    for why, count in report.kept_by_reason.items():
        yield f"<li>{count} {_say(why.value, lang)}</li>"
    yield "</ul>"


def _failures(report: Report, lang: str) -> Iterator[str]:
    for failure in report.failures:
        message = _say("torchferry failed on {path}, by a fault of its own; please report it:", lang, path=failure.path)
        yield f'<p class="manual">{message}</p><pre>{escape(failure.what)}</pre>'


def _rules(report: Report, lang: str) -> Iterator[str]:
    codes = sorted({finding.code for finding in report.findings})
    if not codes:
        return
    yield f'<h2>{_say("The rules that found something", lang)}</h2><dl class="rules">'
    for code in codes:
        found = page(code, lang)
        yield f'<dt id="{code}">{code} {_text(found.name)}</dt>'
        yield f"<dd>{_text(found.title)}\n\n{escape(found.body)}</dd>"
    yield "</dl>"
