"""Replay: a call of an operator as a small directory, from which it can be run again anywhere.

`write` leaves the inputs, the call, what it ran in and what was found, and a pytest file that needs torch alone;
`read` and `run` take it up again. Nothing in such a directory is trusted, and there is no pickle.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from torchferry.core.errors import TorchferryError, unknown_name
from torchferry.core.messages import say
from torchferry.numerics.callfile.building import called
from torchferry.numerics.callfile.capture import capture
from torchferry.numerics.callfile.judging import FAIL, PASS, UNTESTED, Judgement
from torchferry.numerics.callfile.reading import Call, Refused, read_call
from torchferry.numerics.callfile.writing import LIMIT, save, write
from torchferry.numerics.compare.dump import STANDARDS, judge_written_call
from torchferry.numerics.replay.single import compare_for_single_op, nan_inf_track_for_single_op

__all__ = [
    "FAIL",
    "LIMIT",
    "PASS",
    "STANDARDS",
    "UNTESTED",
    "Call",
    "Judgement",
    "Refused",
    "capture",
    "compare_for_single_op",
    "judge",
    "nan_inf_track_for_single_op",
    "read",
    "run",
    "save",
    "write",
]


def read(folder: Path) -> Call:
    """Read what `write` left.

    Raises:
        TorchferryError: it is not that, or was cut or changed; says where.
    """
    try:
        return read_call(folder)
    except Refused as refused:
        raise _error(refused, folder) from None


def run(call: Call, device: str | torch.device = "cpu") -> list[Tensor]:
    """Run a call on a device and return what it made: arguments that it wrote to, then results of their own.

    Raises:
        TorchferryError: the call cannot be made from what is written.
        Exception: whatever the operator raises.
    """
    try:
        return called(call, torch.device(device)).made
    except Refused as refused:
        raise _error(refused) from None


def judge(call: Call, device: str | torch.device, standard: str = "ours") -> list[Judgement]:
    """Run a call on a device and judge what it made by the CPU, as `torchferry compare` does.

    Args:
        call: What was read.
        device: Where.
        standard: The standard to judge by: one that `torchferry compare` knows.

    Raises:
        UsageError: there is no such standard.
        TorchferryError: the call cannot be made from what is written.
        Exception: whatever the operator raises on the device.
    """
    if standard not in STANDARDS:
        raise unknown_name("standard", standard, STANDARDS)
    place = torch.device(device)
    try:
        return judge_written_call(call, place, called(call, place), standard)
    except Refused as refused:
        raise _error(refused) from None


def _error(refused: Refused, folder: Path | None = None) -> TorchferryError:
    if folder is None:
        return TorchferryError(say("the call is not replayed: {why}", why=refused.message))
    return TorchferryError(say("{path} is not replayed: {why}", path=folder, why=refused.message))
