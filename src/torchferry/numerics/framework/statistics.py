"""What a tensor holds, in a line: shape, dtype, range, how much of it is not finite. Reads the device: for reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

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
