"""The part of a report about CUDA C++: what each file has, what keeps it from running, and the command that ports it.

Imported late: most projects have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchferry.core.messages import Message, say
from torchferry.core.terminal import visible
from torchferry.kernels.listing import by_kind, review_lines
from torchferry.kernels.review import kinds
from torchferry.kernels.survey import NativeSurvey, SurveyedFile, file_line
from torchferry.report.html_text import HtmlContext, HtmlPart, text

_MOST_FILES = 4
_MOST_ITEMS = 5_000
"""Places to look at that a JSON report carries, and a page of one kind; all are counted."""


def native_line(native: NativeSurvey) -> Message:
    """Return the sum and what to do next, in one line."""
    title = say("CUDA C++: {summary}", summary=native.headline())
    return say("{what}; next: {command}", what=title, command=native.command) if native.command else title


def native_lines(native: NativeSurvey, lang: str, verbose: bool = False) -> Iterator[str]:
    """Yield the lines of a text report: the sum, the files with the weightiest first, and what to do next.

    With `verbose` all files, and every place that a person has to look at.
    """
    title = say("CUDA C++: {summary}", summary=native.headline())
    yield title.render(lang)
    shown = sorted(native.files, key=_weight)
    most = len(shown) if verbose else _MOST_FILES
    for file in shown[:most]:
        yield f"  {visible(_said(file, lang))}"
    if len(shown) > most:
        yield f"  {say('... and {count} more', count=len(shown) - most).render(lang)}"
    if verbose:
        yield from (f"  {line}" if line else "" for line in review_lines(native.items, lang))
    if any(file.copy and file.kernels for file in native.files):
        yield f"  {_not_compiled().render(lang)}"
    if native.command:
        yield f"  {say('next: {command}', command=visible(native.command)).render(lang)}"


def native_object(native: NativeSurvey, lang: str) -> dict[str, Any]:
    """Return the part as JSON holds it."""
    explained = kinds()
    return {
        "summary": native.headline().render(lang),
        "command": native.command,
        "libraries": list(native.libraries),
        "kernels": [kernel.document() for kernel in native.kernels],
        "files": [
            {
                "path": file.path,
                "kernels": file.kernels,
                "launches": file.launches,
                "libraries": list(file.libraries),
                "kinds": dict(file.kinds),
                "ported": file.copy,
                "differs": file.differs,
            }
            for file in native.files
        ],
        "kinds": {
            kind: {"count": count, **explained[kind].document(lang)} for kind, count in sorted(native.kinds.items())
        },
        "review": [item.document(lang) for item in native.items[:_MOST_ITEMS]],
    }


def native_part(native: NativeSurvey, context: HtmlContext) -> HtmlPart:
    """Return the part as it is on a page: all files, and below each kind the places to look at."""
    title = say("CUDA C++: {summary}", summary=native.headline())
    return HtmlPart("native", context.text(title), [*_native_html(native, context)])


def _native_html(native: NativeSurvey, context: HtmlContext) -> Iterator[str]:
    yield "<ul>"
    yield from (f"<li>{text(_said(file, context.lang))}</li>" for file in sorted(native.files, key=_weight))
    yield "</ul>"
    for kind, items in by_kind(native.items):
        yield f"<details><summary><b>{text(kind.name)}</b> {len(items)}</summary>"
        yield f'<p>{context.text(kind.why)}. {context.text(kind.action)}.</p><ul class="at">'
        for item in items[:_MOST_ITEMS]:
            place = f"{item.path}:{item.line}:{item.column}"
            yield f"<li>{text(place)} {context.text(item.message)}<pre>{text(item.excerpt)}</pre></li>"
        yield "</ul>"
        if len(items) > _MOST_ITEMS:
            yield f'<p class="left">{context.text(say("... and {count} more", count=len(items) - _MOST_ITEMS))}</p>'
        yield "</details>"
    if any(file.copy and file.kernels for file in native.files):
        yield f"<p>{context.text(_not_compiled())}</p>"
    if native.command:
        yield f"<p>{context.marked(say('next: {command}', command=f'`{native.command}`'))}</p>"


def _not_compiled() -> Message:
    return say("nothing was compiled: whether the vendor's compiler takes the ported files, only its toolkit shows")


def _said(file: SurveyedFile, lang: str) -> str:
    contents = "; ".join(message.render(lang) for message in file_line(file))
    return f"{file.path}: {contents}" if contents else file.path


def _weight(file: SurveyedFile) -> tuple[bool, int, int, str]:
    return bool(file.copy), -file.blocking, -file.kernels, file.path
