"""What was found so far, as a table and as a log.

The table has counts, a row for each operator and place, and the first that failed. The log has a line for each call and
a paragraph for each that fails, on standard output or in a file for each rank.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import torch

from torchferry.core.messages import Message, say
from torchferry.core.terminal import print_notice, print_text, visible
from torchferry.numerics.compare.snapshot import Snapshot, StridedPlace, replaced
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


_PARAGRAPHS = 200
"""Failures that are told in full; those that follow get a line each, so that a log does not fill a disk."""

_BEGUN: set[Path] = set()
"""Files that this process has begun: what a second tool, or a second `with`, finds is added to them."""


class CallLog:
    """Writes what was found.

    Args:
        place: Gives the file, when there is something to write; standard output where it is None.
        head: The line that a file begins with, after the date.
        verbose: Whether calls that pass are told, and arguments.
        quiet: Whether nothing is written at all.
    """

    def __init__(self, place: Callable[[], Path] | None, head: Message, verbose: bool, quiet: bool = False) -> None:
        self._place = place
        self._path = Path()
        self._head = head
        self._verbose = verbose
        self._quiet = quiet
        self._file: TextIO | None = None
        self._lock = threading.Lock()
        self._told = 0

    def line(self, message: Message | str) -> None:
        """Write a line. Where the file cannot be written, that is said once on standard error, and the log ends."""
        self._write(f"{message}\n")

    def step(self, number: int) -> None:
        """Write that a step begins."""
        if self._verbose:
            self._write(f"-------------------------  step = {number}  ----------------------\n\n")

    def skipped(self, name: str, why: str) -> None:
        """Write why a call is not compared."""
        self.line(say("{name} is not compared: {why}", name=name, why=why))

    def begins(self, name: str) -> None:
        """Write that a call begins: the last such line of a process that died names the operator that it died in."""
        self.line(say("{name} starts to run ...", name=name))

    def verdict(self, name: str, call: Any, verdict: ResultVerdict, note: Message | None) -> None:
        """Write what a call came to.

        Args:
            name: `GPT.head/torch.ops.aten.addmm(forward)`.
            call: The call, with snapshot and results; None where there are none.
            verdict: The verdict.
            note: What more is to be said.
        """
        lines = []
        tail = f" ({note})" if note is not None else ""
        status = verdict.status
        if status is Status.PASS:
            if not self._verbose and verdict.reason is None:
                return
            lines = [f"{say('{name} succeeds to pass CompareWithCPU test', name=name)}{tail}"]
            if verdict.reason is not None:
                mark = "[WARNING] " if "NaN" in verdict.reason.template else ""
                lines.append(f"    {mark}{verdict.reason}")
            if self._verbose and verdict.measures is not None:
                lines.append(f"    {figures(verdict.measures)}")
        elif status is Status.UNTESTED:
            lines = [
                f"[WARNING] {say('{name} has not been tested: {reason}', name=name, reason=verdict.reason or '')}{tail}"
            ]
        else:
            mark = "[ERROR]" if status is Status.FAIL else "[WARNING]"
            said = (
                say("{name} fails to pass CompareWithCPU test", name=name)
                if status is Status.FAIL
                else say("{name} is doubtful in CompareWithCPU test", name=name)
            )
            lines = [f"{mark} {said}{tail}", f"    {verdict.reason}"]
            self._told += 1
            if self._told <= _PARAGRAPHS:
                lines = [
                    "",
                    "============================",
                    *lines,
                    *self._paragraph(call, verdict),
                    "============================",
                ]
        self._write("\n".join(lines) + "\n")

    def _paragraph(self, call: Any, verdict: ResultVerdict) -> list[str]:
        lines = []
        if verdict.measures is not None:
            lines.append(f"    {figures(verdict.measures)}")
        if call is not None:
            lines.append("....... input .........")
            lines += _inputs(call.snapshot, call.device)
            lines.append("...... output ........")
            lines += [
                _tensor_line(result.shape, result.dtype, result.stride, call.device) for result in call.results[:8]
            ]
        if verdict.elements:
            device = call.device if call is not None else ""
            lines.append("...... compare with cpu .......")
            off = verdict.measures.off if verdict.measures is not None else 0
            if off > len(verdict.elements):
                lines.append(str(say("Too many indices (total {count}) to print", count=off)))
            lines += [
                str(
                    say(
                        "Element at index {index} is not close: {ours} ({device}) vs {its} (cpu), {difference} apart",
                        index=element.index,
                        ours=element.device,
                        device=device,
                        its=element.reference,
                        difference=element.difference,
                    )
                )
                for element in verdict.elements
            ]
        return lines

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, text: str) -> None:
        if self._quiet:
            return
        with self._lock:
            if self._place is None:
                print_text(*text.split("\n"), end="")
                return
            try:
                if self._file is None:
                    self._path = path = self._place()
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = path.open("a" if path in _BEGUN else "w", encoding="utf-8", buffering=1)
                    _BEGUN.add(path)
                    self._file.write(f"{datetime.now().astimezone():%Y-%m-%d, %H:%M:%S}\n{self._head}\n")
                self._file.write("\n".join(map(visible, text.split("\n"))))
            except OSError as error:
                self._quiet = True  # the program goes on, and so do the verdicts
                said = say("cannot write {path}: {error}", path=self._path, error=error.strerror or error)
                print_notice(f"torchferry: {said}")


def log_name(where: Where, operator: str) -> str:
    """Return `GPT.head/torch.ops.aten.addmm(forward)`."""
    place = f"{where.module}/" if where.module else ""
    source = f" of {where.source}" if where.source else ""
    return f"{place}torch.ops.{operator}({where.phase}{source})"


def figures(measures: ErrorMeasures) -> str:
    """Return the distances in a line; the words are those of the standards, in all languages."""
    parts = [
        f"max abs {measures.max_abs:.3g}",
        f"MARE {measures.max_rel:.3g}",
        f"MERE {measures.mean_rel:.3g}",
        f"RMSE {measures.rmse:.3g}",
        f"ULP {measures.ulp:.3g}",
        f"cos {measures.cosine:.9g}",
    ]
    if measures.rmse_ratio is not None:
        parts.append(f"RMSE/CPU {measures.rmse_ratio:.3g}")
    if measures.of_bound is not None:
        parts.append(f"of bound {measures.of_bound:.3g}")
    return ", ".join(parts)


def _inputs(snapshot: Snapshot, device: str) -> list[str]:
    lines: list[str] = []
    for index, value in enumerate(snapshot.args):
        lines.append(f"{index}: {_shown(snapshot, value, device)}")
    lines += [f"{key}: {_shown(snapshot, value, device)}" for key, value in snapshot.kwargs.items()]
    return lines


def _shown(snapshot: Snapshot, value: Any, device: str) -> str:
    def line(place: StridedPlace) -> str:
        return _tensor_line(place.size, snapshot.stores[place.store].fetched.dtype, place.stride, device)

    shown = replaced(value, StridedPlace, line)
    if isinstance(shown, (list, tuple)) and len(shown) > 4:
        return f"[{', '.join(map(str, shown[:4]))}, ... {len(shown)}]"
    return str(shown)


def _tensor_line(shape: tuple[int, ...], dtype: torch.dtype, stride: tuple[int, ...], device: str) -> str:
    count = 1
    for size in shape:
        count *= size
    return f"Tensor <shape={list(shape)}, dtype={dtype}, stride={list(stride)}, device={device}, size={count}>"
