"""Curves drawn as SVG: both sides above, the relative error below; one file without anything to load."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.web_page import web_page
from torchferry.numerics.curves.comparison import Compared, CurveComparison
from torchferry.numerics.curves.curve import KeyKind, shown
from torchferry.numerics.curves.judging import percent
from torchferry.numerics.curves.measures import relative_error
from torchferry.numerics.report import curves

STYLE = Path(__file__).with_name("curves_plot.css").read_text(encoding="utf-8")
"""How a plot looks; it follows the reader's choice of light or dark."""

_WIDTH, _LEFT, _RIGHT = 900, 78, 24
_TOP, _CURVES, _GAP, _ERRORS, _BOTTOM = 64, 270, 34, 110, 44
_HEIGHT = _TOP + _CURVES + _GAP + _ERRORS + _BOTTOM
_BUCKETS = 700
"""Columns in which a long curve is drawn by its lowest and highest value, so that no spike is lost."""

Point = tuple[float, float]


class _Axis(NamedTuple):
    """Maps values to pixels: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else (self.start + self.end) / 2


def draw(comparison: CurveComparison, lang: str, log_scale: bool = False) -> str:
    """Return one SVG with a plot for each metric, one under the other.

    Raises:
        UsageError: a logarithmic scale is asked for and a curve is not above 0.
    """
    plots = [drawing(compared, lang, log_scale) for compared in comparison.metrics]
    height = _HEIGHT * len(plots)
    body = "".join(f'<g transform="translate(0 {index * _HEIGHT})">{plot}</g>' for index, plot in enumerate(plots))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tf" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img"><style>{STYLE}</style>'
        f'<rect width="{_WIDTH}" height="{height}" fill="var(--paper)"/>{body}</svg>\n'
    )


def framed(compared: Compared, lang: str, log_scale: bool) -> str:
    """Return the SVG of one metric for a page that has `STYLE`.

    Raises:
        UsageError: as `draw`.
    """
    inner = drawing(compared, lang, log_scale)
    return f'<svg class="tf" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{inner}</svg>'


def drawing(compared: Compared, lang: str, log_scale: bool) -> str:
    """Return what is inside the SVG of one metric.

    Raises:
        UsageError: as `draw`.
    """
    pairing = compared.pairing
    scale = _logarithm(compared) if log_scale else _same
    x_values = [key[1] for key in pairing.keys] if pairing.form == KeyKind.STEP else list(range(len(pairing.keys)))
    x = _Axis(x_values[0], x_values[-1], _LEFT, _WIDTH - _RIGHT)
    runs = (*pairing.references, *pairing.targets)
    finite = [scale(value) for run in runs for value in run if math.isfinite(value)]
    y = _Axis(min(finite, default=0.0), max(finite, default=1.0), _TOP + _CURVES, _TOP)
    parts = [_head(compared, lang), _grid(y, x, log_scale)]
    if len(pairing.references) > 1:
        parts.append(_band(x, y, x_values, pairing.references, scale))
        parts += [_curve(x, y, x_values, run, scale, "one faint") for run in pairing.references]
    if len(pairing.targets) > 1:
        parts += [_curve(x, y, x_values, run, scale, "two faint") for run in pairing.targets]
    parts.append(_curve(x, y, x_values, pairing.reference, scale, "one main"))
    parts.append(_curve(x, y, x_values, pairing.target, scale, "two main"))
    parts.append(_broken(x, x_values, pairing.target))
    parts.append(_errors(compared, x, x_values, lang))
    parts.append(_steps(compared, x, x_values, lang))
    return "".join(parts)


def _same(value: float) -> float:
    return value


def _logarithm(compared: Compared) -> Callable[[float], float]:
    for run in (*compared.pairing.references, *compared.pairing.targets):
        if any(value <= 0 for value in run if math.isfinite(value)):
            raise UsageError(
                say(
                    "`{metric}` has values of 0 or below, which a logarithmic scale cannot show",
                    metric=compared.choice.title,
                ),
                say("plot it without --log-scale"),
            )
    return math.log10


def _head(compared: Compared, lang: str) -> str:
    title = escape(curves.safe(compared.choice.title))
    verdict = escape(curves.verdict(compared, lang))
    reference = escape(say("reference").render(lang))
    target = escape(say("target").render(lang))
    return (
        f'<title>{verdict}</title><text class="title" x="{_LEFT}" y="24">{title}</text>'
        f'<text x="{_LEFT}" y="44">{verdict}</text>'
        f'<path class="one main" d="M{_WIDTH - 230} 20h26"/><text x="{_WIDTH - 198}" y="24">{reference}</text>'
        f'<path class="two main" d="M{_WIDTH - 120} 20h26"/><text x="{_WIDTH - 88}" y="24">{target}</text>'
    )


def _grid(y: _Axis, x: _Axis, log_scale: bool) -> str:
    lines = []
    for tick in _ticks(y.low, y.high):
        at = y(tick)
        label = f"{10**tick:.3g}" if log_scale else f"{tick:.6g}"
        lines.append(_line("grid", x.start, at, x.end, at) + _text(x.start - 8, at + 4, label, "end"))
    return "".join(lines)


def _curve(
    x: _Axis, y: _Axis, x_values: Sequence[float], run: Sequence[float], scale: Callable[[float], float], kind: str
) -> str:
    points = [
        (x(place), y(scale(value))) if math.isfinite(value) else None
        for place, value in zip(x_values, run, strict=True)
    ]
    return f'<path class="{kind}" d="{_path(points)}"/>'


def _band(
    x: _Axis, y: _Axis, x_values: Sequence[float], runs: Sequence[Sequence[float]], scale: Callable[[float], float]
) -> str:
    columns = [
        (place, values) for place, *values in zip(x_values, *runs, strict=True) if all(map(math.isfinite, values))
    ]
    step = max(1, len(columns) // (2 * _BUCKETS))
    columns = columns[::step]
    if len(columns) < 2:
        return ""
    upper = [f"{x(place):.1f} {y(scale(max(values))):.1f}" for place, values in columns]
    lower = [f"{x(place):.1f} {y(scale(min(values))):.1f}" for place, values in reversed(columns)]
    return f'<path class="band" d="M{"L".join(upper + lower)}Z"/>'


def _broken(x: _Axis, x_values: Sequence[float], run: Sequence[float]) -> str:
    """Mark where the target has no number, at the foot of the curves."""
    places = sorted({round(x(place)) for place, value in zip(x_values, run, strict=True) if not math.isfinite(value)})
    foot = _TOP + _CURVES
    return "".join(f'<path class="broken" d="M{place - 4} {foot - 8}l8 8m0 -8l-8 8"/>' for place in places)


def _errors(compared: Compared, x: _Axis, x_values: Sequence[float], lang: str) -> str:
    pairing = compared.pairing
    errors = [relative_error(r, t) for r, t in zip(pairing.reference, pairing.target, strict=True)]
    sizes = [abs(error) for error in errors if error is not None]
    limit = compared.measures.tolerance
    top = _TOP + _CURVES + _GAP
    most = max(max(sizes, default=0.0), limit * 1.2, 1e-12)
    y = _Axis(-most, most, top + _ERRORS, top)
    points = [
        (x(place), y(error)) if error is not None else None for place, error in zip(x_values, errors, strict=True)
    ]
    title = escape(say("relative error").render(lang))
    parts = [_line("grid", x.start, y(0), x.end, y(0)), _text(x.start, top - 8, title, "start")]
    for value, kind in ((limit, "limit"), (-limit, "limit")):
        parts.append(_line(kind, x.start, y(value), x.end, y(value)))
    parts += [_text(x.start - 8, y(value) + 4, percent(value), "end") for value in (-most, 0.0, most)]
    return "".join(parts) + f'<path class="error" d="{_path(points)}"/>'


def _steps(compared: Compared, x: _Axis, x_values: Sequence[float], lang: str) -> str:
    pairing = compared.pairing
    foot = _HEIGHT - _BOTTOM + 18
    if pairing.form == KeyKind.STEP:
        labels = [(tick, f"{tick:.15g}") for tick in _ticks(x.low, x.high, 8)]
    else:
        wanted = sorted({round(index * (len(pairing.keys) - 1) / 5) for index in range(6)})
        labels = [(float(index), shown(pairing.keys[index], pairing.form)) for index in wanted]
    parts = [_text(x(place), foot, escape(label), _anchor(x(place), x)) for place, label in labels]
    if compared.start:
        at = x(x_values[compared.start])
        parts.append(_line("limit", at, _TOP, at, _TOP + _CURVES))
        parts.append(_text(at + 4, _TOP + 12, escape(say("judged from here").render(lang)), "start"))
    return "".join(parts)


def _anchor(place: float, x: _Axis) -> str:
    """Return where a label is held, so that those at the ends stay inside."""
    margin = 40
    return "start" if place < x.start + margin else "end" if place > x.end - margin else "middle"


def _path(points: Sequence[Point | None]) -> str:
    drawn = []
    pen = "M"
    for point in _thinned(points):
        if point is None:
            pen = "M"
            continue
        drawn.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "L"
    return "".join(drawn)


def _thinned(points: Sequence[Point | None]) -> list[Point | None]:
    if len(points) <= 4 * _BUCKETS:
        return list(points)
    kept: list[Point | None] = []
    for index in range(_BUCKETS):
        part = points[index * len(points) // _BUCKETS : (index + 1) * len(points) // _BUCKETS]
        there = [point for point in part if point is not None]
        if not there:
            kept.append(None)
            continue
        extremes = {there[0], min(there, key=lambda p: p[1]), max(there, key=lambda p: p[1]), there[-1]}
        kept += sorted(extremes)
        if len(there) < len(part):
            kept.append(None)
    return kept


def _ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers between two values, about `count` of them."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    if not math.isfinite(rough) or rough <= 0:
        return [low, high]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 5, 10) if factor * power >= rough), rough)
    first = math.ceil(low / step)
    return [(first + index) * step for index in range(int((high - first * step) / step + 1e-9) + 1)]


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


# A comparison of curves as one HTML page that loads nothing.

_STYLE = Path(__file__).with_name("curves_page.css").read_text(encoding="utf-8")


def render(comparison: CurveComparison, lang: str, log_scale: bool = False) -> str:
    """Return the page.

    Raises:
        UsageError: a logarithmic scale is asked for and a curve is not above 0.
    """
    title = curves.headline(comparison).render(lang)
    kind = "met" if comparison.passed else "unmet"
    sides = [
        (say("reference"), comparison.references),
        (say("target"), comparison.targets),
    ]
    files = "".join(
        f'<p class="faint">{escape(side.render(lang))}: {escape(curves.safe(", ".join(map(str, paths))))}</p>'
        for side, paths in sides
    )
    body = "".join(_metric(compared, lang, log_scale) for compared in comparison.metrics)
    notes = "".join(f"<p>{escape(curves.safe(note.render(lang)))}</p>" for note in comparison.notes)
    smoothed = ""
    if comparison.smoothing.kind != "none":
        smoothed = f"<p>{escape(say('smoothed before comparing: {how}', how=comparison.smoothing).render(lang))}</p>"
    return web_page(title, _STYLE + STYLE, [files, body, smoothed, notes], lang, kind=kind)


def _metric(compared: Compared, lang: str, log_scale: bool) -> str:
    kind = "met" if compared.verdict.met else "unmet"
    head = "".join(
        f"<th>{escape(text)}</th>" for text in ("", say("reference").render(lang), say("target").render(lang))
    )
    ends = "".join(_row(row) for row in curves.ends(compared, lang))
    rows = "".join(_row(row) for row in curves.rows(compared, lang))
    notes = "".join(f"<p>{escape(curves.safe(note.render(lang)))}</p>" for note in curves.notes(compared))
    source = ""
    if compared.verdict.rule.source:
        source = (
            f'<p class="faint">{escape(say("source: {source}", source=compared.verdict.rule.source).render(lang))}</p>'
        )
    return (
        f'<section><h2 class="{kind}">{escape(curves.verdict(compared, lang))}</h2>'
        f"<p>{escape(curves.extent(compared).render(lang))}</p>{notes}{framed(compared, lang, log_scale)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{ends}</tbody></table>"
        f"<table><tbody>{rows}</tbody></table>{source}</section>"
    )


def _row(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in others)}</tr>"
