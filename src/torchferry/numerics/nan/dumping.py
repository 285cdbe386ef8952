"""Writes the call that made the first NaN or infinity into a directory, for `torchferry replay`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say, say_plural
from torchferry.numerics.modes import is_higher_order
from torchferry.numerics.nan.diagnosis import Diagnosis
from torchferry.numerics.nan.inspector import Call


def dumped(folder: Path, diagnosis: Diagnosis, step: int) -> Path:
    """Write the first call of a diagnosis, cut down to what is still not finite, and return its directory.

    Raises:
        TorchferryError: there is none that can run by itself.
        OSError: the folder cannot be written.
    """
    from torchferry.numerics.replay import LIMIT, write

    if not diagnosis.made:
        raise TorchferryError(say("none was found that can run by itself"))
    origin, call = diagnosis.origins[0], diagnosis.made[0]
    if is_higher_order(call.overload):
        raise TorchferryError(
            say_plural(
                "{count} call others, which were not seen",
                "{count} calls others, which were not seen",
                count=origin.operator,
            )
        )
    return write(
        folder,
        call.overload,
        call.args,
        call.kwargs,
        origin.where,
        {"kind": origin.kind, "tool": "nan"},
        step=step,
        fails=_makes_worse(call),
        limit=LIMIT,
    )


def _makes_worse(call: Call) -> Callable[[list[Any], dict[str, Any]], bool]:
    """Return what runs a call on other arguments and says whether it still makes NaN or infinities of its own."""
    from torchferry.numerics.replay import capture
    from torchferry.numerics.replay.judging import FAIL
    from torchferry.numerics.replay.single import finiteness

    def fails(args: list[Any], kwargs: dict[str, Any]) -> bool:
        copied = capture(call.overload, args, kwargs)
        return any(one.status == FAIL for one in finiteness(copied, torch.device(copied.device)))

    return fails
