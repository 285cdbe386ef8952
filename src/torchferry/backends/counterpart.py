"""What is done with a name of CUDA's on a target: one answer for the rules, portable code, and the redirect."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple


class Decision(Enum):
    """What is done with a name.

    WRITE: something replaces it; TRY: nobody has verified what does, so the name below the plugin's namespace
    is tried; STAY: the target has nothing, and a call may stay, since it does nothing without CUDA; OMIT: the target
    has nothing, and a call may be left out, since it changes no result; LACK: the target has nothing.
    """

    WRITE = "write"
    TRY = "try"
    STAY = "stay"
    OMIT = "omit"
    LACK = "lack"


class Counterpart(NamedTuple):
    """A decision, and the name that is written or tried; empty where there is none."""

    decision: Decision
    use: str = ""


def decide(target: Target, row: Row) -> Counterpart:
    """Return what is done with the name of a row of the target's `api` table."""
    if row.status in REWRITTEN:
        return Counterpart(Decision.WRITE, row.use)
    if row.status == "unknown":
        return Counterpart(Decision.TRY, row.use or guess(target, row.name))
    if row.name in cuda.idle():
        return Counterpart(Decision.STAY)
    return Counterpart(Decision.OMIT if cuda.changes_nothing(row.name) else Decision.LACK)


def lacking(row: Row, positional: int, keywords: Iterable[str]) -> Message | None:
    """Say that what is written in place of a name does not take an argument of a call; None where it takes all.

    Args:
        row: The name's row of the target's `api` table.
        positional: How many arguments are given by position.
        keywords: The names of the others.
    """
    names = row.refused(positional, keywords)
    return say("`{use}` has no argument `{name}`: omit it", use=row.use, name=", ".join(names)) if names else None


def guess(target: Target, name: str) -> str:
    """Return the name that one of CUDA's would have below the target's namespace; empty where it has none.

    A portable module has the names that it was written with, and no others.
    """
    namespace = "" if target.module else target.backend.NAMESPACE
    below = name == cuda.NAMESPACE or name.startswith(f"{cuda.NAMESPACE}.")
    return namespace + name.removeprefix(cuda.NAMESPACE) if namespace and below else ""
