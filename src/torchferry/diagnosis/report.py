"""What a reader gets of a diagnosis: text, JSON, and a page that loads nothing. Secrets are masked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from torchferry import __version__
from torchferry.backends.library_owners import LibraryOwner, owner_of_function, owner_of_library
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.secrets import masked
from torchferry.core.terminal import style, visible
from torchferry.core.web_page import web_page
from torchferry.diagnosis.judging import Failure, RunDiagnosis
from torchferry.diagnosis.places import LineWriter
from torchferry.diagnosis.scanning import MOST_OF_KIND, Raised, Sighting, UnexplainedLine
from torchferry.diagnosis.tracebacks import CUT_OFF

MOST_SHOWN = 12
"""Further messages that a text names; the JSON has all."""

_MOST_WRITERS = 8

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c2430 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 1.6rem }
pre { background: #f3f5f8; padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere }
.failed { border-left: 4px solid #c62828; padding-left: .7rem }
.unknown { border-left: 4px solid #f9a825; padding-left: .7rem } li { margin: .3rem 0 }
@media (prefers-color-scheme: dark) { body { color: #e4e8ee; background: #14181f } pre { background: #1e242e } }
"""


class ReportSection(NamedTuple):
    """A part of the report: a title, paragraphs, a list, and lines as they are (of a log, or commands)."""

    title: Message | None
    paragraphs: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    verbatim: tuple[str, ...] = ()
    is_numbered: bool = False


def lines(diagnosis: RunDiagnosis, lang: str) -> Iterator[str]:
    """Yield the text for a terminal."""
    yield style(headline(diagnosis, lang), "bold", _colour(diagnosis))
    for section in _sections(diagnosis, lang):
        yield ""
        if section.title is not None:
            yield style(section.title.render(lang), "bold")
        yield from (f"  {paragraph}" for paragraph in section.paragraphs)
        for number, item in enumerate(section.items, 1):
            yield f"  {number}. {item}" if section.is_numbered else f"  - {item}"
        yield from (f"    {line}" for line in section.verbatim)


def _colour(diagnosis: RunDiagnosis) -> str:
    if diagnosis.failed:
        return "red"
    return "yellow" if diagnosis.is_unknown else "green"


def page(diagnosis: RunDiagnosis, lang: str) -> str:
    """Return the page."""
    body = []
    for section in _sections(diagnosis, lang):
        if section.title is not None:
            body.append(f"<h2>{escape(section.title.render(lang))}</h2>\n")
        body += [f"<p>{_shown(text)}</p>\n" for text in section.paragraphs]
        if section.items:
            tag = "ol" if section.is_numbered else "ul"
            body.append(f"<{tag}>" + "".join(f"<li>{_shown(item)}</li>\n" for item in section.items) + f"</{tag}>\n")
        if section.verbatim:
            body.append("<pre>" + "\n".join(_shown(line) for line in section.verbatim) + "</pre>\n")
    kind = "failed" if diagnosis.failed else "unknown" if diagnosis.is_unknown else "well"
    return web_page(visible(headline(diagnosis, lang)), _STYLE, body, lang, kind=kind)


def notice(diagnosis: RunDiagnosis, lang: str) -> Iterator[str]:
    """Yield what a command says at its end of the program that it ran: shorter than the text, with the same facts."""
    if not diagnosis.failed:
        return
    yield headline(diagnosis, lang, with_time=False)
    if diagnosis.first is None:
        assert diagnosis.raised is not None
        frame = diagnosis.raised.error.frame
        place = f"{frame.file}:{frame.line}: " if frame is not None else ""
        yield "  " + masked(place + _message(diagnosis.raised))
        yield "  " + say("no table knows this message, so torchferry says no cause").render(lang)
        return
    match = diagnosis.first.first.match
    for cause in match.causes:
        yield "  " + say("cause: {cause}", cause=masked(cause.render(lang))).render(lang)
    yield from (f"  -> {masked(step.render(lang))}" for step in match.steps())
    if diagnosis.causes:
        others = "; ".join(_title(each, lang) for each in diagnosis.causes[:_MOST_WRITERS])
        yield "  " + say("failed later: {names}", names=others).render(lang)
    yield "  " + say("source: {source}", source=match.entry.source).render(lang)


def _shown(text: str) -> str:
    return escape(visible(text))


