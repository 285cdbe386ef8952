"""What a trace comes to, and the steps it took."""

from __future__ import annotations

import ast
from enum import Enum

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.source.python import PythonFile

_LONGEST = 150
"""Steps of one trace before it gives up."""


class TraceResult(Enum):
    """What a trace found a string to be."""

    YES = "yes"
    """It is used as a value of the kind asked for: a device, a collective backend."""

    NO = "no"
    """It is something else, which the reason names."""

    UNKNOWN = "unknown"
    """Its use could not be followed to the end."""


class Trace(NamedTuple):
    """A result and the reason for it, for the user.

    `certain` marks a NO that settles the matter whatever else is done with the value: it is one of a set of
    words that are no devices.
    """

    result: TraceResult
    reason: Message
    certain: bool = False


class Path:
    """The steps of one trace, so that it neither runs in a circle nor without end."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, ast.AST]] = set()

    def enter(self, file: PythonFile, node: ast.AST) -> bool:
        """Take a step; False when it was taken before or the trace is too long."""
        step = (file.path, node)
        if step in self._seen or len(self._seen) >= _LONGEST:
            return False
        self._seen.add(step)
        return True


def yes(reason: Message) -> Trace:
    """Build a YES."""
    return Trace(TraceResult.YES, reason)


def no(reason: Message, certain: bool = False) -> Trace:
    """Build a NO."""
    return Trace(TraceResult.NO, reason, certain)


def undecided(reason: Message | None = None) -> Trace:
    """Build an UNKNOWN, with the general reason unless a better one is given."""
    return Trace(TraceResult.UNKNOWN, reason or say("its use could not be followed to the end"))


def best(traces: list[Trace]) -> Trace:
    """Return the most telling of several traces: YES, then a certain NO, then UNKNOWN, then NO."""
    for trace in traces:
        if trace.result is TraceResult.YES:
            return trace
    for trace in traces:
        if trace.certain:
            return trace
    for trace in traces:
        if trace.result is TraceResult.UNKNOWN:
            return trace
    return traces[0] if traces else undecided()
