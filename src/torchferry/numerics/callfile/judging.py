"""Judge what a device made of a call by what its dtype can hold, and by what the CPU makes of it in the same dtype.

Like `reading.py`, it is in the pytest file of each directory too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.numerics.callfile.building import called
from torchferry.numerics.callfile.reading import Call, Refused

PASS, FAIL, UNTESTED = "pass", "fail", "untested"

RATIO = 2.0
"""How many times the CPU's error the device's may be, root mean square; 3 below 1000 elements, 10 up to 10, as in
PyTorch's own comparisons of compiled code."""

WORST = 10.0
"""The same of the largest error."""


@dataclass
class ReplayVerdict:
    """What is to be said of one result.

    Attributes:
        status: `pass`, `fail` or `untested`.
        what: Which result, with dtype and shape.
        why: What was found.
        ratio: The device's root mean square error by what rounding explains; NaN where it was not measured.
    """

    status: str
    what: Message
    why: Message
    ratio: float = math.nan


def judged(call: Call, device: torch.device, results: list[Tensor] | None = None) -> list[ReplayVerdict]:
    """Run a call on a device and on the CPU, and judge each result; `results` is what the device made already.

    Raises:
        Refused: the call cannot be made from what is written.
        Exception: whatever the operator raises on the device.
    """
    if results is None:
        results = called(call, device).made
    cpu = torch.device("cpu")
    try:
        low = called(call, cpu).made
    except (RuntimeError, TypeError) as error:  # NotImplementedError is one
        return [
            ReplayVerdict(UNTESTED, say("all results"), say("the CPU cannot run this operator: {error}", error=error))
        ]
    try:
        truth, moved = called(call, cpu, wider=True).made, called(call, cpu, wider=True, nudge=1).made
    except (RuntimeError, TypeError, Refused):
        truth, moved = low, low
    if call.document["kind"] == "allocate":
        truth = moved = []
    judgements = []
    if not results and not low:
        return [ReplayVerdict(UNTESTED, say("all results"), say("the operator returns no tensor"))]
    if len(results) != len(low):
        judgements.append(
            ReplayVerdict(
                FAIL,
                # translators: what was judged, in contrast to one result of an operator
                say("all results"),
                say_plural(
                    "{count} result, but {its} on the CPU",
                    "{count} results, but {its} on the CPU",
                    count=len(results),
                    its=len(low),
                ),
            )
        )
    for index in range(min(len(results), len(low))):
        result, same = results[index], low[index]
        what = say("result {n}, {dtype}{shape}", n=index, dtype=str(result.dtype)[6:], shape=list(result.shape))
        if result.shape != same.shape or result.dtype != same.dtype:
            why = say("but {dtype}{shape} on the CPU", dtype=str(same.dtype)[6:], shape=list(same.shape))
            judgements.append(ReplayVerdict(FAIL, what, why))
        elif call.document["kind"] == "allocate":
            judgements.append(ReplayVerdict(PASS, what, say("uninitialised memory: its values are not compared")))
        elif call.document["draws"] and not _same_stream(call, device):
            judgements.append(_of_chance(what, _plain(result), _plain(same)))
        else:
            judgements.append(_of_values(what, result, same, truth[index], moved[index]))
            if judgements[-1].status == FAIL and not _steady(call, low, index):
                judgements[-1] = ReplayVerdict(UNTESTED, what, say("the CPU's own results differ from run to run"))
    return judgements


def _steady(call: Call, low: list[Tensor], index: int) -> bool:
    """Whether the CPU makes the same of a call again; a workspace may hold whatever lay in memory."""
    again = called(call, torch.device("cpu")).made
    first, other = _plain(low[index]), _plain(again[index])
    return first.shape == other.shape and bool(((first == other) | (torch.isnan(first) & torch.isnan(other))).all())


def _same_stream(call: Call, device: torch.device) -> bool:
    """Whether the random numbers are the recorded ones on both: then values can be compared."""
    return device.type == "cpu" and "cpu" in call.document["random"]


def _plain(value: Tensor) -> Tensor:
    """Return values on the CPU as float64, complex ones by their parts; integers and bools as they are."""
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if value.is_complex():
        return torch.view_as_real(value.to(torch.complex128))
    return value.to(torch.float64) if value.is_floating_point() else value


