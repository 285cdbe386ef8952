"""The table of a comparison, and the one verdict that is derived from it."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass

from torchferry.numerics.rundiff.alignment import Alignment
from torchferry.numerics.rundiff.causes import CERTAIN, Cause
from torchferry.numerics.rundiff.coverage import Coverage
from torchferry.numerics.rundiff.judging import JudgedRow
from torchferry.numerics.runlog.record import RecordedRows


class RunVerdict(enum.Enum):
    """What a comparison of two runs comes to."""

    SAME = "same"
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class TableRow:
    """The result of a module, in one phase, that is the furthest beyond its limit, or the nearest to it.

    Attributes:
        module: Path of the module or parameter.
        phase: Phase of the step.
        operator: `aten.addmm`; empty for what is no operator's result.
        step: The step.
        error: What it is off, relative.
        limit: What it may be off.
    """

    module: str
    phase: str
    operator: str
    step: int
    error: float
    limit: float

    @property
    def beyond(self) -> bool:
        """Whether it is off by more than it may be."""
        return not self.error <= self.limit

    @property
    def share(self) -> float:
        """The error as a part of the limit: rows of the table are in this order."""
        if self.error <= 0.0:
            return 0.0
        return self.error / self.limit if self.limit > 0.0 else math.inf


class ModuleTable:
    """The rows of a comparison: one for each module and phase.

    Every row of two records that could be compared is in it, by itself or by one that is worse.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], TableRow] = {}

    def add(self, step: int, rows: RecordedRows, aligned: Alignment, judged: Iterable[JudgedRow]) -> None:
        """Take in the rows of a step."""
        for one in judged:
            key = rows.keys[aligned.pairs[one.pair][0]]
            row = TableRow(key.module, key.phase, key.operator, step, one.error, one.limit)
            worst = self._rows.get((key.module, key.phase))
            if worst is None or (row.share, row.error) > (worst.share, worst.error):
                self._rows[key.module, key.phase] = row

    def rows(self) -> list[TableRow]:
        """Return the rows, those first that are the furthest beyond their limits."""
        return sorted(self._rows.values(), key=lambda row: (-row.share, -row.error))

    def row(self, module: str, phase: str) -> TableRow | None:
        """Return the row of a module in a phase."""
        return self._rows.get((module, phase))


def verdict(table: ModuleTable, causes: Iterable[Cause], coverage: Coverage) -> RunVerdict:
    """Return the verdict: nothing else decides whether two runs are the same.

    They differ where a row is beyond its limit, or where they were given what changes numbers. Otherwise they are the
    same where nothing of the reference was left out.
    """
    if any(row.beyond for row in table.rows()) or any(cause.grade == CERTAIN for cause in causes):
        return RunVerdict.DIFFERENT
    return RunVerdict.SAME if coverage.complete else RunVerdict.INCOMPLETE
