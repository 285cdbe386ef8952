"""What a tensor holds, in a line: shape, dtype, range, how much of it is not finite. Reads the device: for reports.

`parts` gives the values that lie in this process as plain tensors, also of sparse, distributed and wrapped ones, and
waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.numerics.framework.dispatch import is_plain

FLOATS = frozenset({torch.float32, torch.float64, torch.float16, torch.bfloat16})
COMPLEX = frozenset({torch.complex64, torch.complex128, torch.complex32})
NARROW = frozenset(dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype) and "float8" in str(dtype))
"""Floating types without arithmetic: they are widened to be looked at."""

FINITE, INFINITE, NAN = 0, 1, 2
KINDS = ("finite", "inf", "nan")


class Statistics(NamedTuple):
    """What a tensor holds.

    Attributes:
        shape: Sizes.
        dtype: `float16`.
        device: `npu:0`, as torch writes it.
        nan: Elements that are NaN.
        inf: Elements that are infinite.
        least: Smallest finite element; None where there is none, or the tensor is complex or empty.
        greatest: Largest finite element.
        mean: Of the finite elements.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    nan: int
    inf: int
    least: float | None
    greatest: float | None
    mean: float | None

    def document(self) -> dict[str, Any]:
        """Return it in values that JSON has."""
        return {**self._asdict(), "shape": list(self.shape)}


def has_values(tensor: Tensor) -> bool:
    """Whether a tensor has values that can be not finite, and that can be looked at here. Asks no device."""
    return (
        (tensor.dtype in FLOATS or tensor.dtype in COMPLEX or tensor.dtype in NARROW)
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and not tensor.is_nested
        and not getattr(tensor, "fake_mode", None)
    )


def kind_of(tensor: Tensor) -> int:
    """Return FINITE, INFINITE or NAN: the worst element. Waits for the device."""
    if not has_values(tensor) or tensor.numel() == 0:
        return FINITE
    values = _plain(tensor)
    if bool(torch.isnan(values).any()):
        return NAN
    return INFINITE if bool(torch.isinf(values).any()) else FINITE


def statistics(tensor: Tensor) -> Statistics:
    """Return what a tensor holds. Waits for the device."""
    shape, dtype, device = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), str(tensor.device)
    if not has_values(tensor) or tensor.numel() == 0:
        return Statistics(shape, dtype, device, 0, 0, None, None, None)
    values = _plain(tensor)
    finite = values[torch.isfinite(values)]
    nan, inf = int(torch.isnan(values).sum()), int(torch.isinf(values).sum())
    if not finite.numel() or tensor.dtype in COMPLEX:
        return Statistics(shape, dtype, device, nan, inf, None, None, None)
    wide = finite.to(torch.float64)
    return Statistics(shape, dtype, device, nan, inf, float(wide.min()), float(wide.max()), float(wide.mean()))


def _plain(tensor: Tensor) -> Tensor:
    """Return the values on the CPU in a dtype that has all arithmetic: a device may have none for this dtype."""
    values = tensor.detach().cpu()
    if values.dtype in COMPLEX:
        values = torch.view_as_real(values.resolve_conj().to(torch.complex64))
    if values.dtype in NARROW or values.dtype is torch.float16:
        values = values.to(torch.float32)
    return values


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
