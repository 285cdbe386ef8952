"""Where a C, C++ or CMake file uses CUDA, and which parts of it; what the rules about such files share."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

from torchferry.backends import cuda
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context, Options, Rule
from torchferry.source.kinds import Kind
from torchferry.source.native import OptionalParts, code_of

_MOST_LINES = 8
"""Lines that a message names."""


class NativeUses(NamedTuple):
    """The uses of CUDA in one file.

    Attributes:
        first: Span of the first one that is always compiled, else of the first.
        total: How many there are.
        parts: The parts of CUDA with how many uses each has: `CUDA runtime 12, cuBLAS 3`.
        lines: The lines where they are, the first few: `4, 8, 15`.
        optional: Whether all are compiled only where a switch asks for CUDA.
    """

    first: tuple[int, int]
    total: int
    parts: str
    lines: str
    optional: bool


class NativeRule(Rule):
    """Finds files that use the parts of CUDA which have one role: at most one finding a file, at the first use.

    What is compiled only where a switch asks for it is work all the same: with the switch off it stays on the CPU.
    """

    ROLE: ClassVar[str]
    """The role of the parts, in `cuda/native.toml`."""

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """What every use holds."""
        return _words(self.ROLE)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding."""
        used = _uses(context, self.ROLE)
        if used is not None:
            message = self.under_switch(used, context.target) if used.optional else self.needed(used, context.target)
            yield self.finding(context, used.first, message, Grade.MANUAL)

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say what a file uses only where a switch asks for CUDA."""
        raise NotImplementedError

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what a file uses, and what to do."""
        raise NotImplementedError


def port_advice(target: Target) -> Message:
    """Say what `torchferry port` does about CUDA C++ for a target."""
    table = kernel_table(target.backend)
    if table is None:
        return say("how kernels are written for {target} is UNKNOWN", target=target.title)
    if table.takes_cuda_syntax:
        return say("`torchferry port` ports it")
    return say("its kernels have to be written in {language} (`torchferry port`)", language=table.language)


def _words(role: str) -> tuple[str, ...]:
    """Return the texts without which a file uses nothing of the parts of CUDA that have a role."""
    return tuple(dict.fromkeys(word for part in cuda.native() if part.role == role for word in part.words))


def _uses(context: Context, role: str) -> NativeUses | None:
    """Return what a file uses of the parts of CUDA that have a role, comments left out; None when nothing."""
    code = code_of(context.kind, context.text)
    parts, pattern = _pattern()
    uses = []
    for start, end in _candidates(context, code, role):
        for match in pattern.finditer(code, start, end):
            part = parts[int((match.lastgroup or "_0")[1:])]
            if part.role == role:
                uses.append((match.span(), part.name))
    if not uses:
        return None
    optional = OptionalParts(context.kind, code)
    always = [span for span, _ in uses if not optional.holds(span[0])]
    counts = Counter(part for _, part in uses)
    lines = sorted({context.source.position(start)[0] for start, _ in (always or [span for span, _ in uses])})
    return NativeUses(
        always[0] if always else uses[0][0],
        len(uses),
        ", ".join(f"{part} {count}" for part, count in counts.most_common()),
        ", ".join(map(str, lines[:_MOST_LINES])) + (", ..." if len(lines) > _MOST_LINES else ""),
        not always,
    )


def _candidates(context: Context, code: str, role: str) -> list[tuple[int, int]]:
    """Return the lines that hold one of the words; the whole file where a use may begin lines above its word."""
    if context.kind is Kind.CMAKE:
        return [(0, len(code))]
    starts = context.source.starts
    lines = set()
    for word in _words(role):
        at = code.find(word)
        while at >= 0:
            line = bisect_right(starts, at)
            lines.add(line)
            at = code.find(word, starts[line]) if line < len(starts) else -1
    return [(starts[line - 1], starts[line] if line < len(starts) else len(code)) for line in sorted(lines)]


@lru_cache(maxsize=1)
def _pattern() -> tuple[tuple[cuda.NativePart, ...], re.Pattern[str]]:
    parts = cuda.native()
    groups = (f"(?P<_{index}>{'|'.join(part.patterns)})" for index, part in enumerate(parts))
    return parts, re.compile("|".join(groups))
