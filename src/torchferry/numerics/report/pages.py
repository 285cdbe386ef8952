"""What the tools found, as HTML pages that load nothing. All text is escaped here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from torchferry.core.messages import say, say_in, say_plural
from torchferry.core.web_page import web_page
from torchferry.numerics.report.compare import compared, extent, failed, is_without_accelerator
from torchferry.numerics.report.compare import lines as compare_lines
from torchferry.numerics.report.nan import incomplete, place
from torchferry.numerics.report.nan import lines as nan_lines

# The parts that the pages share: the frame, the tree of modules, tables and curves. All text is escaped here.

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

OPEN = 0.5
"""Branches from this level on are shown open."""


def framed(title: str, well: bool, body: Iterable[str], lang: str, script: str = "") -> str:
    """Return a whole page, with a script that it runs."""
    return web_page(title, _STYLE, body, lang, kind="met" if well else "unmet", script=script)


def paragraphs(lines: Iterable[str]) -> str:
    """Return lines as paragraphs; what is indented is in the type of code."""
    return "".join(
        f"<pre>{escape(line.strip())}</pre>" if line.startswith("  ") else f"<p>{escape(line)}</p>" for line in lines
    )


def heading(text: str) -> str:
    """Return a heading."""
    return f"<h2>{escape(text)}</h2>"


def tree(branch: Branch) -> str:
    """Return a tree of modules: each with a bar of its level, the bad ones open."""
    return f'<div class="tree">{"".join(_branch(child) for child in branch.sorted_children())}</div>'


def _branch(branch: Branch) -> str:
    shade = round(min(max(branch.level, 0.0), 1.0) * 100)
    said = "".join(f"<small>{escape(text)}</small>" for text in branch.texts)
    label = f'<span class="mark" style="--level:{shade}%"></span><b>{escape(branch.name)}</b>{said}'
    if not branch.children:
        return f'<div class="leaf">{label}</div>'
    opened = " open" if branch.level >= OPEN else ""
    inside = "".join(_branch(child) for child in branch.sorted_children())
    return f"<details{opened}><summary>{label}</summary>{inside}</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], kinds: Iterable[str] = ()) -> str:
    """Return a table; `kinds` gives each row's class: `fail`, `warn`, or an empty text."""
    classes = list(kinds)
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = []
    for number, row in enumerate(rows):
        kind = classes[number] if number < len(classes) else ""
        cells = "".join(f"<td>{escape(shown(cell))}</td>" for cell in row)
        body.append(f'<tr class="{escape(kind)}">{cells}</tr>')
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def shown(value: object) -> str:
    """Return a cell's text: numbers in four digits, nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "x".join(map(str, value))
    return str(value)


def curve(points: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """Return a curve on a logarithmic scale of its values; what is not above 0 is left out."""
    drawn = [(x, y) for x, y in points if y > 0 and math.isfinite(y)]
    if len(drawn) < 2:
        return ""
    xs, ys = [x for x, _ in drawn], [math.log10(y) for _, y in drawn]
    left, right = min(xs), max(xs)
    low, high = math.floor(min(ys)), math.ceil(max(ys))
    high = high if high > low else low + 1
    width, height, edge = 640.0, 200.0, 44.0

    def place(x: float, y: float) -> str:
        along = edge + (x - left) / ((right - left) or 1) * (width - edge - 8)
        return f"{along:.1f},{8 + (high - y) / (high - low) * (height - 36):.1f}"

    lines = "".join(
        f'<path class="grid" d="M{place(left, power)}L{place(right, power)}"/>'
        f'<text x="2" y="{float(place(left, power).split(",")[1]) + 4:.1f}">1e{power}</text>'
        for power in range(low, high + 1, max(1, (high - low) // 5))
    )
    path = " ".join(place(x, y) for x, y in zip(xs, ys, strict=True))
    ends = (
        f'<text x="{edge}" y="{height - 6}">{escape(across)} {left:g}</text>'
        f'<text x="{width - 8}" y="{height - 6}" text-anchor="end">{right:g}</text>'
        f'<text x="{edge}" y="{height - 20}" class="name">{escape(up)}</text>'
    )
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(up)}">'
        f'{lines}{ends}<polyline points="{path}"/></svg>'
    )


# The modules of a model as a tree, each with how bad the worst of what it holds is.


@dataclass
class Branch:
    """A module.

    Attributes:
        name: Its own part of the path.
        path: The whole path.
        level: How bad the worst below it is: 0 is well, 1 the worst there is.
        texts: What is said of this module itself.
        children: The modules in it.
    """

    name: str
    path: str
    level: float = 0.0
    texts: list[str] = field(default_factory=list)
    children: dict[str, Branch] = field(default_factory=dict)

    def sorted_children(self) -> Iterator[Branch]:
        """Yield children, numbered ones in the order of their numbers."""
        yield from sorted(
            self.children.values(),
            key=lambda child: (not child.name.isdigit(), int(child.name) if child.name.isdigit() else 0),
        )


@dataclass(frozen=True)
class Mark:
    """What is said of one module.

    Attributes:
        path: The module, `GPT.blocks.0.mlp`; empty outside of modules.
        level: From 0, well, to 1.
        text: What is shown at the module; empty shows nothing.
    """

    path: str
    level: float
    text: str = ""


def grown(marks: Iterable[Mark], outside: str) -> Branch:
    """Return the tree of all modules that are spoken of.

    Args:
        marks: What is said.
        outside: The name of what is in no module.
    """
    root = Branch("", "")
    for mark in marks:
        branch = root
        branch.level = max(branch.level, mark.level)
        for part in mark.path.split(".") if mark.path else [outside]:
            path = f"{branch.path}.{part}" if branch.path else part
            branch = branch.children.setdefault(part, Branch(part, path))
            branch.level = max(branch.level, mark.level)
        if mark.text and mark.text not in branch.texts:
            branch.texts.append(mark.text)
    return root


# What `torchferry compare -- COMMAND` found, as a page; all ranks in one tree.

_LEVELS = {"fail": 1.0, "warn": 0.7}
_SHOWN = 2000
"""Rows of the table; the worst are shown, and the CSV has all."""

_COLUMNS = (
    *("operator", "module", "phase", "step", "dtype", "shape", "max_abs", "max_rel", "ulp", "rmse_ratio"),
    *("of_bound", "cosine", "elements", "count", "reason"),
)
_HEADS = {"max_abs": "max abs", "max_rel": "MARE", "ulp": "ULP", "rmse_ratio": "RMSE/CPU", "of_bound": "of bound"}
_ORDER = ("fail", "warn", "untested", "pass", "skipped")


def compare_page(document: dict[str, Any], lang: str) -> str:
    """Return the page for a document of `torchferry compare`."""
    said = list(compare_lines(document, lang))
    first = next((line for line in said if line.startswith(say("FIRST FAILURE").render(lang))), "")
    nothing = said[-1] if not compared(document) else said[0] if is_without_accelerator(document) else ""
    title = first or nothing or say("no operator failed").render(lang)
    rows = sorted(_rows(document), key=_badness)
    head = ("rank", "status", *(_HEADS.get(name, name) for name in _COLUMNS))
    cut = len(rows) - _SHOWN
    body = [
        paragraphs(itertools.takewhile(bool, said)),  # behind the gap comes the table of the worst
        heading(say("modules").render(lang)),
        tree(grown(map(_mark, rows), say("no module").render(lang))),
        heading(say("operators").render(lang)),
        table(
            head,
            [(row["rank"], row["status"], *(row[name] for name in _COLUMNS)) for row in rows[:_SHOWN]],
            [row["status"] for row in rows[:_SHOWN]],
        ),
    ]
    if cut > 0:
        body.append(
            paragraphs(
                [
                    say_plural(
                        "{count} more row is not shown; `-f csv` writes all",
                        "{count} more rows are not shown; `-f csv` writes all",
                        count=cut,
                    ).render(lang)
                ]
            )
        )
    return framed(title, not (failed(document) or nothing), body, lang)


def _rows(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rank in document["ranks"]:
        for row in rank.get("operators", []):
            yield {"rank": rank["rank"], **row, "elements": extent(row)}


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    return _ORDER.index(row["status"]), -_number(row["of_bound"])


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _mark(row: dict[str, Any]) -> Mark:
    level = _LEVELS.get(row["status"], min(_number(row["of_bound"]), 1.0) / 2)
    shown = f"{row['operator']} ({row['status']}, {row['phase']})" if row["status"] in _LEVELS else ""
    return Mark(row["module"], level, shown)


# What `torchferry nan` found, as a page.


def nan_page(result: dict[str, Any], lang: str) -> str:
    """Return the page for a document of `torchferry nan`."""
    said = nan_lines(result, lang)
    body = [paragraphs(said[1:])]
    marks = list(_marks(result))
    if marks:
        body += [heading(say("modules").render(lang)), tree(grown(marks, say("no module").render(lang)))]
    origins = [(finding, origin) for finding in _finding_pages(result) for origin in finding["origins"]]
    if origins:
        heads = (
            say_in("column", "rank"),
            say_in("column", "step"),
            say_in("column", "operator"),
            say_in("column", "where"),
            say_in("column", "kind"),
            say_in("column", "line"),
        )
        body += [
            heading(say("calls that produced NaN or infinity that their inputs do not have").render(lang)),
            table(
                [head.render(lang) for head in heads],
                [
                    (
                        finding["rank"],
                        finding["step"],
                        origin["operator"],
                        place(origin, lang),
                        origin["kind"],
                        origin["line"],
                    )
                    for finding, origin in origins
                ],
            ),
        ]
    well = result["first"] is None and not incomplete(result)
    return framed(said[0].removeprefix("[WARNING] "), well, body, lang)


def _finding_pages(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rank in result["ranks"]:
        for finding in rank.get("findings", []):
            yield {"rank": rank["rank"], **finding}


def _marks(result: dict[str, Any]) -> Iterator[Mark]:
    for finding in _finding_pages(result):
        for number, origin in enumerate(finding["origins"]):
            yield Mark(
                origin["module"],
                1.0 if number == 0 else 0.6,
                f"{origin['operator']} ({origin['kind']}, {origin['phase']})",
            )


# What `torchferry compare diff A B` found, as a page.

_SMALLEST = 1e-8
"""Relative errors from here to 1 are shaded, on a logarithmic scale: float32 rounds at 6e-8."""


def diff_page(document: dict[str, Any], lines: list[str], lang: str) -> str:
    """Return the page for a document of `torchferry compare diff`.

    Args:
        document: The document.
        lines: What the command says of it to people; the first is the title.
        lang: `en` or `zh`.
    """
    title, *rest = [line for line in lines if line.strip()] or [""]
    body = [paragraphs(rest)]
    if document["causes"]:
        keys = ("cause", "where", "a", "b", "advice")
        head = [
            say_in("column", "cause").render(lang),
            say_in("column", "where").render(lang),
            "A",
            "B",
            say_in("column", "advice").render(lang),
        ]
        body += [
            heading(say("differences outside the operators").render(lang)),
            table(head, [[str(cause.get(key, "")) for key in keys] for cause in document["causes"]]),
        ]
    marks = [
        Mark(module["module"], _level(module["error"]), f"{shown(_error(module['error']))} ({module['phase']})")
        for module in document["modules"]
    ]
    if marks:
        body += [heading(say("modules").render(lang)), tree(grown(marks, say("no module").render(lang)))]
    drawing = curve(
        [(float(step["step"]), _error(step["error"])) for step in document["steps"]],
        say_in("column", "step").render(lang),
        say("relative error of a step").render(lang),
    )
    return framed(title, bool(document["same"]), [*body, drawing], lang)


def _error(value: Any) -> float:
    return float(value) if value is not None else 0.0


def _level(value: Any) -> float:
    error = _error(value)
    if math.isnan(error):
        return 1.0
    return min(max(math.log10(max(error, _SMALLEST) / _SMALLEST) / -math.log10(_SMALLEST), 0.0), 1.0)