def headline(diagnosis: RunDiagnosis, lang: str, *, with_time: bool = True) -> str:
    """Return the first line: what failed first, where and when."""
    if diagnosis.first is not None:
        seen: Sighting | Raised = diagnosis.first.first
        title = _title(diagnosis.first, lang)
    elif diagnosis.raised is not None:
        seen, title = diagnosis.raised, diagnosis.raised.error.kind
    else:
        logs = say_plural("{count} log", "{count} logs", count=diagnosis.files)
        if diagnosis.unexplained:
            return say_plural(
                "not known: one line is marked as an error and no table explains it, in {logs}",
                "not known: {count} lines are marked as errors and no table explains them, in {logs}",
                count=diagnosis.unexplained_count,
                logs=logs,
            ).render(lang)
        if diagnosis.is_unknown:
            return say("not known: no failure recognized in what could be read of {logs}", logs=logs).render(lang)
        return say("no failure recognized in {logs}", logs=logs).render(lang)
    place = writer_text(seen.writer, lang)
    moment = seen.moment.text if seen.moment is not None and with_time else ""
    if place and moment:
        return say("failed first, {place}, at {time}: {what}", what=title, place=place, time=moment).render(lang)
    if place or moment:
        return say("failed first, {place}: {what}", what=title, place=place or moment).render(lang)
    return say("failed first: {what}", what=title).render(lang)


def _title(failure: Failure, lang: str) -> str:
    """Return what a message is called: its code, or the beginning of what it says."""
    match = failure.first.match
    text = (match.meaning if match.meaning.en else match.causes[0]).render(lang)
    return masked(f"{match.entry.code}: {text}" if match.entry.code else text)


def writer_text(writer: LineWriter, lang: str) -> str:
    """Return who wrote a line; empty where nothing says it."""
    parts: list[str] = []
    if writer.rank is not None:
        parts.append(say("rank {number}", number=writer.rank).render(lang))
    if writer.process:
        parts.append(writer.process)
    if writer.rank is None and not writer.process and writer.pid is not None:
        parts.append(say("process {number}", number=writer.pid).render(lang))
    if writer.rank is None and writer.device is not None:
        parts.append(say("device {number}", number=writer.device).render(lang))
    text = ", ".join(parts)
    if writer.host:
        return say("{who} on {host}", who=text, host=writer.host).render(lang) if text else writer.host
    return text


def _sections(diagnosis: RunDiagnosis, lang: str) -> Iterator[ReportSection]:
    if diagnosis.first is not None:
        yield from _failure_sections(diagnosis.first, lang)
    elif diagnosis.raised is not None:
        yield ReportSection(None, verbatim=(_where(diagnosis.raised), masked(diagnosis.raised.text)))
    if diagnosis.raised is not None and diagnosis.raised.error.frame is not None:
        frame = diagnosis.raised.error.frame
        place = f"{frame.file}:{frame.line}" + (f" ({frame.function})" if frame.function else "")
        is_shown = diagnosis.first is None or diagnosis.first.first.at == diagnosis.raised.at
        what = diagnosis.raised.error.kind if is_shown else _message(diagnosis.raised)
        yield ReportSection(say("In the program"), (f"{masked(place)}: {masked(what)}",))
    if diagnosis.first is None and diagnosis.raised is not None:
        yield _unknown(diagnosis.raised, lang)
    if diagnosis.unexplained and not diagnosis.failed:
        rows = [f"{_where(each)}: {masked(each.text)}" for each in diagnosis.unexplained]
        yield ReportSection(say("Marked as errors, and not explained"), items=_shortened(rows, lang))
    if diagnosis.causes:
        yield ReportSection(say("Failed later"), items=_rows(diagnosis.causes, lang))
    if diagnosis.consequences:
        yield ReportSection(say("Follows from it, or stands around it"), items=_rows(diagnosis.consequences, lang))
    if diagnosis.doubts:
        yield ReportSection(say("Not sure"), items=tuple(doubt.render(lang) for doubt in diagnosis.doubts))
    if diagnosis.not_read:
        rows = [f"{each.name}: {each.reason.render(lang)}" for each in diagnosis.not_read]
        yield ReportSection(say("Not looked at"), items=_shortened(rows, lang))


def _failure_sections(failure: Failure, lang: str) -> Iterator[ReportSection]:
    match = failure.first.match
    yield ReportSection(None, verbatim=(_where(failure.first), masked(failure.first.text)))
    causes = tuple(masked(cause.render(lang)) for cause in match.causes)
    if len(causes) == 1:
        yield ReportSection(say("Why"), causes)
    else:
        yield ReportSection(say("Why, the likeliest first"), items=causes, is_numbered=True)
    owner = _owner_of(failure)
    if owner is not None:
        yield ReportSection(say("Whose it is"), (f"{owner.package.render(lang)} ({owner.target})",))
    remedy = (masked(match.remedy.render(lang)),) if match.remedy.en else ()
    yield ReportSection(say("What to do"), remedy, verbatim=tuple(map(masked, match.commands())))
    yield ReportSection(None, (say("source: {source}", source=match.entry.source).render(lang),))


def _owner_of(failure: Failure) -> LibraryOwner | None:
    """Return the package that should have brought what a message says is missing; None for another message."""
    groups = failure.first.match.groups
    if groups.get("library"):
        return owner_of_library(groups["library"])
    return owner_of_function(groups["symbol"]) if groups.get("symbol") else None


