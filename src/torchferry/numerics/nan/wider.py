"""A call that gave infinities or NaN in a half dtype, tried again in float32: is it the range of the dtype?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.framework.operators import tensors
from torchferry.numerics.framework.statistics import FINITE, worst
from torchferry.numerics.nan.mode import OperatorCall

_HALVES = (torch.float16, torch.bfloat16)
_WIDER = dict.fromkeys(_HALVES, torch.float32)


def range_of_dtype(call: OperatorCall, module: str) -> Message | None:
    """Return what to do where a call is finite in float32, and None where that is not so or cannot be tried.

    Args:
        call: The call, with its arguments as they were.
        module: The module that it belongs to; empty for none.
    """
    half = next((each.dtype for each in tensors([*call.args, *call.kwargs.values()]) if each.dtype in _HALVES), None)
    if half is None or _is_finite(call, {}) is not False or not _is_finite(call, _WIDER):
        return None
    dtype = str(half).removeprefix("torch.")
    if not module:
        return say("the same call is finite in float32: {dtype} is too narrow for it", dtype=dtype)
    return say(
        "the same call is finite in float32, {dtype} is too narrow for it: move this part to float32, the module that "
        "is {module} here, with `.to(torch.float32)`, and give it inputs of float32",
        dtype=dtype,
        module=module,
    )


def _is_finite(call: OperatorCall, dtypes: Mapping[torch.dtype, torch.dtype]) -> bool | None:
    """Return whether a call on copies, with other dtypes, has finite results alone; None where it cannot be tried."""
    args = [_copied(value, dtypes) for value in call.args]
    kwargs = {key: _copied(value, dtypes) for key, value in call.kwargs.items()}
    try:
        with torch.no_grad():
            results = list(tensors([call.overload(*args, **kwargs)]))
    except Exception:  # no kernel, no memory, an operator of others
        return None
    return all(worst(result) == FINITE for result in results) if results else None


def _copied(value: Any, dtypes: Mapping[torch.dtype, torch.dtype]) -> Any:
    """Return an argument with copies of its tensors, and dtypes replaced at any depth."""
    if isinstance(value, Tensor):
        return value.detach().to(dtypes.get(value.dtype, value.dtype), copy=True)
    if isinstance(value, torch.dtype):
        return dtypes.get(value, value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([_copied(each, dtypes) for each in value])
    return value
