"""Judge a replayed call as `torchferry compare` judges one of a program: by the same standards, in the same words."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_in
from torchferry.numerics.attribution import OUTSIDE
from torchferry.numerics.compare import call as compared
from torchferry.numerics.compare import draws, tables
from torchferry.numerics.compare.fetching import fetch
from torchferry.numerics.compare.parts import applies
from torchferry.numerics.compare.snapshot import Untestable, take
from torchferry.numerics.compare.standards import JUDGES, short
from torchferry.numerics.compare.status import Measures, Status, Verdict
from torchferry.numerics.compare.verdict import Judge
from torchferry.numerics.kinds import Kind
from torchferry.numerics.operators import argument, operator, tensors
from torchferry.numerics.replay.building import Builder, Done
from torchferry.numerics.replay.judging import UNTESTED, Judgement, judged
from torchferry.numerics.replay.reading import LARGEST, Call, find

STANDARDS = tuple(JUDGES)

_AS_THEY_ARE = frozenset({Kind.VIEW, Kind.ALLOCATE, Kind.BOOKKEEP})
"""Kinds of operators that a comparison leaves out, and that make values which can be looked at all the same."""


def verdicts(call: Call, device: torch.device, done: Done, standard: str) -> list[Judgement]:
    """Judge what a device made of a call.

    Args:
        call: What was read.
        device: Where it was run.
        done: What came of it.
        standard: One of `STANDARDS`.
    """
    known = operator(find(call.name, call.overload))
    here = device.type == "cpu" and call.document["draws"] and "cpu" in call.document["random"]
    if known.kind in _AS_THEY_ARE or here:
        return judged(call, device, done.made)
    builder = Builder(call, torch.device("cpu"))
    args = tuple(builder.value(node) for node in call.document["args"])
    kwargs = {str(key): builder.value(node) for key, node in call.document["kwargs"].items()}
    written = sum(1 for place in known.written for _ in tensors(argument(place, args, kwargs, None)))
    lists = tables.is_elementwise_list(known) and applies(known, args)
    try:
        comparable = compared.Call(
            number=0,
            operator=known,
            where=OUTSIDE,
            step=0,
            device=str(device),
            snapshot=take(args, kwargs, 2 * LARGEST),
            results=[_result(one) for one in done.made],
            owners=list(range(len(args[0]))) if lists else None,
            written=written,
            shape=tuple(done.made[0].shape) if done.made else (),
            dtype=str(done.made[0].dtype).removeprefix("torch.") if done.made else "",
        )
        if known.draws(args, kwargs):
            found = [draws.judge(comparable)]
        else:
            found = Judge(standard).verdicts(comparable)
    except Untestable as error:
        return [Judgement(UNTESTED, say("all results"), error.reason)]
    one_each = len(found) == len(done.made)
    return [_told(verdict, index if one_each else -1) for index, verdict in enumerate(found)]


def _result(tensor: Tensor) -> compared.Result:
    return compared.Result(fetch(tensor), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _told(verdict: Verdict, index: int) -> Judgement:
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


def _figures(measures: Measures) -> Message:
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
