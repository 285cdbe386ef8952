"""What an operator returns on a device without values, where torch cannot tell: sizes by data, and no fake kernel.

A size that depends on values is the largest that it can be, so that what comes behind fits together. What nobody knows
has the shape of the first tensor that the operator is given. Both are told, and neither ends a prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.numerics.framework.operators import tensors

LARGEST = "largest"
"""The sizes are the largest that they can be."""

KNOWN = "known"
"""The sizes are right; torch has no fake kernel."""

UNKNOWN = "unknown"
"""Nobody knows the sizes."""


def result(func: Any, args: Any, kwargs: Any) -> tuple[Any, str]:
    """Return what represents the result of an operator, and how far it can be trusted: one of the constants here."""
    name = func.name().partition(".")[0]
    made = _SIZES.get(name)
    if made is not None:
        return made(func, *args, **kwargs)
    if name.endswith(("_backward", "backward_data")):
        inputs = list(tensors((args, kwargs)))[1:]  # behind the gradient of the result
        return _like(func, inputs or list(tensors((args, kwargs)))), UNKNOWN
    return _like(func, list(tensors((args, kwargs)))), UNKNOWN


def is_known(name: str) -> bool:
    """Whether this file says what an operator returns."""
    return name.partition(".")[0] in _SIZES


def with_places(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of an indexing with the places that its masks choose, at most all of them."""
    indices: list[Any] = []
    for index in args[1]:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            count = index.numel()
            indices += [index.new_empty((count,), dtype=torch.int64) for _ in range(max(index.dim(), 1))]
        else:
            indices.append(index)
    return (args[0], indices, *args[2:])


def _nonzero(func: Any, given: Tensor) -> tuple[Any, str]:
    return given.new_empty((given.numel(), given.dim()), dtype=torch.int64), LARGEST


def _masked_select(func: Any, given: Tensor, mask: Tensor) -> tuple[Any, str]:
    return given.new_empty((prod(torch.broadcast_shapes(given.shape, mask.shape)),)), LARGEST


