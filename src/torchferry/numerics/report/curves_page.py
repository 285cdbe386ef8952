"""A comparison of curves as one HTML page that loads nothing."""

from __future__ import annotations

from html import escape
from pathlib import Path

from torchferry.core.messages import say
from torchferry.numerics.curves.comparison import Compared, Comparison
from torchferry.numerics.report import curves_labels
from torchferry.numerics.report.curves_plot import STYLE, framed

_STYLE = Path(__file__).with_name("curves_page.css").read_text(encoding="utf-8")


def render(comparison: Comparison, lang: str, log_scale: bool = False) -> str:
    """Return the page.

    Raises:
        UsageError: a logarithmic scale is asked for and a curve is not above 0.
    """
    title = escape(curves_labels.headline(comparison).render(lang))
    kind = "met" if comparison.passed else "unmet"
    sides = [
        (say("reference"), comparison.references),
        (say("target"), comparison.targets),
    ]
    files = "".join(
        f'<p class="faint">{escape(side.render(lang))}: {escape(curves_labels.safe(", ".join(map(str, paths))))}</p>'
        for side, paths in sides
    )
    body = "".join(_metric(compared, lang, log_scale) for compared in comparison.metrics)
    notes = "".join(f"<p>{escape(curves_labels.safe(note.render(lang)))}</p>" for note in comparison.notes)
    smoothed = ""
    if comparison.smoothing.kind != "none":
        smoothed = f"<p>{escape(say('smoothed before comparing: {how}', how=comparison.smoothing).render(lang))}</p>"
    language = "zh" if lang == "zh" else "en"
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}{STYLE}</style></head><body>"
        f'<h1 class="{kind}">{title}</h1>{files}{body}{smoothed}{notes}</body></html>\n'
    )


def _metric(compared: Compared, lang: str, log_scale: bool) -> str:
    kind = "met" if compared.verdict.met else "unmet"
    head = "".join(
        f"<th>{escape(text)}</th>" for text in ("", say("reference").render(lang), say("target").render(lang))
    )
    ends = "".join(_row(row) for row in curves_labels.ends(compared, lang))
    rows = "".join(_row(row) for row in curves_labels.rows(compared, lang))
    notes = "".join(f"<p>{escape(curves_labels.safe(note.render(lang)))}</p>" for note in curves_labels.notes(compared))
    source = ""
    if compared.verdict.rule.source:
        source = (
            f'<p class="faint">{escape(say("source: {source}", source=compared.verdict.rule.source).render(lang))}</p>'
        )
    return (
        f'<section><h2 class="{kind}">{escape(curves_labels.verdict(compared, lang))}</h2>'
        f"<p>{escape(curves_labels.extent(compared).render(lang))}</p>{notes}{framed(compared, lang, log_scale)}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{ends}</tbody></table>"
        f"<table><tbody>{rows}</tbody></table>{source}</section>"
    )


def _row(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in others)}</tr>"
