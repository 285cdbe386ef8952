"""Random operators: their results cannot be compared, but what they promise can be checked.

A dropout gives its input, scaled, where it keeps, and 0 elsewhere, and keeps as many as it promises. A drawing has the
range, mean and variance of its distribution. Chance is given five standard deviations: one false alarm in two million.

Of distributions with long tails, or whose parameters differ from element to element, each value is put through its own
distribution function: what comes out is uniform, and of that, mean and variance are tested. A whole number lies
somewhere on its step of the function, by chance of ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.snapshot import ComparedCall, Untestable
from torchferry.numerics.compare.standards import name_of, short
from torchferry.numerics.compare.tolerances import TINY, unit
from torchferry.numerics.compare.verdict import ErrorMeasures, ResultVerdict, Status

_DEVIATIONS = 5.0
_FEW = 30
"""Of fewer numbers, mean and variance say nothing."""

_VAGUE = 0.05
"""Shares that are known less well than this are not tested."""

Check = Callable[["ComparedCall", list[Tensor], tuple[Any, ...], dict[str, Any]], "Message | None"]
"""Gives what is wrong, or None; raises Untestable where what was checked is not the distribution."""


def judge(call: ComparedCall) -> ResultVerdict:
    """Return the verdict on a call that draws random numbers.

    Raises:
        Untestable: nothing that it promises is known.
    """
    base = tolerances.plain(call.operator.base)
    check = _CHECKS.get(base)
    if check is None:
        raise Untestable(say("the operator draws random numbers of unknown distribution"))
    results = [result.fetched.tensor for result in call.results]
    first = call.results[0] if call.results else None
    if first is None:
        raise Untestable(say("the operator returns no tensor"))
    if not results[0].numel():
        return ResultVerdict(
            Status.PASS, say("the result has no elements"), ErrorMeasures(), first.shape, name_of(first.dtype)
        )
    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    wrong = check(call, results, args, kwargs)
    measures = ErrorMeasures(elements=results[0].numel())
    status = Status.PASS if wrong is None else Status.FAIL
    reason = say("the operator draws random numbers: only their distribution was checked") if wrong is None else wrong
    return ResultVerdict(status, reason, measures, first.shape, name_of(first.dtype))


def _value(call: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    for index, item in enumerate(call.operator.overload._schema.arguments):
        if item.name == name:
            return args[index] if index < len(args) else kwargs.get(name, item.default_value)
    return None


def _number(call: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, default: float) -> float:
    value = _value(call, args, kwargs, name)
    return default if value is None or isinstance(value, Tensor) else float(value)


def _dropout(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    given: Tensor = args[0]
    chance = _number(call, args, kwargs, "p", 0.5)
    if _value(call, args, kwargs, "train") is False:
        return None if torch.equal(results[0], given) else say("the dropout changes values outside training mode")
    out = results[0]
    mask = results[1] if len(results) > 1 else None
    kept = mask.bool() if mask is not None else out != 0
    if call.operator.base == "_fused_dropout":
        chance = 1 - chance
    wide = torch.float64
    right = torch.where(kept, given.to(wide) * (1 / (1 - chance) if chance < 1 else 0.0), 0.0)
    error = (out.to(wide) - right).abs()
    counts = right.abs() <= torch.finfo(out.dtype).max * (1 - 4 * unit(out.dtype))
    if not bool((error <= 4 * unit(out.dtype) * right.abs() + TINY[out.dtype]).logical_or(~counts).all()):
        return say("the result is not input * mask / (1 - p)")
    counted = kept if mask is not None else kept[given != 0]
    return _share(counted, 1 - chance)


def _bernoulli(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    out = results[0]
    if not bool(((out == 0) | (out == 1)).all()):
        return say("values other than 0 and 1")
    chance = _value(call, args, kwargs, "p")
    if chance is None and call.operator.base == "bernoulli":
        chance = args[0]
    if chance is None:
        chance = 0.5
    if isinstance(chance, Tensor):
        chance = chance.to(torch.float64)
        _enough(out.numel())
        deviation = float((chance * (1 - chance)).sum().sqrt())
        off = abs(float(out.double().sum()) - float(chance.expand(out.shape).sum()))
        if off > _DEVIATIONS * deviation * max(1.0, math.sqrt(out.numel() / max(1, chance.numel()))) + 1:
            return say("{found} ones were drawn; {right} are expected", found=int(out.sum()), right=int(chance.sum()))
        return None
    _enough(out.numel())
    return _share(out.bool(), float(chance))


def _share(kept: Tensor, chance: float) -> Message | None:
    count = kept.numel()
    if count < _FEW:
        return None
    share = float(kept.double().mean())
    if abs(share - chance) > _DEVIATIONS * math.sqrt(max(chance * (1 - chance), 0.0) / count) + 1 / count:
        return say(
            "keeps {found} % of {count} elements; {right} % are expected",
            found=short(share * 100),
            count=count,
            right=short(chance * 100),
        )
    return None


def _uniform(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    low, high = _number(call, args, kwargs, "from", 0.0), _number(call, args, kwargs, "to", 1.0)
    return _moments(results[0], low, high, (low + high) / 2, (high - low) / math.sqrt(12))


def _normal(call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    if any(isinstance(_value(call, args, kwargs, name), Tensor) for name in ("mean", "std")):
        return _standardized(call, results[0], args, kwargs)
    mean, deviation = _number(call, args, kwargs, "mean", 0.0), _number(call, args, kwargs, "std", 1.0)
    if results[0].is_complex():  # each part has half of the variance
        deviation /= math.sqrt(2)
    return _moments(results[0], -math.inf, math.inf, mean, deviation, kurtosis=3.0)


def _standardized(call: ComparedCall, out: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    """Check numbers with a mean and a deviation each, less that mean and over that deviation."""
    if not bool(out.isfinite().all()):
        return say("values that are not finite")
    if out.is_complex():
        raise Untestable(_only_range())
    values = out.to(torch.float64)
    given = [torch.as_tensor(_value(call, args, kwargs, name), dtype=torch.float64) for name in ("mean", "std")]
    mean, deviation = (parameter.expand(values.shape) for parameter in given)
    wrong = (deviation == 0) & ((values - mean).abs() > 2 * unit(out.dtype) * mean.abs())
    if bool(wrong.any()):
        return say("values other than the mean, where the standard deviation is 0")
    wide = deviation > 16 * unit(out.dtype) * mean.abs()  # of others, rounding hides the distribution
    _enough(int(wide.sum()))
    return _moments(((values - mean) / deviation)[wide], -math.inf, math.inf, 0.0, 1.0, 3.0, unit(out.dtype))


def _exponential(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    rate = _number(call, args, kwargs, "lambd", 1.0)
    values = results[0].to(torch.float64)
    if not bool(values.isfinite().all()):
        return say("values that are not finite")
    return _outside(values, 0.0) or _even(-torch.expm1(-rate * values), results[0].dtype)


def _geometric(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    chance = _number(call, args, kwargs, "p", 0.5)
    values = results[0].to(torch.float64)
    stay = math.log1p(-chance) if chance < 1 else -math.inf

    def upto(count: Tensor) -> Tensor:
        return torch.where(count < 1, 0.0, -torch.expm1(stay * count.clamp(min=1)))

    return _whole(values) or _outside(values, 1.0) or _steps(upto(values - 1), upto(values), results[0].dtype)


def _poisson(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    rate = args[0].to(torch.float64).expand(results[0].shape)
    values = results[0].to(torch.float64)
    wrong = _whole(values) or _outside(values, 0.0)
    if wrong is None and bool(((rate == 0) & (values != 0)).any()):
        wrong = say("numbers other than 0 at a rate of 0")
    if wrong is not None:
        return wrong
    some = rate > 0
    rate, values = rate[some], values[some]

    def upto(count: Tensor) -> Tensor:
        return torch.where(count < 0, 0.0, torch.special.gammaincc(count.clamp(min=0) + 1, rate))

    return _steps(upto(values - 1), upto(values), results[0].dtype)


def _log_normal(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    mean, deviation = _number(call, args, kwargs, "mean", 1.0), _number(call, args, kwargs, "std", 2.0)
    values = results[0].to(torch.float64)
    wrong = _not_a_number(values) or _outside(values, 0.0)
    return wrong or _even(torch.special.ndtr((values.log() - mean) / deviation), results[0].dtype)


def _cauchy(call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    median, width = _number(call, args, kwargs, "median", 0.0), _number(call, args, kwargs, "sigma", 1.0)
    values = results[0].to(torch.float64)
    return _not_a_number(values) or _even(((values - median) / width).atan() / math.pi + 0.5, results[0].dtype)


def _integers(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    low = _value(call, args, kwargs, "low")
    low = low if low is not None else _value(call, args, kwargs, "from")
    high = _value(call, args, kwargs, "high")
    high = high if high is not None else _value(call, args, kwargs, "to")
    low = 0 if low is None else low
    if high is None:
        if bool((results[0] < 0).any()):
            return say("values outside of {low} to {high}", low=0, high="max")
        raise Untestable(_only_range())
    width = high - low
    deviation = math.sqrt(max(width * width - 1, 0) / 12)
    return _moments(results[0], low, high - 1, (low + high - 1) / 2, deviation)


def _permutation(
    call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Message | None:
    out = results[0].reshape(-1).long()
    right = torch.arange(out.numel())
    return None if torch.equal(out.sort().values, right) else say("not a permutation")


def _chosen(call: ComparedCall, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    weights: Tensor = args[0]
    picked = results[0]
    if int(picked.min()) < 0 or int(picked.max()) >= weights.shape[-1]:
        return say("values outside of {low} to {high}", low=0, high=weights.shape[-1] - 1)
    if bool((weights.gather(-1, picked) == 0).any()):
        return say("elements of weight 0 were drawn")
    if not _value(call, args, kwargs, "replacement"):
        ordered = picked.sort(-1).values
        if bool((ordered[..., 1:] == ordered[..., :-1]).any()):
            return say("elements were drawn twice, without replacement")
        picked = picked[..., :1]  # those that follow depend on it
    share = weights.to(torch.float64)
    share = share / share.sum(-1, keepdim=True)
    upper = share.cumsum(-1)
    slack = unit(weights.dtype) * weights.shape[-1]  # devices add the weights up in their dtype
    if slack > _VAGUE:
        raise Untestable(_only_range())
    return _steps((upper - share).gather(-1, picked), upper.gather(-1, picked), torch.float64, slack)


def _only_range() -> Message:
    return say("the operator draws random numbers: only finiteness and range were checked")


def _enough(count: int) -> None:
    """Refuse to judge a distribution by a few numbers.

    Raises:
        Untestable: there are too few.
    """
    if count < _FEW:
        raise Untestable(
            say_plural(
                "{reason}; {count} element is too few for more",
                "{reason}; {count} elements are too few for more",
                reason=_only_range(),
                count=count,
            )
        )


def _outside(values: Tensor, low: float) -> Message | None:
    least = float(values.min())
    return say("values start at {least}, below the minimum {low}", least=least, low=low) if least < low else None


def _whole(values: Tensor) -> Message | None:
    is_whole = (values == values.floor()) & values.isfinite()
    return None if bool(is_whole.all()) else say("values that are not integers")


def _not_a_number(values: Tensor) -> Message | None:
    return say("values that are not finite") if bool(values.isnan().any()) else None


def _steps(below: Tensor, upto: Tensor, dtype: torch.dtype, slack: float = 0.0) -> Message | None:
    """Check whole numbers by their distribution function just below them and at them."""
    chance = torch.rand(below.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(22))
    return _even(below + chance * (upto - below), dtype, slack)


def _even(shares: Tensor, dtype: torch.dtype, slack: float = 0.0) -> Message | None:
    """Check that values of a distribution function are uniform, as those of its own distribution are."""
    count = shares.numel()
    _enough(count)
    slack += 2 * unit(dtype)
    mean, variance = float(shares.mean()), float(shares.var())
    if abs(mean - 0.5) > _DEVIATIONS / math.sqrt(12 * count) + slack:
        return say("the mean quantile of the values is {found}; 0.5 is expected", found=short(mean))
    if abs(variance * 12 - 1) > _DEVIATIONS * math.sqrt(0.8 / count) + 1 / count + 12 * slack:
        return say(
            "the spread of the values is {found} times the expected spread",
            found=short(math.sqrt(variance * 12)),
        )
    return None


def _moments(
    out: Tensor,
    low: float,
    high: float,
    mean: float,
    deviation: float,
    kurtosis: float = 1.8,
    rounding: float | None = None,
) -> Message | None:
    """Check range, mean and variance; `kurtosis` is the fourth moment over the squared variance."""
    if out.is_complex():
        out = torch.view_as_real(out.resolve_conj())
    values = out.detach().double().reshape(-1)
    count = values.numel()
    if not bool(values.isfinite().all()):
        return say("values that are not finite")
    rounding = unit(out.dtype) if rounding is None else rounding
    slack = rounding * 2 * max(abs(mean), deviation) if out.is_floating_point() else 0.0
    least, most = float(values.min()), float(values.max())
    if least < low - unit(out.dtype) * abs(low) - 0.0 or most > high + unit(out.dtype) * 2 * abs(high):
        return say(
            "values from {least} to {most}, outside of {low} to {high}", least=least, most=most, low=low, high=high
        )
    if deviation == 0:
        return None
    _enough(count)
    observed, spread = float(values.mean()), float(values.std())
    if abs(observed - mean) > _DEVIATIONS * deviation / math.sqrt(count) + slack:
        return say("mean {found}; {right} is expected", found=short(observed), right=short(mean))
    allowed = _DEVIATIONS * math.sqrt(max(kurtosis - 1, 0.1) / count) * deviation**2
    if abs(spread**2 - deviation**2) > allowed + 4 * slack * deviation + deviation**2 / count:
        return say("standard deviation {found}; {right} is expected", found=short(spread), right=short(deviation))
    return None


_CHECKS: dict[str, Check] = {
    "native_dropout": _dropout,
    "_fused_dropout": _dropout,
    "dropout": _dropout,
    "bernoulli": _bernoulli,
    "uniform": _uniform,
    "rand": _uniform,
    "rand_like": _uniform,
    "normal": _normal,
    "normal_functional": _normal,
    "randn": _normal,
    "randn_like": _normal,
    "exponential": _exponential,
    "randint": _integers,
    "randint_like": _integers,
    "random": _integers,
    "randperm": _permutation,
    "multinomial": _chosen,
    "poisson": _poisson,
    "geometric": _geometric,
    "cauchy": _cauchy,
    "log_normal": _log_normal,
}
