"""One operator of a directory again, by the names that the vendors' compare tools have for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say, say_in
from torchferry.numerics.callfile.building import Builder, called
from torchferry.numerics.callfile.environment import place
from torchferry.numerics.callfile.judging import FAIL, PASS, Judgement
from torchferry.numerics.callfile.reading import Call, Refused, read_call
from torchferry.numerics.compare.dump import judge_written_call
from torchferry.numerics.framework.operators import tensors
from torchferry.numerics.framework.statistics import FINITE, KINDS, kind_of, statistics

Answer = tuple[bool, list[Any], dict[str, Any], Any]
"""Whether it was right, the arguments, the keyword arguments, what the operator returned."""


def compare_for_single_op(
    path: str | Path,
    op: Any = None,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str = "",
) -> Answer:
    """Run the operator of a directory on a device and compare it with the CPU.

    Args:
        path: The directory that was written.
        op: Another operator to run on the same arguments, `torch.ops.aten.addmm`; without it, the written one.
        atol: Absolute tolerance; without `atol` and `rtol` the result is judged by what its dtype can hold.
        rtol: Relative tolerance.
        device: Where; without it, the device that the call was written on.

    Raises:
        TorchferryError: the directory cannot be replayed, or its device is not here.
    """
    call, where = _opened(path, op, device)
    try:
        done = called(call, where)
        if atol is None and rtol is None:
            judgements = judge_written_call(call, where, done, "ours")
            return (
                bool(judgements) and all(judgement.status == PASS for judgement in judgements),
                done.args,
                done.kwargs,
                done.out,
            )
        reference = _reference(call)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    right = len(done.made) == len(reference) and all(
        _close(result, other, atol or 0.0, rtol or 0.0) for result, other in zip(done.made, reference, strict=True)
    )
    return right, done.args, done.kwargs, done.out


def nan_inf_track_for_single_op(path: str | Path, op: Any = None, *, device: str = "") -> Answer:
    """Run the operator of a directory on a device; it is right where it makes no NaN or Inf of its own.

    What was NaN or Inf in the arguments already may be so in the results.

    Raises:
        TorchferryError: the directory cannot be replayed, or its device is not here.
    """
    call, where = _opened(path, op, device)
    try:
        done = called(call, where)
        before = max(map(kind_of, inputs(call, where)), default=FINITE)
        after = max(map(kind_of, done.made), default=FINITE)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    return after <= before, done.args, done.kwargs, done.out


def finiteness(call: Call, device: torch.device) -> list[Judgement]:
    """Judge each result by whether it has NaN or Inf that no argument had.

    Raises:
        Refused: the call cannot be made from what is written.
        Exception: whatever the operator raises.
    """
    before = max(map(kind_of, inputs(call, device)), default=FINITE)
    judgements = []
    for index, result in enumerate(called(call, device).made):
        held = statistics(result)
        what = say("result {n}, {dtype}{shape}", n=index, dtype=held.dtype, shape=list(held.shape))
        if kind_of(result) > before:
            why = say(
                "{nan} NaN and {inf} Inf that its arguments do not have; the arguments are {kind}",
                nan=held.nan,
                inf=held.inf,
                kind=KINDS[before],
            )
            judgements.append(Judgement(FAIL, what, why))
        elif before != FINITE:
            judgements.append(
                Judgement(PASS, what, say("not worse than its arguments, which have {kind}", kind=KINDS[before]))
            )
        else:
            judgements.append(Judgement(PASS, what, say_in("judgement", "finite")))
    return judgements


def inputs(call: Call, device: torch.device) -> list[Tensor]:
    """Return the tensors of a call as they are before it runs."""
    builder = Builder(call, device)
    document = call.document
    return [
        tensor for node in (*document["args"], *document["kwargs"].values()) for tensor in tensors(builder.value(node))
    ]


def _reference(call: Call) -> list[Tensor]:
    """Return what the CPU makes of a call in higher precision, or in the same one where it cannot."""
    cpu = torch.device("cpu")
    try:
        return called(call, cpu, wider=True).made
    except (RuntimeError, TypeError, Refused):
        return called(call, cpu).made


def _opened(path: str | Path, op: Any, device: str) -> tuple[Call, torch.device]:
    folder = Path(path)
    try:
        call = read_call(folder if folder.is_dir() else folder.parent)
    except Refused as refused:
        raise TorchferryError(say("{path} is not replayed: {why}", path=path, why=refused.message)) from None
    if op is not None:
        _exchange(call, op)
    return call, place(call, device)


def _exchange(call: Call, op: Any) -> None:
    """Take another operator: of a packet, the overload that is written, or the default one."""
    if isinstance(op, torch._ops.OpOverloadPacket):
        names = op.overloads()
        op = getattr(op, call.overload if call.overload in names else names[0])
    if not isinstance(op, torch._ops.OpOverload):
        raise UsageError(
            say("{op} is not an operator", op=op), say("give one of torch.ops, such as torch.ops.aten.addmm")
        )
    call.document["operator"], call.document["overload"] = op._schema.name, op._schema.overload_name


def _close(result: Tensor, reference: Tensor, atol: float, rtol: float) -> bool:
    """Compare with a reference of higher precision; NaN is equal to NaN, integers and bools must be equal."""
    if result.shape != reference.shape:
        return False
    got = result.cpu()
    if not (got.is_floating_point() or got.is_complex()):
        return torch.equal(got, reference)
    return torch.allclose(got.to(reference.dtype), reference, rtol=rtol, atol=atol, equal_nan=True)
