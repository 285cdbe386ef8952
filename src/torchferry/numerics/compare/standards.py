"""The standards that a result can be judged by; `report/compare.py` says what each asks, and where it is written.

`ours` is a bound of rounding errors first, and for what is outside of it the ratio to the CPU in the same dtype: what
no float16 can do is asked of none. The others are what vendors and PyTorch ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.compare import verdict
from torchferry.numerics.compare.tolerances import ErrorBound, Growth
from torchferry.numerics.compare.verdict import ErrorMeasures, Status

# One result of the device beside that of the reference, as the standards judge it.


@dataclass(eq=False)
class ResultPair:
    """A result and its reference: real, finite, of the same shape.

    Attributes:
        operator: Name of the operator without namespace and overload, `addmm`.
        growth: How errors grow in it.
        device: The result of the device, on the CPU.
        reference: That of the reference, in higher precision.
        dtype: Of the device's result.
        bound: What its error may be.
        wider: Another bound to try when it is outside of `bound`; None where there is none.
        same_dtype: Gives the result of the CPU in the same dtype, or None where the CPU cannot.
        cheap: Whether only what the verdict needs is measured.
    """

    operator: str
    growth: Growth
    device: Tensor
    reference: Tensor
    dtype: torch.dtype
    bound: ErrorBound
    wider: Callable[[], ErrorBound | None]
    same_dtype: Callable[[], Tensor | None]
    cheap: bool = False

    def judge_by(self, bound: ErrorBound) -> None:
        """Take another bound in place of the one so far."""
        self.bound = bound
        for given in ("fraction", "measures"):
            self.__dict__.pop(given, None)

    @cached_property
    def fraction(self) -> float:
        """The greatest error over its bound."""
        if "measures" in self.__dict__ and self.measures.of_bound is not None:
            return self.measures.of_bound
        return verdict.of_bound(self.device, self.reference, self.bound)

    @cached_property
    def measures(self) -> ErrorMeasures:
        """All distances."""
        return verdict.measure(self.device, self.reference, self.bound, self.dtype)

    @cached_property
    def same(self) -> Tensor | None:
        """The CPU's result in the same dtype, in the reference's dtype."""
        return self.same_dtype()

    @cached_property
    def ratios(self) -> tuple[float, float] | None:
        """RMSE and greatest error over those of the CPU in the same dtype."""
        if self.same is None:
            return None
        return verdict.ratios(self.device, self.same, self.reference, self.dtype)


Judgement = tuple[Status, "Message | None"]


Judging = Callable[[ResultPair], Judgement]

PASSED: Judgement = (Status.PASS, None)

_FEW = ((10, 10.0), (500, 8.0), (1000, 3.0))
"""Of so few elements, the ratio may be so great: one unlucky rounding decides it (torch._dynamo.utils.same)."""


def ours(pair: ResultPair) -> Judgement:
    """Bound first, then ratio to the CPU."""
    if pair.fraction <= 1:
        return PASSED
    if pair.growth is Growth.NONE:
        return Status.FAIL, say(
            "the error is {fraction} times that of rounding to the nearest value", fraction=short(pair.fraction)
        )
    wider = pair.wider()
    if wider is not None:
        pair.judge_by(wider)
        if pair.fraction <= 1:
            return PASSED
    ratios = pair.ratios
    if ratios is None:
        return _bound_alone(pair)
    count = pair.reference.numel()
    factor = next((factor for most, factor in _FEW if count <= most), 2.0)
    if ratios[0] <= factor and ratios[1] <= max(10.0, factor):
        return PASSED
    return Status.FAIL, say(
        "the error is {fraction} times the rounding bound, and {ratio} times the CPU's error in {dtype}",
        fraction=short(pair.fraction),
        ratio=short(ratios[0]),
        dtype=name_of(pair.dtype),
    )


def _bound_alone(pair: ResultPair) -> Judgement:
    status = Status.WARN if pair.fraction <= 4 else Status.FAIL
    return status, say(
        "the error is {fraction} times the rounding bound; the CPU cannot run this operator in {dtype}",
        fraction=short(pair.fraction),
        dtype=name_of(pair.dtype),
    )


_MIXED = {
    torch.float16: (2.0**-9, 2.0**-9, 1e-1),
    torch.bfloat16: (2.0**-6, 2.0**-6, 1.0),
    torch.float32: (2.0**-10, 2.0**-16, 1e-2),
    torch.float8_e4m3fn: (2.0**-2, 2.0**-4, 1.0),
    torch.float8_e5m2: (2.0**-1, 2.0**-3, 1e-1),
}


def cann_mixed(pair: ResultPair) -> Judgement:
    """Share of elements within atol + rtol, and a limit for all."""
    if pair.dtype not in _MIXED:
        return _no_rule(pair)
    relative, absolute, most = _MIXED[pair.dtype]
    error, size = _errors(pair)
    share = float((error <= absolute + relative * size).double().mean())
    unit = size.clamp(min=torch.finfo(pair.dtype).tiny)
    spacing = torch.exp2(torch.floor(torch.log2(unit))) * torch.finfo(pair.dtype).eps
    limit = torch.clamp(32 * spacing, min=most)
    if share < 0.99:
        return Status.FAIL, say(
            "only {share} % of the elements are within {absolute} + {relative} * |reference|; 99 % are required",
            share=short(share * 100),
            absolute=absolute,
            relative=relative,
        )
    if bool((error <= limit).all()):
        return PASSED
    return Status.FAIL, say(
        "the largest error is {found}; at most max({most}, 32 ULP) is allowed",
        found=short(float(error.max())),
        most=most,
    )


_MERE = {
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
    torch.float32: 2.0**-13,
    torch.float8_e4m3fn: 2.0**-3,
    torch.float8_e5m2: 2.0**-2,
}


def cann_mere(pair: ResultPair) -> Judgement:
    """Mean and greatest relative error."""
    if pair.dtype not in _MERE:
        return _no_rule(pair)
    limit = _MERE[pair.dtype]
    measures = pair.measures
    if measures.mean_rel < limit and measures.max_rel < 10 * limit:
        return PASSED
    return Status.FAIL, say(
        "mean relative error {mean} (limit {limit}), largest {most} (limit {ten})",
        mean=short(measures.mean_rel),
        limit=limit,
        most=short(measures.max_rel),
        ten=10 * limit,
    )


_LEVELS = {"L0": (10.0, 2.0, 2.0), "L1": (5.0, 1.5, 1.5), "L2": (2.0, 1.2, 1.2)}
"""Ratios of MARE, MERE and RMSE."""


def _double(level: str) -> Callable[[ResultPair], Judgement]:
    limits = _LEVELS[level]

    def judge(pair: ResultPair) -> Judgement:
        same = pair.same
        if same is None:
            return Status.UNTESTED, say("the CPU cannot run this operator in {dtype}", dtype=name_of(pair.dtype))
        error, size = _errors(pair)
        its = (same.to(pair.reference.dtype) - pair.reference).abs()
        below = size + 1e-7
        floor = torch.finfo(pair.dtype).eps / 32
        figures = (
            _ratio(float((error / below).max()), float((its / below).max()), floor),
            _ratio(float((error / below).mean()), float((its / below).mean()), floor),
            _ratio(_rms(error), _rms(its), floor * float(size.mean())),
        )
        if all(figure <= limit for figure, limit in zip(figures, limits, strict=True)):
            return PASSED
        return Status.FAIL, say(
            "MARE, MERE and RMSE are {found} times the CPU's in {dtype}; {limits} are allowed",
            found=" ".join(short(figure) for figure in figures),
            dtype=name_of(pair.dtype),
            limits=" ".join(short(limit) for limit in limits),
        )

    return judge


def ascend_cosine(pair: ResultPair) -> Judgement:
    """Cosine, greatest error, and the shares of elements with small relative errors."""
    measures = pair.measures
    if measures.cosine <= 0.99 and measures.max_abs >= 1e-3:
        return Status.FAIL, say("cosine {cosine}; more than 0.99 is required", cosine=short(measures.cosine))
    if measures.max_abs < 1e-3:
        return PASSED
    error, size = _errors(pair)
    relative = error / (size + torch.finfo(torch.float32).eps)
    outer, inner = (1e-3, 1e-4) if pair.dtype in (torch.float32, torch.float64) else (1e-2, 1e-3)
    if float((relative < outer).double().mean()) <= 0.99:
        return Status.FAIL, say("less than 99 % of the elements have a relative error below {limit}", limit=outer)
    if float((relative < inner).double().mean()) <= 0.999:
        return Status.WARN, say("less than 99.9 % of the elements have a relative error below {limit}", limit=inner)
    return PASSED


_CLOSE = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}


def torch_close(pair: ResultPair) -> Judgement:
    """Every element within atol + rtol * |reference|."""
    if pair.dtype not in _CLOSE:
        return _no_rule(pair)
    return within(pair, *reversed(_CLOSE[pair.dtype]))


def inductor(pair: ResultPair) -> Judgement:
    """Close, or no less accurate than the CPU in the same dtype by a factor."""
    half = pair.dtype in (torch.float16, torch.bfloat16)
    tolerance = 1e-3 if half else 1e-4
    if within(pair, tolerance, tolerance) == PASSED:
        return PASSED
    same = pair.same
    if same is None:
        return Status.UNTESTED, say("the CPU cannot run this operator in {dtype}", dtype=name_of(pair.dtype))
    error, _ = _errors(pair)
    count = pair.reference.numel()
    factor = 3.0 if half or count < 1000 else 2.0
    factor = 10.0 if count <= 10 else 8.0 if count <= 500 else factor
    its = _rms(same.to(pair.reference.dtype) - pair.reference)
    mine = _rms(error)
    if mine <= factor * its + tolerance / 10:
        return PASSED
    return Status.FAIL, say(
        "RMSE {mine}; at most {limit} is allowed: {factor} times the CPU's in {dtype}, plus {more}",
        mine=short(mine),
        factor=short(factor),
        dtype=name_of(pair.dtype),
        more=short(tolerance / 10),
        limit=short(factor * its + tolerance / 10),
    )


def elementwise(standard: str, dtype: torch.dtype) -> ErrorBound | None:
    """Return what each element may be off where a standard says it, else None."""
    if standard == "cann-mixed" and dtype in _MIXED:
        return ErrorBound(_MIXED[dtype][0], _MIXED[dtype][1])
    if standard == "torch" and dtype in _CLOSE:
        return ErrorBound(*_CLOSE[dtype])
    return None


def within(pair: ResultPair, absolute: float, relative: float) -> Judgement:
    """Every element within absolute + relative * |reference|."""
    error, size = _errors(pair)
    off = int((error > absolute + relative * size).sum())
    if not off:
        return PASSED
    return Status.FAIL, say_plural(
        "{off} of {count} element is not within {absolute} + {relative} * |reference|",
        "{off} of {count} elements are not within {absolute} + {relative} * |reference|",
        off=off,
        count=error.numel(),
        absolute=absolute,
        relative=relative,
    )


def given(absolute: float, relative: float, strict: bool) -> Callable[[ResultPair], Judgement]:
    """Return the judge of tolerances that the user gave.

    Unless they are all that counts (`strict`), a result that is as right as its dtype allows, or that is far from right
    and yet within them, is a warning that says so: they are then not what finds errors in this dtype.
    """

    def judge(pair: ResultPair) -> Judgement:
        asked = within(pair, absolute, relative)
        if strict:
            return asked
        own = ours(pair)
        if asked[0] is Status.PASS and own[0] is Status.FAIL:
            assert own[1] is not None
            return Status.WARN, say("within the given tolerance, but {reason}", reason=own[1])
        if asked[0] is Status.FAIL and own[0] is Status.PASS:
            assert asked[1] is not None
            return Status.WARN, say(
                "{reason}; it is as accurate as {dtype} allows", reason=asked[1], dtype=name_of(pair.dtype)
            )
        return asked

    return judge


JUDGES: dict[str, Judging] = {
    "ours": ours,
    "cann-mixed": cann_mixed,
    "cann-mere": cann_mere,
    "cann-double": _double("L0"),
    "cann-double-l0": _double("L0"),
    "cann-double-l1": _double("L1"),
    "cann-double-l2": _double("L2"),
    "ascend-cosine": ascend_cosine,
    "torch": torch_close,
    "inductor": inductor,
}
"""What judges by each standard; `given` is made of the tolerances that are given."""


def short(value: float) -> str:
    """Return a number in three digits."""
    return f"{value:.3g}"


@cache
def name_of(dtype: torch.dtype) -> str:
    """Return `float16` for torch.float16."""
    return str(dtype).removeprefix("torch.")


def _no_rule(pair: ResultPair) -> Judgement:
    return Status.UNTESTED, say("the standard has no rule for {dtype}", dtype=name_of(pair.dtype))


def _errors(pair: ResultPair) -> tuple[Tensor, Tensor]:
    """Return absolute errors and absolute values of the reference."""
    return (pair.device.to(pair.reference.dtype) - pair.reference).abs(), pair.reference.abs()


def _rms(error: Tensor) -> float:
    return math.sqrt(float(error.square().mean()))


def _ratio(mine: float, its: float, floor: float) -> float:
    return mine / (its + floor) if its + floor else (0.0 if mine == 0 else math.inf)
