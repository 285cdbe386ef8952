"""What was found so far: counts, a row for each operator and place, and the first that failed."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

from torchferry.core.messages import Message
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status
from torchferry.numerics.framework.attribution import Where

MOST_ROWS = 20_000
"""Rows that are kept; those of later calls are counted alone."""


@dataclass
class ResultRow:
    """Calls of one operator in one place that came to the same status.

    Attributes:
        operator: `aten.addmm`.
        where: Where it was called.
        status: What it came to.
        shape: Of the result.
        dtype: Of the result.
        step: The first step in which it came to that.
        number: Number of the first call among all that were compared.
        count: How many calls.
        measures: Those of the worst call.
        reason: Of the worst call.
        drift: Relative distance to the golden run, where there is one.
        extent: Elements that were compared in all the calls, and how many their results have.
        in_part: Calls of which not all elements were compared.
        uncompared: Results of a call that were not compared.
    """

    operator: str
    where: Where
    status: Status
    shape: tuple[int, ...]
    dtype: str
    step: int
    number: int
    count: int = 0
    measures: ErrorMeasures | None = None
    reason: Message | None = None
    drift: float | None = None
    extent: tuple[int, int] = (0, 0)
    in_part: int = 0
    uncompared: int = 0

    def document(self, lang: str | None = None) -> dict[str, Any]:
        """Return the row in values that JSON has; what was not measured is None."""
        measures = self.measures
        return {
            "operator": self.operator,
            "module": self.where.module,
            "phase": self.where.phase,
            "source": self.where.source,
            "step": self.step,
            "status": self.status.value,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "max_abs": _number(measures and measures.max_abs),
            "max_rel": _number(measures and measures.max_rel),
            "mean_rel": _number(measures and measures.mean_rel),
            "rmse": _number(measures and measures.rmse),
            "ulp": _number(measures and measures.ulp),
            "rmse_ratio": _number(measures and measures.rmse_ratio),
            "of_bound": _number(measures and measures.of_bound),
            "cosine": _number(measures and measures.cosine),
            "elements": self.extent[0],
            "all_elements": self.extent[1],
            "in_part": self.in_part,
            "results_left": self.uncompared,
            "off": measures.off if measures else None,
            "drift": _number(self.drift),
            "count": self.count,
            "reason": self.reason.render(lang) if self.reason else "",
        }


class ResultTable:
    """Collects verdicts. Calls that were skipped or left out are counted by their class."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Status, 0)
        self.skipped: dict[str, int] = {}
        self.left_out = 0
        self.unlisted = 0
        self.in_part = 0
        self.elsewhere = 0
        """Forward passes in threads that the program started, where nothing is compared."""
        self.rows: dict[tuple[Any, ...], ResultRow] = {}
        self.first_failure: ResultRow | None = None
        self._lock = threading.Lock()

    def add(
        self,
        operator: str,
        where: Where,
        step: int,
        number: int,
        verdict: ResultVerdict,
        drift: float | None = None,
        extent: tuple[int, int] = (0, 0),
        uncompared: int = 0,
    ) -> None:
        """Note the verdict on a call, how many of its elements were compared, and how many results were not."""
        with self._lock:
            self.counts[verdict.status] += 1
            template = verdict.reason.template if verdict.reason and verdict.status is not Status.PASS else ""
            key = (
                operator,
                where.phase,
                where.module,
                where.source,
                verdict.status,
                verdict.shape,
                verdict.dtype,
                template,
            )
            row = self.rows.get(key)
            if row is None:
                row = ResultRow(operator, where, verdict.status, verdict.shape, verdict.dtype, step, number)
                if len(self.rows) < MOST_ROWS:
                    self.rows[key] = row
                else:
                    self.unlisted += 1
            row.count += 1
            row.extent = row.extent[0] + extent[0], row.extent[1] + extent[1]
            row.uncompared = max(row.uncompared, uncompared)
            if 0 < extent[0] < extent[1]:
                row.in_part += 1
                self.in_part += 1
            if _worse(verdict.measures, row.measures):
                row.measures, row.reason = verdict.measures, verdict.reason
            elif row.reason is None:
                row.reason = verdict.reason
            if drift is not None and (row.drift is None or drift > row.drift):
                row.drift = drift
            first = self.first_failure
            if verdict.status is Status.FAIL and (first is None or number < first.number):
                self.first_failure = row

    def skip(self, kind: str, count: int) -> None:
        """Count calls that are not compared because of what they are."""
        with self._lock:
            self.skipped[kind] = self.skipped.get(kind, 0) + count

    def document(self, lang: str | None = None) -> dict[str, Any]:
        """Return counts and rows in values that JSON has, rows in the order in which they were met."""
        with self._lock:
            rows = sorted(self.rows.values(), key=lambda row: row.number)
            if self.first_failure is not None and self.first_failure not in rows:
                rows.append(self.first_failure)
            counts = {status.value: count for status, count in self.counts.items()}
            counts[Status.SKIPPED.value] = sum(self.skipped.values())
            return {
                "counts": counts,
                "skipped": dict(sorted(self.skipped.items())),
                "not_sampled": self.left_out,
                "unlisted": self.unlisted,
                "in_part": self.in_part,
                "in_other_threads": self.elsewhere,
                "operators": [row.document(lang) for row in rows],
                "first_failure": None if self.first_failure is None else rows.index(self.first_failure),
            }


def _worse(measures: ErrorMeasures | None, other: ErrorMeasures | None) -> bool:
    if measures is None or other is None:
        return measures is not None
    return _size(measures) > _size(other)


def _size(measures: ErrorMeasures) -> float:
    size = measures.of_bound if measures.of_bound is not None else measures.max_rel
    return math.inf if math.isnan(size) else size


def _number(value: Any) -> float | None:
    """Return a number that JSON has: what is not finite becomes the greatest one."""
    if value is None:
        return None
    if math.isnan(value) or math.isinf(value):
        return 1.7976931348623157e308
    return float(value)
