"""What `torchferry nan` found, as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchferry.core.messages import say, say_in
from torchferry.numerics.pages import page
from torchferry.numerics.pages.tree import Mark, grown
from torchferry.numerics.summaries.finding import place
from torchferry.numerics.summaries.nan import incomplete, lines


def render(result: dict[str, Any], lang: str) -> str:
    """Return the page for a document of `torchferry nan`."""
    said = lines(result, lang)
    body = [page.paragraphs(said[1:])]
    marks = list(_marks(result))
    if marks:
        body += [page.heading(say("modules").render(lang)), page.tree(grown(marks, say("no module").render(lang)))]
    origins = [(found, one) for found in _findings(result) for one in found["origins"]]
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
            page.heading(say("calls that made something bad of what was not").render(lang)),
            page.table(
                [head.render(lang) for head in heads],
                [
                    (found["rank"], found["step"], one["operator"], place(one, lang), one["kind"], one["line"])
                    for found, one in origins
                ],
            ),
        ]
    well = result["first"] is None and not incomplete(result)
    return page.framed(said[0].removeprefix("[WARNING] "), well, body, lang)


def _findings(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rank in result["ranks"]:
        for found in rank.get("findings", []):
            yield {"rank": rank["rank"], **found}


def _marks(result: dict[str, Any]) -> Iterator[Mark]:
    for found in _findings(result):
        for number, one in enumerate(found["origins"]):
            yield Mark(one["module"], 1.0 if number == 0 else 0.6, f"{one['operator']} ({one['kind']}, {one['phase']})")
