"""What `torchferry compare -- COMMAND` found, as a page; all ranks in one tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torchferry.core.messages import say, say_plural
from torchferry.numerics.pages import page
from torchferry.numerics.pages.tree import Mark, grown
from torchferry.numerics.summaries.compare import compared, extent, failed, lines

_LEVELS = {"fail": 1.0, "warn": 0.7}
_SHOWN = 2000
"""Rows of the table; the worst are shown, and the CSV has all."""

_COLUMNS = (
    *("operator", "module", "phase", "step", "dtype", "shape", "max_abs", "max_rel", "ulp", "rmse_ratio"),
    *("of_bound", "cosine", "elements", "count", "reason"),
)
_HEADS = {"max_abs": "max abs", "max_rel": "MARE", "ulp": "ULP", "rmse_ratio": "RMSE/CPU", "of_bound": "of bound"}
_ORDER = ("fail", "warn", "untested", "pass", "skipped")


def render(found: dict[str, Any], lang: str) -> str:
    """Return the page for a document of `torchferry compare`."""
    said = list(lines(found, lang))
    first = next((line for line in said if line.startswith(say("FIRST FAILURE").render(lang))), "")
    nothing = said[-1] if not compared(found) else ""
    title = first or nothing or say("no operator failed").render(lang)
    rows = sorted(_rows(found), key=_badness)
    head = ("rank", "status", *(_HEADS.get(name, name) for name in _COLUMNS))
    cut = len(rows) - _SHOWN
    body = [
        page.paragraphs(itertools.takewhile(bool, said)),  # behind the gap comes the table of the worst
        page.heading(say("modules").render(lang)),
        page.tree(grown(map(_mark, rows), say("no module").render(lang))),
        page.heading(say("operators").render(lang)),
        page.table(
            head,
            [(row["rank"], row["status"], *(row[name] for name in _COLUMNS)) for row in rows[:_SHOWN]],
            [row["status"] for row in rows[:_SHOWN]],
        ),
    ]
    if cut > 0:
        body.append(
            page.paragraphs(
                [
                    say_plural(
                        "{count} more row: write CSV for all", "{count} more rows: write CSV for all", count=cut
                    ).render(lang)
                ]
            )
        )
    return page.framed(title, not (failed(found) or nothing), body, lang)


def _rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rank in found["ranks"]:
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
