"""One call on the device against the same call on the CPU: values moved there, results laid side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

Leaves = list[tuple[str, Any]]
"""What a call leaves behind: a label and a tensor or plain value for each."""

TOLERANCE = {
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}
"""Relative and absolute; those of the half types are `torch.testing.assert_close`'s own."""

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass
class Mover:
    """Copies values to a device, with their strides and offsets; what shares memory shares it there too.

    Attributes:
        device: Where the copies live.
        widen: Whether half and single precision become double, for a reference nearer to the truth.
    """

    device: str
    widen: bool = False
    _tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    _storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    _kept: list[torch.Tensor] = field(default_factory=list)

    def move(self, value: Any) -> Any:
        """Return a copy of `value`, which may be nested."""
        return tree_map(self._leaf, value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._tensors:
                self._tensors[id(value)] = self._tensor(value)
                self._kept.append(value)  # an address is a name only as long as its owner lives
            return self._tensors[id(value)]
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return torch.device(self.device)
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        if self.widen and isinstance(value, torch.dtype) and value in WIDER:
            return WIDER[value]
        return value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
        if self.widen and tensor.dtype in WIDER:
            moved = tensor.detach().to(WIDER[tensor.dtype])
        elif not plain or tensor.is_conj() or tensor.is_neg():
            moved = tensor.detach().to(self.device)
        else:
            moved = torch.empty(0, dtype=tensor.dtype, device=self.device)
            storage = self._storage(tensor.detach().untyped_storage())
            moved.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        return moved.requires_grad_(tensor.requires_grad)

    def _storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        address = storage.data_ptr()
        if address == 0 or address not in self._storages:
            bytes_ = torch.empty(0, dtype=torch.uint8).set_(storage)
            copied = bytes_.to(self.device, copy=True).untyped_storage()
            if address == 0:
                return copied
            self._storages[address] = copied
            self._kept.append(bytes_)
        return self._storages[address]


def leaves(label: str, value: Any) -> Leaves:
    """Return the tensors and plain values in `value`."""
    return [(label, leaf) for leaf in tree_leaves(value)]


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """Return the tensors in `values`."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def difference(expected: Leaves, found: Leaves, device: str, *, values: bool = True, strides: bool = True) -> str:
    """Return what is not the same, or an empty string.

    Args:
        expected: From the CPU.
        found: From the device.
        device: Type of the device that results must be on where they are on the CPU in `expected`.
        values: Whether elements count; they do not for `torch.empty`.
        strides: Whether the layout in memory counts.
    """
    if len(expected) != len(found):
        return f"{len(found)} results instead of {len(expected)}"
    for (label, right), (_, value) in zip(expected, found, strict=True):
        text = _leaf_difference(right, value, device, values, strides)
        if text:
            return f"{label}: {text}"
    return ""


def _leaf_difference(right: Any, value: Any, device: str, values: bool = True, strides: bool = True) -> str:
    if not isinstance(right, torch.Tensor):
        same = value == right or (isinstance(right, float) and right != right and value != value)
        if isinstance(right, float) and isinstance(value, float) and not same:
            same = abs(value - right) <= 1e-5 + 1e-4 * abs(right)
        return "" if same or not isinstance(right, bool | int | float | str) else f"{value} instead of {right}"
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} instead of a tensor"
    for name in ("shape", "dtype", "layout", "requires_grad"):
        if getattr(right, name) != getattr(value, name):
            return f"{name} {getattr(value, name)} instead of {getattr(right, name)}"
    if type(right) is not type(value):
        return f"{type(value).__name__} instead of {type(right).__name__}"
    if right.device.type == "cpu" and value.device.type != device:
        return f"on {value.device}"
    if right.layout == torch.sparse_coo and right.is_coalesced() != value.is_coalesced():
        return f"coalesced is {value.is_coalesced()}"
    if strides and right.layout == torch.strided and _significant(right) != _significant(value):
        return f"strides {tuple(value.stride())} instead of {tuple(right.stride())}"
    return _value_difference(right.detach(), value.detach().cpu()) if values else ""


def _significant(tensor: torch.Tensor) -> list[int]:
    """Strides along which something moves."""
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]


def _value_difference(right: torch.Tensor, value: torch.Tensor) -> str:
    if right.dtype == torch.complex32:
        right, value = right.to(torch.complex64), value.to(torch.complex64)
    relative, absolute = TOLERANCE.get(right.dtype, (0.0, 0.0))
    try:
        torch.testing.assert_close(
            value, right, rtol=relative, atol=absolute, equal_nan=True, check_stride=False, check_device=False
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def not_further(truth: Leaves, expected: Leaves, found: Leaves) -> bool:
    """Whether `found` is nowhere further from the double precision `truth` than `expected` is.

    What counts is the greatest error of a tensor; one rounding of its largest element to its own type is forgiven,
    because two right results may round to opposite sides.
    """
    if not len(truth) == len(expected) == len(found):
        return False
    for (_, exact), (_, right), (_, value) in zip(truth, expected, found, strict=True):
        if not isinstance(right, torch.Tensor) or not isinstance(exact, torch.Tensor) or right.dtype not in WIDER:
            if _leaf_difference(right, value, getattr(getattr(value, "device", None), "type", "")):
                return False
            continue
        rounding = torch.finfo(right.dtype).eps * _greatest(exact)
        if exact.shape != right.shape or _error(exact, value) > _error(exact, right) + rounding:
            return False
    return True


def _error(exact: torch.Tensor, value: torch.Tensor) -> float:
    return _greatest(value.detach().cpu().to(exact.dtype) - exact.detach())


def _greatest(values: torch.Tensor) -> float:
    """Return the greatest absolute value; NaN counts as infinite."""
    if values.numel() == 0:
        return 0.0
    return float(values.detach().abs().nan_to_num(nan=float("inf")).max())


def loss(values: Iterable[Any]) -> torch.Tensor | None:
    """Return a real number to differentiate, or None where nothing has a gradient."""
    parts = [t for t in tensors_in(list(values)) if t.requires_grad and (t.is_floating_point() or t.is_complex())]
    if not parts:
        return None
    total: torch.Tensor = sum((part.abs() if part.is_complex() else part).sum() for part in parts)  # type: ignore[assignment]
    return total
