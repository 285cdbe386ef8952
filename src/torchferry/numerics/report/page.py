"""The parts that the pages share: the frame, the tree of modules, tables and curves. All text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from torchferry.numerics.report.tree import Branch

_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

OPEN = 0.5
"""Branches from this level on are shown open."""


def framed(title: str, well: bool, body: Iterable[str], lang: str) -> str:
    """Return a whole page."""
    language = "zh" if lang == "zh" else "en"
    kind = "met" if well else "unmet"
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f'<h1 class="{kind}">{escape(title)}</h1>{"".join(body)}</body></html>\n'
    )


def paragraphs(lines: Iterable[str]) -> str:
    """Return lines as paragraphs; what is indented stands in the type of code."""
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
