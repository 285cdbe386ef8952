"""A golden run beside the program: every value also in float64 on the CPU, made of golden values alone.

The verdict on an operator takes the device's inputs, and says whether the operator is right. The golden run takes its
own, and says how far rounding and errors have carried the program. Values belong to storages, so that views and what
works in place are followed. What cannot be run on the CPU, communication and random numbers are taken from the device.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from torchferry.numerics.compare import reference, tolerances
from torchferry.numerics.compare.reference import adapted, widening
from torchferry.numerics.compare.snapshot import replaced
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, argument, tensors

_WIDE = torch.float64
_SWEEP = 512
"""Calls after which the values of storages that are gone are dropped."""

_SAME_VALUES = frozenset({OpKind.VIEW, OpKind.ALLOCATE, OpKind.BOOKKEEP})


class Prepared:
    """Golden arguments of a call that is about to run."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


class _ShadowTensor:
    """The golden values of one storage, flat."""

    def __init__(self, alive: StorageWeakRef, dtype: torch.dtype, values: Tensor) -> None:
        self.alive = alive
        self.dtype = dtype
        self.values = values


class ShadowRun:
    """Follows a program call by call. Costs a run of everything in float64."""

    def __init__(self) -> None:
        self._shadows: dict[int, _ShadowTensor] = {}
        self._calls = 0

    def before(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared | None:
        """Return golden arguments for a call; None where its results are to be taken from the device."""
        if op.kind in _SAME_VALUES or op.kind is OpKind.COMMUNICATE:
            return None
        if op.draws(args, kwargs) and op.base != "native_dropout":
            return None
        written = {id(tensor) for place in op.written for tensor in tensors(argument(place, args, kwargs, None))}

        def golden(tensor: Tensor) -> Tensor:
            return self._golden(tensor, keep=id(tensor) in written)

        try:
            return Prepared(
                tuple(replaced(value, Tensor, golden) for value in args),
                {key: replaced(value, Tensor, golden) for key, value in kwargs.items()},
            )
        except (RuntimeError, NotImplementedError, TypeError):
            return None

    def after(
        self, op: Operator, prepared: Prepared | None, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> float | None:
        """Run the call with golden values, and return how far the device's results are from it, relative."""
        self._calls += 1
        if self._calls % _SWEEP == 0:
            self._sweep()
        if op.kind in _SAME_VALUES:
            return None
        if op.is_view(args, out):
            return None
        nested = any(tensor.is_nested for tensor in tensors((*args, *kwargs.values(), out)))  # it has no sizes
        made = [(slot, tensor) for slot, tensor in op.numbered(args, kwargs, out) if not tensor.is_nested]
        right = None if prepared is None or nested else self._run(op, prepared, out)
        if right is None:
            for _, tensor in made:
                self._forget(tensor)
            return None
        drift = 0.0
        for slot, tensor in made:
            values = right.get(slot)
            if values is not None and _followed(tensor) and tuple(values.shape) == tuple(tensor.shape):
                self._keep(tensor, values)
                drift = max(drift, _distance(tensor, values))
            else:
                self._forget(tensor)
        return drift

    def _run(self, op: Operator, prepared: Prepared, out: Any) -> dict[int, Tensor] | None:
        if tolerances.is_opaque(op):
            return None
        args, kwargs = adapted(op, prepared.args, prepared.kwargs, widening(_WIDE))
        try:
            if op.base == "native_dropout":
                chance = args[1]
                mask = out[1].cpu()
                return {0: args[0] * mask * (1 / (1 - chance) if chance < 1 else 0.0), 1: mask}
            args, kwargs = tolerances.widened(op, args, kwargs)
            result = reference.run(op, args, kwargs)
        except Exception:
            return None
        return dict(op.numbered(args, kwargs, result))

    def _golden(self, tensor: Tensor, keep: bool) -> Tensor:
        if not _followed(tensor):
            return tensor.detach().to("cpu", copy=True)
        shadow = self._found(tensor)
        if shadow is None and not keep:
            return tensor.detach().to("cpu", _WIDE, copy=True)
        if shadow is None:
            shadow = self._begin(tensor)
            storage = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
            shadow.values.copy_(storage.to("cpu", _WIDE))
        return shadow.values.as_strided(tensor.size(), tensor.stride(), int(tensor.storage_offset()))

    def _found(self, tensor: Tensor) -> _ShadowTensor | None:
        key = tensor.untyped_storage()._cdata
        shadow = self._shadows.get(key)
        if shadow is not None and (shadow.alive.expired() or shadow.dtype != tensor.dtype):
            del self._shadows[key]
            return None
        return shadow

    def _begin(self, tensor: Tensor) -> _ShadowTensor:
        storage = tensor.untyped_storage()
        values = torch.zeros(storage.nbytes() // tensor.element_size(), dtype=_WIDE)
        shadow = _ShadowTensor(StorageWeakRef(storage), tensor.dtype, values)
        self._shadows[storage._cdata] = shadow
        return shadow

    def _keep(self, tensor: Tensor, values: Tensor) -> None:
        shadow = self._found(tensor) or self._begin(tensor)
        view = shadow.values.as_strided(tensor.size(), tensor.stride(), int(tensor.storage_offset()))
        if view.data_ptr() != values.data_ptr() or view.stride() != values.stride():
            view.copy_(values)

    def _forget(self, tensor: Tensor) -> None:
        if tensor.layout is torch.strided:
            self._shadows.pop(tensor.untyped_storage()._cdata, None)

    def _sweep(self) -> None:
        self._shadows = {key: shadow for key, shadow in self._shadows.items() if not shadow.alive.expired()}


def _followed(tensor: Tensor) -> bool:
    kept_whole = tensor.is_nested or tensor.is_meta or tensor.layout is not torch.strided
    return tensor.dtype.is_floating_point and not kept_whole


def _distance(tensor: Tensor, values: Tensor) -> float:
    """Return the norm of the difference over the norm of the golden values, of what is finite."""
    from_device = tensor.detach().to("cpu", _WIDE)
    finite = from_device.isfinite() & values.isfinite()
    size = float(torch.where(finite, values, 0.0).norm())
    off = float(torch.where(finite, from_device - values, 0.0).norm())
    return off / size if size else (0.0 if off == 0 else math.inf)
