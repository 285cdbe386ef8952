"""Autocast on the fake device: the same operators in low precision, in float32 or in the widest type as in a rehearsal.

Torch has no rules for the key of such a device; a plugin brings its own. The casts, and which of them are kept until
the region ends, are those of aten/src/ATen/autocast_mode.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from torchferry.rehearsal.autocast import BANNED, FLOAT32, FLOAT32_SET_OPTION, KEY, LOWER, PROMOTE, without_autocast

SUPPORTED = (torch.float16, torch.bfloat16)
"""The dtypes of a region, as torch asks the plugin's module for them."""

_LOW = frozenset(SUPPORTED)

_kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
"""Parameters of a region and their casts, which every use in it shares."""

_libraries: list[torch.library.Library] = []


def start(device: str) -> None:
    """Let a device have autocast, and let a scaler of gradients step, which asks fake tensors whether all are finite.

    Args:
        device: Type of the device.
    """
    getattr(torch, device).get_amp_supported_dtype = partial(_supported, device)
    torch.amp.GradScaler._maybe_opt_step = _step  # type: ignore[method-assign,assignment]
    torch.clear_autocast_cache = _clear  # called at the end of the outermost region


_clear_others = torch.clear_autocast_cache


def _clear() -> None:
    _kept.clear()
    _clear_others()


def _step(scaler: Any, optimizer: Any, state: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    for found in state["found_inf_per_device"].values():
        found.item()  # the number that it decides by, which nobody has
    return optimizer.step(*args, **kwargs)


def _supported(device: str) -> list[torch.dtype]:
    if not _libraries:
        others = torch.library.Library("_", "IMPL", KEY)
        others.fallback(torch.library.fallthrough_kernel)
        library = torch.library.Library("aten", "IMPL", KEY)
        kernels: list[tuple[list[str], Callable[..., Any]]] = [
            (LOWER, _lower), (FLOAT32, _float32), (FLOAT32_SET_OPTION, _set_option), (PROMOTE, _promote),
        ]  # fmt: skip
        for names, kernel in kernels:
            for name in names:
                operator = _operator(name)
                if operator is not None:
                    library.impl(name, partial(kernel, device, operator))
        for name in BANNED:
            library.impl(name, _refuse)
        _libraries.extend((others, library))
    return list(SUPPORTED)


def _operator(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base, None), overload or "default", None)


def _is_cast(device: str, value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == device
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(device: str, operator: Any, dtype: torch.dtype, args: Any, kwargs: Any) -> Any:
    def cast(value: Any) -> Any:
        if not _is_cast(device, value) or value.dtype == dtype:
            return value
        is_kept = dtype in _LOW and value.dtype == torch.float32 and value.requires_grad and value.is_leaf
        if not is_kept or value._is_view() or not torch.is_autocast_cache_enabled():
            return value.to(dtype)
        if id(value) not in _kept:
            _kept[id(value)] = value, value.to(dtype)
        return _kept[id(value)][1]

    with without_autocast():
        return operator(*tree_map(cast, args), **tree_map(cast, kwargs))


def _lower(device: str, operator: Any, *args: Any, **kwargs: Any) -> Any:
    return _cast(device, operator, torch.get_autocast_dtype(device), args, kwargs)


def _float32(device: str, operator: Any, *args: Any, **kwargs: Any) -> Any:
    return _cast(device, operator, torch.float32, args, kwargs)


def _promote(device: str, operator: Any, *args: Any, **kwargs: Any) -> Any:
    dtypes = {value.dtype for value in tree_leaves((args, kwargs)) if _is_cast(device, value)}
    dtype = torch.float32 if torch.float32 in dtypes else torch.get_autocast_dtype(device)
    return _cast(device, operator, dtype, args, kwargs)


def _set_option(device: str, operator: Any, *args: Any, **kwargs: Any) -> Any:
    low = any(_is_cast(device, value) and value.dtype in _LOW for value in tree_leaves((args, kwargs)))
    names = [argument.name for argument in operator._schema.arguments]
    at = names.index("dtype")
    given = args[at] if at < len(args) else kwargs.get("dtype")
    if low and given is None:
        behind = dict(zip(names[at + 1 :], args[at + 1 :], strict=False))
        args, kwargs = args[:at], {**behind, **kwargs, "dtype": torch.float32}
    with without_autocast():
        return operator(*args, **kwargs)


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: combine the sigmoid and "
        "the loss in torch.nn.BCEWithLogitsLoss"
    )