def _of_values(what: Message, result: Tensor, low: Tensor, truth: Tensor, moved: Tensor) -> ReplayVerdict:
    got, same = _plain(result), _plain(low)
    if not got.is_floating_point():
        wrong = int((got != same).sum())
        if wrong:
            return ReplayVerdict(
                FAIL,
                what,
                say_plural(
                    "{n} of {count} element differs", "{n} of {count} elements differ", n=wrong, count=got.numel()
                ),
            )
        return ReplayVerdict(PASS, what, say_in("judgement", "equal"))
    right = _plain(truth).to(torch.float64)
    rounded = _plain(truth.to(result.dtype))  # what lies beyond the dtype is infinite there as well
    for name, of in (("NaN", torch.isnan), ("+Inf", torch.isposinf), ("-Inf", torch.isneginf)):
        wrong = int((of(got) != of(rounded)).logical_and(of(got) != of(same)).sum())
        if wrong:
            return ReplayVerdict(
                FAIL,
                what,
                say("{name} at different positions than on the CPU: {n} of {all}", name=name, n=wrong, all=got.numel()),
            )
    finite = torch.isfinite(got) & torch.isfinite(right) & torch.isfinite(same)
    got, same, right = got[finite], same[finite], right[finite]
    if not got.numel():
        return ReplayVerdict(PASS, what, say_in("judgement", "equal"))
    unit = torch.finfo(result.dtype).eps
    error = (got - right).abs()
    screen = (4 if unit < 1e-4 else 1) * unit * right.abs() + torch.finfo(result.dtype).tiny
    if bool((error <= screen).all()):
        return ReplayVerdict(PASS, what, say("within the last digits of {dtype}", dtype=str(result.dtype)[6:]), 0.0)
    explained = (same - right).abs()
    envelope = (_plain(moved).to(torch.float64)[finite] - right).abs().nan_to_num(0.0, 0.0, 0.0)
    floor = unit / 8 * _rms(right)
    ratio = _rms(error) / max(_rms(explained), _rms(envelope), floor, 1e-300)
    worst = float(error.max()) / max(float(explained.max()), float(envelope.max()), floor, 1e-300)
    limit = RATIO if got.numel() >= 1000 else 3.0 if got.numel() > 10 else 10.0
    why = say(
        "RMS error {ratio} times that of rounding (limit {limit}), largest error {worst} times (limit {most})",
        ratio=f"{ratio:.3g}",
        limit=f"{limit:g}",
        worst=f"{worst:.3g}",
        most=f"{WORST:g}",
    )
    return ReplayVerdict(PASS if ratio <= limit and worst <= WORST else FAIL, what, why, ratio)


def _rms(value: Tensor) -> float:
    return float(value.square().mean().sqrt())


def _of_chance(what: Message, result: Tensor, same: Tensor) -> ReplayVerdict:
    """Compare mean and spread with the CPU's: the numbers themselves are other ones on another device."""
    got, other = result.to(torch.float64).flatten(), same.to(torch.float64).flatten()
    if bool(torch.isfinite(got).all()) != bool(torch.isfinite(other).all()):
        return ReplayVerdict(FAIL, what, say("NaN or Inf on one side only"))
    count = got.numel()
    if count < 100:
        return ReplayVerdict(UNTESTED, what, say("random numbers, too few to compare"))
    error = math.sqrt((float(got.var()) + float(other.var())) / count)
    apart = abs(float(got.mean()) - float(other.mean()))
    spread = float(got.std()), float(other.std())
    if apart > 6 * error or not 0.5 * spread[1] <= spread[0] <= 2 * spread[1]:
        why = say(
            "random numbers with mean {mean} and deviation {std}, but {mean_cpu} and {std_cpu} on the CPU",
            mean=f"{float(got.mean()):.4g}",
            std=f"{spread[0]:.4g}",
            mean_cpu=f"{float(other.mean()):.4g}",
            std_cpu=f"{spread[1]:.4g}",
        )
        return ReplayVerdict(FAIL, what, why)
    return ReplayVerdict(PASS, what, say("random numbers with the CPU's mean and deviation"))