def _unique(func: Any, given: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    count = given.numel()
    return (
        given.new_empty((count,)),
        given.new_empty(given.shape, dtype=torch.int64),
        given.new_empty((count,), dtype=torch.int64),
    ), LARGEST


def _unique_dim(func: Any, given: Tensor, dim: int, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    count = given.shape[dim]
    counts = [given.new_empty((count,), dtype=torch.int64) for _ in range(2)]
    return (given.new_empty(given.shape), *counts), LARGEST


def _repeat_interleave(func: Any, repeats: Tensor, output_size: int | None = None) -> tuple[Any, str]:
    count = output_size if output_size is not None else repeats.numel()
    return repeats.new_empty((count,), dtype=torch.int64), KNOWN if output_size is not None else UNKNOWN


def _pack(func: Any, given: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Any, str]:
    batch, steps = given.shape[:2] if batch_first else (given.shape[1], given.shape[0])
    known = getattr(lengths, "constant", None)
    with _disable_current_modes():  # its gradient reads them in C++: they are numbers
        each = known.tolist() if known is not None else [steps] * batch
        counts = [sum(length > step for length in each) for step in range(max(each, default=0))]
        sizes = torch.tensor(counts, dtype=torch.int64, device="cpu")
    data = given.new_empty((sum(each), *given.shape[2:]))
    return (data, sizes), KNOWN if known is not None else LARGEST


def _bincount(func: Any, given: Tensor, weights: Tensor | None = None, minlength: int = 0) -> tuple[Any, str]:
    source = given if weights is None else weights
    dtype = torch.int64 if weights is None else weights.dtype
    return source.new_empty((max(minlength, 1),), dtype=dtype), UNKNOWN


def _gru_cell(func: Any, gates: Tensor, hidden_gates: Tensor, hidden: Tensor, *args: Any) -> tuple[Any, str]:
    return (hidden.new_empty(hidden.shape), hidden.new_empty((hidden.shape[0], 5 * hidden.shape[1]))), KNOWN


def _gru_cell_backward(func: Any, grad: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Any, str]:
    size = (grad.shape[0], 3 * grad.shape[1])
    gates = [grad.new_empty(size) for _ in range(2)]
    biases = [grad.new_empty((size[1],)) if has_bias else None for _ in range(2)]
    return (*gates, grad.new_empty(grad.shape), *biases), KNOWN


def _lstm_cell(func: Any, gates: Tensor, hidden_gates: Tensor, cell: Tensor, *args: Any) -> tuple[Any, str]:
    return (*(cell.new_empty(cell.shape) for _ in range(2)), cell.new_empty(gates.shape)), KNOWN


def _lstm_cell_backward(
    func: Any, grad: Tensor | None, grad_cell: Tensor | None, cell: Tensor, new: Tensor, space: Tensor, has_bias: bool
) -> tuple[Any, str]:
    biases = space.new_empty((space.shape[1],)) if has_bias else None
    return (space.new_empty(space.shape), cell.new_empty(cell.shape), biases), KNOWN


def _ctc_loss(func: Any, given: Tensor, targets: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    steps, batch = given.shape[0], given.shape[1] if given.dim() == 3 else 1
    longest = targets.shape[-1]
    return (given.new_empty((batch,)), given.new_empty((batch, steps, 2 * longest + 1))), KNOWN


def _ctc_loss_backward(func: Any, grad: Tensor, given: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    return given.new_empty(given.shape), KNOWN


def _margin_loss(func: Any, given: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    every = dict(zip([each.name for each in func._schema.arguments][2:], args, strict=False)) | kwargs
    size = target.shape if every.get("reduction", 1) == 0 else ()
    return given.new_empty(size), KNOWN


def _margin_loss_backward(func: Any, grad: Tensor, given: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    return given.new_empty(given.shape), KNOWN


def _multilabel_loss(func: Any, given: Tensor, target: Tensor, reduction: int) -> tuple[Any, str]:
    size = given.shape[:-1] if reduction == 0 else ()
    return (given.new_empty(size), given.new_empty(target.shape)), KNOWN


def _true(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, str]:
    return True, UNKNOWN


_SIZES: dict[str, Callable[..., tuple[Any, str]]] = {
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _unique,
    "aten::unique_dim": _unique_dim,
    "aten::repeat_interleave": _repeat_interleave,
    "aten::_pack_padded_sequence": _pack,
    "aten::bincount": _bincount,
    "aten::_thnn_fused_gru_cell": _gru_cell,
    "aten::_thnn_fused_gru_cell_backward": _gru_cell_backward,
    "aten::_thnn_fused_lstm_cell": _lstm_cell,
    "aten::_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "aten::_ctc_loss": _ctc_loss,
    "aten::_ctc_loss_backward": _ctc_loss_backward,
    "aten::multi_margin_loss": _margin_loss,
    "aten::multi_margin_loss_backward": _margin_loss_backward,
    "aten::multilabel_margin_loss_forward": _multilabel_loss,
    "aten::multilabel_margin_loss_backward": _margin_loss_backward,
    "aten::equal": _true,
    "aten::is_nonzero": _true,
    "aten::allclose": _true,
}
"""By operator, what represents its result; sizes are those of torch's own kernels (`aten/src/ATen/native`)."""


def _like(func: Any, given: list[Any]) -> Any:
    """Return results by an operator's schema, each tensor with the shape of the first of some tensors."""
    first = given[0] if given else None
    made: list[Any] = []
    for returned in func._schema.returns:
        kind = str(returned.type)
        if returned.alias_info is not None and returned.alias_info.is_write and first is not None:
            made.append(first)
        elif "Tensor" in kind:
            one = first.new_empty(first.shape) if first is not None else torch.empty(())
            made.append([one] if kind.startswith("List") else one)
        else:
            made.append({"bool": True, "int": 1, "float": 1.0, "number": 1}.get(kind))
    return made[0] if len(made) == 1 else tuple(made)
