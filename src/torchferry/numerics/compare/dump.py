"""Writes a call that failed into a directory, for `torchferry replay`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_in
from torchferry.numerics.callfile.building import Builder, Done, called
from torchferry.numerics.callfile.capture import capture
from torchferry.numerics.callfile.judging import UNTESTED, Judgement, judged
from torchferry.numerics.callfile.reading import LARGEST, Call, find
from torchferry.numerics.callfile.writing import write
from torchferry.numerics.compare import random_ops, tables
from torchferry.numerics.compare.blocks import applies
from torchferry.numerics.compare.call import ComparedCall, DeviceResult
from torchferry.numerics.compare.judge import Judge
from torchferry.numerics.compare.snapshot import Untestable, fetch, take
from torchferry.numerics.compare.standards import JUDGES, short
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status
from torchferry.numerics.framework.attribution import OUTSIDE
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import argument, operator, tensors

# Judge a replayed call as `torchferry compare` judges one of a program: by the same standards, in the same words.


STANDARDS = tuple(JUDGES)

_AS_THEY_ARE = frozenset({OpKind.VIEW, OpKind.ALLOCATE, OpKind.BOOKKEEP})
"""Kinds of operators that a comparison leaves out, and that make values which can be looked at all the same."""


def judge_written_call(call: Call, device: torch.device, done: Done, standard: str) -> list[Judgement]:
    """Judge what a device made of a call.

    Args:
        call: What was read.
        device: Where it was run.
        done: What came of it.
        standard: One of `STANDARDS`.
    """
    op = operator(find(call.name, call.overload))
    here = device.type == "cpu" and call.document["draws"] and "cpu" in call.document["random"]
    if op.kind in _AS_THEY_ARE or here:
        return judged(call, device, done.made)
    builder = Builder(call, torch.device("cpu"))
    args = tuple(builder.value(node) for node in call.document["args"])
    kwargs = {str(key): builder.value(node) for key, node in call.document["kwargs"].items()}
    written = sum(1 for place in op.written for _ in tensors(argument(place, args, kwargs, None)))
    lists = tables.is_elementwise_list(op) and applies(op, args)
    try:
        comparable = ComparedCall(
            number=0,
            operator=op,
            where=OUTSIDE,
            step=0,
            device=str(device),
            snapshot=take(args, kwargs, 2 * LARGEST),
            results=[_result(result) for result in done.made],
            owners=list(range(len(args[0]))) if lists else None,
            written=written,
            shape=tuple(done.made[0].shape) if done.made else (),
            dtype=str(done.made[0].dtype).removeprefix("torch.") if done.made else "",
        )
        if op.draws(args, kwargs):
            judged_results = [random_ops.judge(comparable)]
        else:
            judged_results = Judge(standard).verdicts(comparable)
    except Untestable as error:
        return [Judgement(UNTESTED, say("all results"), error.reason)]
    one_each = len(judged_results) == len(done.made)
    return [_told(verdict, index if one_each else -1) for index, verdict in enumerate(judged_results)]


def _result(tensor: Tensor) -> DeviceResult:
    return DeviceResult(fetch(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _told(verdict: ResultVerdict, index: int) -> Judgement:
    what = say("all results")
    if index >= 0:
        what = say("result {n}, {dtype}{shape}", n=index, dtype=verdict.dtype, shape=list(verdict.shape))
    figures = None if verdict.measures is None else _figures(verdict.measures)
    why = verdict.reason
    if why is None:
        why = figures or say_in("judgement", "equal")
    elif figures is not None and verdict.status is not Status.UNTESTED:
        why = say("{reason}; {figures}", reason=why, figures=figures)
    ratio = verdict.measures.rmse_ratio if verdict.measures is not None else None
    return Judgement(verdict.status.value, what, why, math.nan if ratio is None else ratio)


def _figures(measures: ErrorMeasures) -> Message:
    """Return the figures that each of the standards asks for, so that all who read them find theirs."""
    return say(
        "largest error {error}, {ulp} ULP; RMSE {rmse}, MERE {mere}, MARE {mare}, cosine {cosine}",
        error=short(measures.max_abs),
        ulp=short(measures.ulp),
        rmse=short(measures.rmse),
        mere=short(measures.mean_rel),
        mare=short(measures.max_rel),
        cosine=f"{measures.cosine:.6f}",
    )


def dump_call(folder: Path, call: ComparedCall, verdict: ResultVerdict, standard: str) -> Path:
    """Write a call, cut down to what still fails by the standard, and return its directory.

    Raises:
        TorchferryError: it cannot be replayed.
        OSError: the folder cannot be written.
        RuntimeError, MemoryError: the device or the host is in no state for it.
    """
    overload, device = call.operator.overload, torch.device(call.device)

    def fails(args: list[Any], kwargs: dict[str, Any]) -> bool:
        smaller = capture(overload, args, kwargs, device=call.device)
        return any(
            judgement.status == Status.FAIL.value
            for judgement in judge_written_call(smaller, device, called(smaller, device), standard)
        )

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
