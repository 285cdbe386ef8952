"""What no kernel of the CPU computes on the memory of a plugin: composed of other operators, or refused by name.

A sparse tensor is one of indices and one of values. The plugin keeps both, and most of its kernels for sparse tensors
ask for operators on them, which are computed. Those in `COMPOSED` do not. A quantised tensor has a scale beside its
numbers, which the CPU's kernel would drop in silence. Fused optimizers have a kernel of the CPU from torch 2.4 on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from torchferry.rehearsal import events


def coalesced(self: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the layout COO in which no index is twice, sorted by index: values of the same are added."""
    indices, values = self._indices(), self._values()
    sizes = self.shape[: indices.shape[0]]
    steps = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    places = torch.zeros_like(indices[0]) if sizes else indices.new_zeros(values.shape[0])
    for row, step in zip(indices, steps, strict=True):
        places = places + row * step
    kept, entries = torch.unique(places, return_inverse=True)
    added = values.new_zeros((kept.shape[0], *values.shape[1:])).index_add_(0, entries, values)
    rows = [
        kept.div(step, rounding_mode="floor").remainder(size) if size else kept
        for step, size in zip(steps, sizes, strict=True)
    ]
    again = torch.stack(rows) if rows else indices[:, :1]
    return _made(again, added, self.shape)


def sparse(self: torch.Tensor, sparse_dims: int | None = None) -> torch.Tensor:
    """Return the nonzero values of a dense tensor in the layout COO."""
    dims = self.dim() if sparse_dims is None else sparse_dims
    present = self != 0
    if dims < self.dim():
        present = present.flatten(dims).any(-1)
    indices = present.nonzero().t().contiguous()
    values = self[tuple(indices)] if dims else self.reshape(1)[: indices.shape[1]]
    return _made(indices, values, self.shape)


def _made(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, is_coalesced=True, check_invariants=False)


def _to_layout(
    self: torch.Tensor,
    *,
    layout: torch.layout | None = None,
    blocksize: list[int] | None = None,
    dense_dim: int | None = None,
) -> torch.Tensor:
    if layout not in {None, torch.sparse_coo} or blocksize is not None:
        return _refused("aten::_to_sparse", str(layout))
    return sparse(self, None if dense_dim is None else self.dim() - dense_dim)


def _refused(name: str, detail: str) -> NoReturn:
    events.record("not-rehearsed", name, detail)
    raise NotImplementedError(f"{name} with {detail}: not rehearsed with the plugin as its vendor ships it")


def _quantised(name: str) -> Callable[..., NoReturn]:
    return lambda *args, **kwargs: _refused(f"aten::{name}", "a quantised tensor")


def _fused_adam(*, decoupled: bool) -> Callable[..., None]:
    def step(
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        averages: list[torch.Tensor],
        squares: list[torch.Tensor],
        greatest: list[torch.Tensor],
        steps: list[torch.Tensor],
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        if found_inf is not None and bool(found_inf):
            return
        for i, (parameter, gradient, average, square, count) in enumerate(
            zip(parameters, gradients, averages, squares, steps, strict=True)
        ):
            if grad_scale is not None:
                gradient.div_(grad_scale)
            slope = -gradient if maximize else gradient
            if decoupled:
                parameter.mul_(1 - lr * weight_decay)
            elif weight_decay:
                slope = slope.add(parameter, alpha=weight_decay)
            average.lerp_(slope, 1 - beta1)
            square.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
            if amsgrad:
                greatest[i].copy_(torch.maximum(greatest[i], square))
            spread = (greatest[i] if amsgrad else square).sqrt() / (1 - beta2**count).sqrt() + eps
            parameter.sub_(average / spread * (lr / (1 - beta1**count)))

    return step


_QUANTISED = (
    "quantize_per_tensor",
    "quantize_per_tensor.tensor_qparams",
    "quantize_per_tensor.tensors",
    "quantize_per_tensor_dynamic",
    "quantize_per_channel",
)

COMPOSED: dict[tuple[str, str], Callable[..., Any]] = {
    ("_coalesce", "SparsePrivateUse1"): coalesced,
    ("_to_sparse", "PrivateUse1"): _to_layout,
    ("_to_sparse.sparse_dim", "PrivateUse1"): sparse,
    **{(name, "PrivateUse1"): _quantised(name) for name in _QUANTISED},
}
"""By operator of aten, with its overload, and dispatch key."""

COMPOSED_WITHOUT_CPU: dict[str, Callable[..., Any]] = {
    f"{name}{overload}": _fused_adam(decoupled=decoupled)
    for name, decoupled in (("_fused_adam_", False), ("_fused_adamw_", True))
    for overload in ("", ".tensor_lr")
}
"""By operator of aten: composed where this torch has no kernel of the CPU."""
