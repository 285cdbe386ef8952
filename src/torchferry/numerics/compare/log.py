"""The log, a line for each call and a paragraph for each that fails, on standard output or in a file for each rank."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import torch

from torchferry.core.messages import Message, say
from torchferry.numerics.compare.snapshot import Snapshot, StridedPlace, replaced
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status
from torchferry.numerics.framework.attribution import Where

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
                sys.stdout.write(text)
                return
            try:
                if self._file is None:
                    self._path = path = self._place()
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = path.open("a" if path in _BEGUN else "w", encoding="utf-8", buffering=1)
                    _BEGUN.add(path)
                    self._file.write(f"{datetime.now().astimezone():%Y-%m-%d, %H:%M:%S}\n{self._head}\n")
                self._file.write(text)
            except OSError as error:
                self._quiet = True  # the program goes on, and so do the verdicts
                said = say("cannot write {path}: {error}", path=self._path, error=error.strerror or error)
                print(f"torchferry: {said}", file=sys.stderr, flush=True)


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