def _unknown(raised: Raised, lang: str) -> ReportSection:
    """Return what to do about an exception that no entry knows, with the text of an issue."""
    if raised.error.kind == CUT_OFF:
        text = say("the log ends within a traceback: the line that names the exception is missing")
        return ReportSection(say("Not known"), (text.render(lang),))
    text = say("no table knows this message, so torchferry says no cause; if it is the stack's and not the program's,"
               " report it with this text:")  # fmt: skip
    issue = (
        f"explain: `{raised.error.kind}` is not known",
        "",
        f"torchferry {__version__} explain",
        _message(raised),
        f"in {raised.error.frame.function or '?'}" if raised.error.frame is not None else "",
    )
    return ReportSection(say("Not known"), (text.render(lang),), verbatim=tuple(masked(line) for line in issue if line))


def _message(raised: Raised) -> str:
    return f"{raised.error.kind}: {raised.error.message}" if raised.error.message else raised.error.kind


def _where(seen: Sighting | Raised | UnexplainedLine) -> str:
    return f"{seen.file.name}:{seen.line}" if seen.line else seen.file.name


def _rows(failures: Sequence[Failure], lang: str) -> tuple[str, ...]:
    return _shortened([_row(failure, lang) for failure in failures], lang)


def _row(failure: Failure, lang: str) -> str:
    writers = list(dict.fromkeys(filter(None, (writer_text(each.writer, lang) for each in failure.all))))
    names = ", ".join(writers[:_MOST_WRITERS])
    if len(writers) > _MOST_WRITERS:
        names = say("{names} and {count} more", names=names, count=len(writers) - _MOST_WRITERS).render(lang)
    title = _title(failure, lang)
    times = say_plural("{count} line", "{count} lines", count=failure.lines).render(lang)
    if failure.lines >= MOST_OF_KIND:
        times = say("at least {number} of them", number=failure.lines).render(lang)
    return "; ".join(filter(None, (title, names, f"{_where(failure.first)} ({times})")))


def _shortened(rows: Iterable[str], lang: str) -> tuple[str, ...]:
    shown = list(rows)
    more = len(shown) - MOST_SHOWN
    if more > 0:
        return (*shown[:MOST_SHOWN], say("{count} more, see `-f json`", count=more).render(lang))
    return tuple(shown)


def document(diagnosis: RunDiagnosis, lang: str) -> str:
    """Return the JSON."""
    result = {
        "schema": 1,
        "kind": "torchferry explain",
        "failed": diagnosis.failed,
        "known": diagnosis.first is not None,
        "complete": not diagnosis.not_read,
        "first": None if diagnosis.first is None else _failure_document(diagnosis.first, lang),
        "exception": None if diagnosis.raised is None else _exception_document(diagnosis.raised),
        "causes": [_failure_document(each, lang) for each in diagnosis.causes],
        "consequences": [_failure_document(each, lang) for each in diagnosis.consequences],
        "doubts": [doubt.render(lang) for doubt in diagnosis.doubts],
        "not_read": [{"name": each.name, "reason": each.reason.render(lang)} for each in diagnosis.not_read],
        "unexplained": [_place_document(each) for each in diagnosis.unexplained],
        "unexplained_count": diagnosis.unexplained_count,
        "files": diagnosis.files,
        "lines": diagnosis.lines,
        "bytes": diagnosis.size,
    }
    return json.dumps(result, ensure_ascii=False, indent=2)


def _failure_document(failure: Failure, lang: str) -> dict[str, Any]:
    match, entry, owner = failure.first.match, failure.entry, _owner_of(failure)
    return {
        "entry": entry.key,
        "code": entry.code,
        "role": entry.role,
        "meaning": masked(match.meaning.render(lang)),
        "causes": [masked(cause.render(lang)) for cause in match.causes],
        "remedy": masked(match.remedy.render(lang)),
        "commands": [masked(command) for command in match.commands()],
        "source": entry.source,
        "package": owner.package.render(lang) if owner is not None else "",
        "count": failure.lines,
        "places": [_place_document(each) for each in failure.all],
    }


def _exception_document(raised: Raised) -> dict[str, Any]:
    frame = raised.error.frame
    return {
        **_place_document(raised),
        "kind": raised.error.kind,
        "message": masked(raised.error.message),
        "in_file": masked(frame.file) if frame is not None else "",
        "in_line": frame.line if frame is not None else 0,
        "in_function": frame.function if frame is not None else "",
    }


def _place_document(seen: Sighting | Raised | UnexplainedLine) -> dict[str, Any]:
    writer = seen.writer
    return {
        "file": seen.file.name,
        "line": seen.line,
        "text": masked(seen.text),
        "time": seen.moment.text if seen.moment is not None else "",
        "rank": writer.rank,
        "process": writer.process,
        "pid": writer.pid,
        "device": writer.device,
        "host": writer.host,
    }
