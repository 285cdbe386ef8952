"""What `torchferry compare diff A B` found, as a page."""

from __future__ import annotations

import math
from typing import Any

from torchferry.core.messages import say, say_in
from torchferry.numerics.pages import page
from torchferry.numerics.pages.tree import Mark, grown

_SMALLEST = 1e-8
"""Relative errors from here to 1 are shaded, on a logarithmic scale: float32 rounds at 6e-8."""


def render(found: dict[str, Any], lines: list[str], lang: str) -> str:
    """Return the page for a document of `torchferry compare diff`.

    Args:
        found: The document.
        lines: What the command says of it to people; the first is the title.
        lang: `en` or `zh`.
    """
    title, *rest = [line for line in lines if line.strip()] or [""]
    body = [page.paragraphs(rest)]
    if found["causes"]:
        keys = ("cause", "where", "a", "b", "advice")
        head = [
            say_in("column", "cause").render(lang),
            say_in("column", "where").render(lang),
            "A",
            "B",
            say_in("column", "advice").render(lang),
        ]
        body += [
            page.heading(say("what differs before any number does").render(lang)),
            page.table(head, [[str(cause.get(key, "")) for key in keys] for cause in found["causes"]]),
        ]
    marks = [
        Mark(one["module"], _level(one["error"]), f"{page.shown(_error(one['error']))} ({one['phase']})")
        for one in found["modules"]
    ]
    if marks:
        body += [page.heading(say("modules").render(lang)), page.tree(grown(marks, say("no module").render(lang)))]
    curve = page.curve(
        [(float(one["step"]), _error(one["error"])) for one in found["steps"]],
        say_in("column", "step").render(lang),
        say("relative error of a step").render(lang),
    )
    return page.framed(title, bool(found["same"]), [*body, curve], lang)


def _error(value: Any) -> float:
    return float(value) if value is not None else 0.0


def _level(value: Any) -> float:
    error = _error(value)
    if math.isnan(error):
        return 1.0
    return min(max(math.log10(max(error, _SMALLEST) / _SMALLEST) / -math.log10(_SMALLEST), 0.0), 1.0)
