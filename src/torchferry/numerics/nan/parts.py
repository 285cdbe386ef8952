"""The values of a tensor that lie in this process, as plain tensors: also of sparse, distributed and wrapped ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from torchferry.numerics.framework.dispatch import is_plain
from torchferry.numerics.framework.statistics import (
    COMPLEX,
    FINITE,
    FLOATS,
    NARROW,
    Statistics,
    has_values,
    kind_of,
    statistics,
)

_COMPRESSED = frozenset({torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


def parts(tensor: Tensor) -> Sequence[Tensor] | None:
    """Return the values of a tensor that lie here, or None where they cannot be read. Waits for nothing.

    What can hold no NaN, such as integers, has no parts.
    """
    if not (tensor.dtype in FLOATS or tensor.dtype in COMPLEX or tensor.dtype in NARROW):
        return ()
    if is_plain(type(tensor)) and has_values(tensor):
        return (tensor,)
    try:
        return _inside(tensor.detach())
    except (RuntimeError, NotImplementedError, AttributeError, TypeError):
        return None


def _inside(tensor: Tensor) -> Sequence[Tensor] | None:
    if getattr(tensor, "fake_mode", None) is not None:
        return None
    waiting = getattr(tensor, "trigger_wait", None)
    if waiting is not None:  # of a collective that is under way
        return parts(waiting())
    if not is_plain(type(tensor)):
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        held = (getattr(tensor, name) for name in names)
        return _all(item for item in held if isinstance(item, Tensor))
    if tensor.layout is torch.sparse_coo:
        return parts(tensor._values())
    if tensor.layout in _COMPRESSED or tensor.is_nested:
        return parts(tensor.values())
    return None


def _all(inside: Iterable[Tensor]) -> Sequence[Tensor] | None:
    tensors: list[Tensor] = []
    for inner in inside:
        held = parts(inner)
        if held is None:
            return None
        tensors += held
    return tensors


def worst(tensor: Tensor) -> int:
    """Return FINITE, INFINITE or NAN: the worst value that lies here. Waits for the device, and for no other rank."""
    return max(map(kind_of, parts(tensor) or ()), default=FINITE)


def described(tensor: Tensor) -> Statistics:
    """Return what a tensor holds here, in the shape of the whole. Waits for the device."""
    held = parts(tensor)
    if held:
        return statistics(max(held, key=kind_of))._replace(shape=_sizes(tensor))
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Statistics(_sizes(tensor), dtype, str(tensor.device), 0, 0, None, None, None)


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


def described_kind(tensor: Tensor) -> str:
    """Return what a tensor is that cannot be read, for people: `FakeTensor float32 torch.strided`."""
    return f"{type(tensor).__name__} {str(tensor.dtype).removeprefix('torch.')} {tensor.layout}"
