"""How a result lies in memory, beside how it lies on the CPU: operators promise it, and views rest on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare.call import Call
from torchferry.numerics.compare.snapshot import Place, Untestable, replaced
from torchferry.numerics.compare.status import Status


def judge_layout(call: Call, number: int, right: Tensor, same: Callable[[], Tensor]) -> tuple[Status, Message] | None:
    """Judge dtype and strides of a result whose values are right.

    The CPU may lay results out otherwise in another dtype, and other devices may have a reason to, which torch's
    shape-only implementation knows: it fails what none of them does.

    Returns:
        Status and reason, or None where all is well.
    """
    result = call.results[number]
    if right.layout is not torch.strided or len(result.stride) != len(result.shape):
        return None
    planned = _planned(call)
    plan = planned[number] if planned is not None and number < len(planned) else None
    if plan is None or plan.dtype != result.dtype:
        dtype = _dtype(same)
        if dtype is not None and dtype != result.dtype:
            return Status.FAIL, say("dtype {ours}, and on the CPU {its}", ours=result.dtype, its=dtype)
    ours = _effective(result.shape, result.stride)
    if ours == _effective(tuple(right.shape), right.stride()):
        return None
    others = [right.stride()]
    with contextlib.suppress(Untestable, IndexError):
        others.append(same().stride())
    if plan is not None:
        others.append(plan.stride())
    if any(ours == _effective(result.shape, tuple(stride)) for stride in others):
        return None
    return Status.FAIL, say(
        "right values in the wrong layout: strides {ours}, and on the CPU {its}",
        ours=list(result.stride),
        its=list(others[1] if len(others) > 1 else others[0]),
    )


def _dtype(same: Callable[[], Tensor]) -> torch.dtype | None:
    try:
        return same().dtype
    except (Untestable, IndexError):
        return None


def _effective(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of dimensions that have more than one element; the others' mean nothing."""
    if 0 in shape:
        return ()
    return tuple(step for size, step in zip(shape, stride, strict=True) if size > 1)


def _planned(call: Call) -> list[Tensor] | None:
    """Return the results that torch expects, without values; None where it has no such implementation."""

    if any(store.whole for store in call.snapshot.stores):
        return None  # sparse tensors have no strides

    def meta(place: Place) -> Tensor:
        dtype = call.snapshot.stores[place.store].fetched.dtype
        return torch.empty_strided(place.size, place.stride, dtype=dtype, device="meta")

    args = tuple(replaced(value, Place, meta) for value in call.snapshot.args)
    kwargs = {key: replaced(value, Place, meta) for key, value in call.snapshot.kwargs.items()}
    if "device" in kwargs:
        kwargs["device"] = torch.device("meta")
    try:
        out = call.operator.overload(*args, **kwargs)
    except Exception:
        return None
    return list(call.operator.results(args, kwargs, out))
