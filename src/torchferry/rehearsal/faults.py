"""Faults to order: `op=aten.addmm,kind=noise,scale=1e-2`, so that whoever looks for errors has one to find."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Protocol

from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import say

KINDS = {
    "noise": "multiply the result by 1 +- scale, at random",
    "nan": "put NaN into the first row of the result",
    "stride": "right values, laid out the other way round in memory",
    "slow": "wait `scale` seconds before each call",
    "die": "end the process at once",
    "hang": "never come back",
    "raise": "raise RuntimeError",
    "oom": "run out of memory at allocation number `after` + 1 (needs no op)",
}
"""Kinds of faults and what they do."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: One of `KINDS`.
        op: Operator (`aten::addmm`, with or without overload) or collective (`c10d::allreduce`); empty for `oom`.
        scale: Relative error of `noise`, or seconds of `slow`.
        after: Calls, or allocations, that go right before the first that does not. Allocations are the tensors of the
            simulated plugin, and the segments that a plugin's own allocator asks the simulated driver for.
        rank: The only rank that has the fault; -1 for all.
    """

    kind: str
    op: str = ""
    scale: float = 0.01
    after: int = 0
    rank: int = -1

    def text(self) -> str:
        """Return the fault as the command line orders it."""
        return ",".join(f"{key}={value}" for key, value in asdict(self).items() if value != "")

    def as_dict(self) -> dict[str, object]:
        """Return the fault for a file."""
        return asdict(self)


def parse(text: str) -> Fault:
    """Return the fault for `key=value` pairs separated by commas.

    Raises:
        UsageError: a key or kind does not exist, a number is none, or `op` is missing.
    """
    values: dict[str, str] = {}
    for pair in text.split(","):
        key, sign, value = pair.strip().partition("=")
        if key not in Fault.__dataclass_fields__:
            raise unknown_name("setting of a fault", key, Fault.__dataclass_fields__)
        if not sign or not value:
            raise UsageError(say("fault `{text}`: `{key}` has no value", text=text, key=key))
        values[key] = value
    kind = values.get("kind", "")
    if not kind:
        raise UsageError(
            say("fault `{text}` has no `kind=`", text=text), say("known: {names}", names=", ".join(sorted(KINDS)))
        )
    if kind not in KINDS:
        raise unknown_name("kind of fault", kind, KINDS)
    if kind != "oom" and "op" not in values:
        raise UsageError(
            say("fault `{text}` has no `op=`", text=text),
            say("add `op=`, such as {example}", example="op=aten.addmm"),
        )
    try:
        return Fault(
            kind,
            _operator(values.get("op", "")),
            float(values.get("scale", "0.01")),
            int(values.get("after", "0")),
            int(values.get("rank", "-1")),
        )
    except ValueError as error:
        raise UsageError(
            say("fault `{text}`: {error}", text=text, error=error),
            say("give `scale` as a number, and `after` and `rank` as integers"),
        ) from None


class Spoilable(Protocol):
    """A device that can be made to go wrong."""

    def set_fault(self, operator: str, kind: str, scale: float, after: int) -> None:
        """Spoil an operator after `after` right calls."""

    def fail_allocation(self, number: int) -> None:
        """Let the allocation with this number, counted from 1, run out of memory."""


def install(faults: list[Fault], native: Spoilable) -> None:
    """Set the faults of this process' rank."""
    rank = int(os.environ.get("RANK", "0") or 0)
    for fault in faults:
        if fault.rank not in {-1, rank}:
            continue
        if fault.kind == "oom":
            native.fail_allocation(fault.after + 1)
        else:
            native.set_fault(fault.op, fault.kind, fault.scale, fault.after)


def _operator(text: str) -> str:
    """Return `aten::addmm` for `aten.addmm`, `aten::addmm` or `addmm`."""
    if "::" in text or not text:
        return text
    space, dot, name = text.partition(".")
    return f"{space}::{name}" if dot and space in {"aten", "c10d", "torchvision"} else f"aten::{text}"
