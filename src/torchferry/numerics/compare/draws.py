"""Random operators: their results cannot be compared, but what they promise can be checked.

A dropout gives its input, scaled, where it keeps, and 0 elsewhere, and keeps as many as it promises. A drawing has the
range, mean and variance of its distribution. Chance is given five standard deviations: one false alarm in two million.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare import tables
from torchferry.numerics.compare.snapshot import Untestable
from torchferry.numerics.compare.standards import name_of, short
from torchferry.numerics.compare.status import Measures, Status, Verdict
from torchferry.numerics.compare.tolerances import TINY, unit

if TYPE_CHECKING:
    from torchferry.numerics.compare.verdict import Call

_DEVIATIONS = 5.0
_FEW = 30
"""Of fewer numbers, mean and variance say nothing."""

Check = Callable[["Call", list[Tensor], tuple[Any, ...], dict[str, Any]], "Message | None"]


def judge(call: Call) -> Verdict:
    """Return the verdict on a call that draws random numbers.

    Raises:
        Untestable: nothing that it promises is known.
    """
    base = tables.plain(call.operator.base)
    check = _CHECKS.get(base)
    if check is None:
        raise Untestable(say("it draws random numbers, and no property of them is known"))
    results = [result.fetched.tensor for result in call.results]
    first = call.results[0] if call.results else None
    if first is None:
        raise Untestable(say("it has no result that is a tensor"))
    args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
    wrong = check(call, results, args, kwargs)
    measures = Measures(elements=results[0].numel())
    status = Status.PASS if wrong is None else Status.FAIL
    reason = say("its distribution, as it draws random numbers") if wrong is None else wrong
    return Verdict(status, reason, measures, first.shape, name_of(first.dtype))


def _value(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    for index, item in enumerate(call.operator.overload._schema.arguments):
        if item.name == name:
            return args[index] if index < len(args) else kwargs.get(name, item.default_value)
    return None


def _number(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, default: float) -> float:
    value = _value(call, args, kwargs, name)
    return default if value is None or isinstance(value, Tensor) else float(value)


def _dropout(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    given: Tensor = args[0]
    chance = _number(call, args, kwargs, "p", 0.5)
    if _value(call, args, kwargs, "train") is False:
        return None if torch.equal(results[0], given) else say("it changes values although it does not train")
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


def _bernoulli(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
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
        if out.numel() < _FEW:
            return None
        deviation = float((chance * (1 - chance)).sum().sqrt())
        off = abs(float(out.double().sum()) - float(chance.expand(out.shape).sum()))
        if off > _DEVIATIONS * deviation * max(1.0, math.sqrt(out.numel() / max(1, chance.numel()))) + 1:
            return say("keeps {found}, and {right} are expected", found=int(out.sum()), right=int(chance.sum()))
        return None
    return _share(out.bool(), float(chance))


def _share(kept: Tensor, chance: float) -> Message | None:
    count = kept.numel()
    if count < _FEW:
        return None
    share = float(kept.double().mean())
    if abs(share - chance) > _DEVIATIONS * math.sqrt(max(chance * (1 - chance), 0.0) / count) + 1 / count:
        return say(
            "keeps {found} % of {count} elements, and {right} % are expected",
            found=short(share * 100),
            count=count,
            right=short(chance * 100),
        )
    return None


def _uniform(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    low, high = _number(call, args, kwargs, "from", 0.0), _number(call, args, kwargs, "to", 1.0)
    return _moments(results[0], low, high, (low + high) / 2, (high - low) / math.sqrt(12))


def _normal(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    if any(isinstance(_value(call, args, kwargs, name), Tensor) for name in ("mean", "std")):
        return None if bool(results[0].isfinite().all()) else say("values that are not finite")
    mean, deviation = _number(call, args, kwargs, "mean", 0.0), _number(call, args, kwargs, "std", 1.0)
    return _moments(results[0], -math.inf, math.inf, mean, deviation, kurtosis=3.0)


def _exponential(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    rate = _number(call, args, kwargs, "lambd", 1.0)
    return _moments(results[0], 0.0, math.inf, 1 / rate, 1 / rate, kurtosis=9.0)


def _integers(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    low = _value(call, args, kwargs, "low")
    low = low if low is not None else _value(call, args, kwargs, "from")
    high = _value(call, args, kwargs, "high")
    high = high if high is not None else _value(call, args, kwargs, "to")
    low = 0 if low is None else low
    if high is None:
        return None if bool((results[0] >= 0).all()) else say("values outside of {low} to {high}", low=0, high="max")
    width = high - low
    deviation = math.sqrt(max(width * width - 1, 0) / 12)
    return _moments(results[0], low, high - 1, (low + high - 1) / 2, deviation)


def _permutation(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    out = results[0].reshape(-1).long()
    right = torch.arange(out.numel())
    return None if torch.equal(out.sort().values, right) else say("not a permutation")


def _chosen(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    weights: Tensor = args[0]
    picked = results[0]
    if int(picked.min()) < 0 or int(picked.max()) >= weights.shape[-1]:
        return say("values outside of {low} to {high}", low=0, high=weights.shape[-1] - 1)
    if bool((weights.gather(-1, picked) == 0).any()):
        return say("elements of weight 0 were drawn")
    return None


def _moments(
    out: Tensor, low: float, high: float, mean: float, deviation: float, kurtosis: float = 1.8
) -> Message | None:
    """Check range, mean and variance; `kurtosis` is the fourth moment over the squared variance."""
    values = out.detach().double().reshape(-1)
    count = values.numel()
    if not count:
        return None
    if not bool(values.isfinite().all()):
        return say("values that are not finite")
    slack = unit(out.dtype) * 2 * max(abs(mean), deviation) if out.is_floating_point() else 0.0
    least, most = float(values.min()), float(values.max())
    if least < low - unit(out.dtype) * abs(low) - 0.0 or most > high + unit(out.dtype) * 2 * abs(high):
        return say(
            "values from {least} to {most} outside of {low} to {high}", least=least, most=most, low=low, high=high
        )
    if count < _FEW or deviation == 0:
        return None
    found, spread = float(values.mean()), float(values.std())
    if abs(found - mean) > _DEVIATIONS * deviation / math.sqrt(count) + slack:
        return say("mean {found}, and {right} is expected", found=short(found), right=short(mean))
    allowed = _DEVIATIONS * math.sqrt(max(kurtosis - 1, 0.1) / count) * deviation**2
    if abs(spread**2 - deviation**2) > allowed + 4 * slack * deviation + deviation**2 / count:
        return say("standard deviation {found}, and {right} is expected", found=short(spread), right=short(deviation))
    return None


def _finite(call: Call, results: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Message | None:
    bad = any(not bool(out.isfinite().all()) for out in results if out.is_floating_point())
    return say("values that are not finite") if bad else None


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
    "poisson": _finite,
    "geometric": _finite,
    "cauchy": _finite,
    "log_normal": _finite,
}
