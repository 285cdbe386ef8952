"""Writes a call that failed into a directory, for `torchferry replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torchferry.numerics.compare.call import Call
from torchferry.numerics.compare.status import Status, Verdict


def keep(folder: Path, call: Call, verdict: Verdict, standard: str) -> Path:
    """Write a call, cut down to what still fails by the standard, and return its directory.

    Raises:
        TorchferryError: it cannot be replayed.
        OSError: the folder cannot be written.
        RuntimeError, MemoryError: the device or the host is in no state for it.
    """
    from torchferry.numerics.replay import capture, judge, write

    overload = call.operator.overload

    def fails(args: list[Any], kwargs: dict[str, Any]) -> bool:
        smaller = capture(overload, args, kwargs, device=call.device)
        return any(one.status == Status.FAIL.value for one in judge(smaller, call.device, standard))

    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    return write(
        folder,
        overload,
        args,
        kwargs,
        call.where,
        {"status": verdict.status.value, "reason": str(verdict.reason or ""), "step": call.step},
        step=call.step,
        device=call.device,
        fails=None if standard == "given" else fails,
    )
