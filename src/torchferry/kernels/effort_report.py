"""What `torchferry port --analyse` prints: the effort of a port as text, JSON, CSV or one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchferry import __version__
from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.terminal import visible
from torchferry.core.text_table import csv_text, plain_cell, with_title
from torchferry.kernels.effort import PlaceCounts, PortEffort, class_titles, effort_of
from torchferry.kernels.listing import summary, unknown_text
from torchferry.kernels.ported_tree import PortedTree

EFFORT_FORMATS = ("text", "json", "csv", "html")
_MOST_FILES = 20
"""Files that the text shows unless all are asked for."""


def render_effort(ported: PortedTree, form: str, lang: str, *, verbose: bool = False) -> str:
    """Return the effort in one of `EFFORT_FORMATS`.

    Args:
        ported: The tree.
        form: The form.
        lang: The language.
        verbose: Whether the text shows every file.
    """
    effort = effort_of(ported)
    if form == "json":
        return json_text(_document(ported, effort, lang))
    if form == "csv":
        return csv_text(_csv_rows(effort))
    if form == "html":
        return _html(ported, effort, lang)
    return "\n".join(effort_lines(ported, effort, lang, verbose=verbose)) + "\n"


def effort_lines(ported: PortedTree, effort: PortEffort, lang: str, *, verbose: bool = False) -> Iterator[str]:
    """Yield the text: what it is about, the classes, the files."""
    yield summary(ported).render(lang)
    yield ""
    titles = class_titles()
    rows = [[titles[each].render(lang), *_cells(places)] for each, places in effort.classes.items()]
    rows.append([say("whole").render(lang), *_cells(effort.whole)])
    yield from with_title([_heads(say("class of API"), lang), *rows])
    files = _by_effort(effort)
    shown = files if verbose else files[:_MOST_FILES]
    if shown:
        yield ""
        yield from with_title(
            [_heads(say("file"), lang), *([visible(path), *_cells(effort.of_file(path))] for path in shown)]
        )
    if len(files) > len(shown):
        more = say_plural(
            "... and {count} more file; `--verbose` shows it",
            "... and {count} more files; `--verbose` shows them",
            count=len(files) - len(shown),
        )
        yield "  " + more.render(lang)
    yield ""
    yield _explanation().render(lang)
    yield say("names that were not understood: {names}", names=visible(unknown_text(ported, lang))).render(lang)
    if effort.unread:
        names = visible(", ".join(effort.unread))
        yield say("not in these numbers, since it cannot be read: {names}", names=names).render(lang)


def _explanation() -> Message:
    return say(
        "A place is a token that the port renames, or one of its review list; code that stays as it is and is right is "
        "none. Renamed places need nothing, places to check are to be compared, places by hand are to be written."
    )


def _by_effort(effort: PortEffort) -> list[str]:
    """Return the files, those with most places by hand and to check first."""

    def rank(path: str) -> tuple[int, int, str]:
        places = effort.of_file(path)
        return -places.by_hand, -places.to_check, path

    return sorted((path for path in effort.files if effort.of_file(path).all), key=rank)


def _heads(first: Message, lang: str) -> list[str]:
    titles = (first, say("places"), say("renamed %"), say("to check %"), say("by hand %"))
    return [title.render(lang) for title in titles]


def _cells(places: PlaceCounts) -> list[str]:
    return [str(places.all), *(f"{share:.1f}" for share in places.percent())]


def _document(ported: PortedTree, effort: PortEffort, lang: str) -> dict[str, Any]:
    titles = class_titles()
    return {
        "schema": 1,
        "torchferry": __version__,
        "root": str(ported.root),
        "target": str(ported.target),
        "whole": _places(effort.whole),
        "classes": {
            each.value: {"title": titles[each].render(lang), **_places(places)}
            for each, places in effort.classes.items()
        },
        "files": [
            {
                "path": path,
                **_places(effort.of_file(path)),
                "classes": {each.value: _places(places) for each, places in classes.items()},
            }
            for path, classes in effort.files.items()
        ],
        "not_understood": len(ported.account.names),
        "unread": list(effort.unread),
    }


def _places(places: PlaceCounts) -> dict[str, Any]:
    shares = places.percent()
    return {
        "places": places.all,
        "renamed": places.renamed,
        "to_check": places.to_check,
        "by_hand": places.by_hand,
        "percent": {"renamed": shares[0], "to_check": shares[1], "by_hand": shares[2]},
    }


def _csv_rows(effort: PortEffort) -> Iterator[Sequence[object]]:
    """Yield a row for each file and class, for each class of the whole tree, and for the whole tree.

    The path of the tree's own rows is empty, and so is the class of a row of all classes.
    """
    yield (
        "path",
        "class",
        "places",
        "renamed",
        "to_check",
        "by_hand",
        *(f"{each}_percent" for each in PlaceCounts._fields),
    )

    def row(path: str, which: str, places: PlaceCounts) -> Sequence[object]:
        return (plain_cell(path), which, places.all, *places, *places.percent())

    for path, classes in effort.files.items():
        yield from (row(path, each.value, places) for each, places in classes.items())
        yield row(path, "", effort.of_file(path))
    yield from (row("", each.value, places) for each, places in effort.classes.items())
    yield row("", "", effort.whole)


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border-bottom:1px solid #ddd;padding:.3em .6em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#eee}td,th{border-color:#333}}"
)


def _html(ported: PortedTree, effort: PortEffort, lang: str) -> str:
    from html import escape  # imported late: it has the names of all entities

    from torchferry.core.web_page import web_page

    def drawn(first: Message, rows: list[list[str]]) -> str:
        head = "".join(f"<th>{escape(cell)}" for cell in _heads(first, lang))
        lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows)
        return f"<table><tr>{head}{lines}</table>"

    titles = class_titles()
    classes = [[titles[each].render(lang), *_cells(places)] for each, places in effort.classes.items()]
    classes.append([say("whole").render(lang), *_cells(effort.whole)])
    files = [[visible(path), *_cells(effort.of_file(path))] for path in _by_effort(effort)]
    unknown = say("names that were not understood: {names}", names=visible(unknown_text(ported, lang)))
    notes = [summary(ported), _explanation(), unknown]
    if effort.unread:
        names = visible(", ".join(effort.unread))
        notes.append(say("not in these numbers, since it cannot be read: {names}", names=names))
    parts = [f"<p>{escape(note.render(lang))}</p>" for note in notes]
    parts += [drawn(say("class of API"), classes), drawn(say("file"), files)]
    title = f"torchferry port --analyse: {ported.root} → {ported.target.title.render(lang)}"
    return web_page(visible(title), _STYLE, parts, lang)
