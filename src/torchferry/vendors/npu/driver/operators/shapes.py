"""Operators of the plugin's own that move, select and order elements, with their gradients.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu and what is expected in
test/test_base_ops and test/test_custom_ops there.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from torchferry.rehearsal.driver.references import gradient, refuse


def npu_confusion_transpose(x: torch.Tensor, perm: list[int], shape: list[int], transpose_first: bool) -> torch.Tensor:
    """Return x with its dimensions in another order and another shape, in either order."""
    if transpose_first:
        return x.permute(perm).reshape(shape)
    return x.reshape(shape).permute(perm).contiguous()


def npu_confusion_transpose_backward(
    grad: torch.Tensor, perm: list[int], shape: list[int], transpose_first: bool
) -> torch.Tensor:
    """Return the way back; `shape` is that of the operator's input."""
    back = [list(perm).index(place) for place in range(len(perm))]
    if transpose_first:
        return grad.reshape([shape[place] for place in perm]).permute(back).contiguous()
    return grad.permute(back).reshape(shape)


def npu_transpose(x: torch.Tensor, perm: list[int], require_contiguous: bool = True) -> torch.Tensor:
    return x.permute(perm).contiguous()


def npu_broadcast(x: torch.Tensor, size: list[int]) -> torch.Tensor:
    return x.expand(size).contiguous()


def npu_reshape(x: torch.Tensor, shape: list[int], can_refresh: bool = False) -> torch.Tensor:
    return x.reshape(shape).clone()


def npu_slice(x: torch.Tensor, offsets: list[int], size: list[int]) -> torch.Tensor:
    for dim, (begin, length) in enumerate(zip(offsets, size, strict=False)):
        x = x.narrow(dim, begin, x.shape[dim] - begin if length == -1 else length)
    return x.clone()


def npu_slice_out(x: torch.Tensor, offsets: list[int], size: list[int], out: torch.Tensor) -> torch.Tensor:
    return out.copy_(npu_slice(x, offsets, size))


def npu_pad(x: torch.Tensor, paddings: list[int]) -> torch.Tensor:
    """Return x with zeros before and behind each dimension, from the first dimension on."""
    pairs = [paddings[place : place + 2] for place in range(0, len(paddings), 2)]
    return functional.pad(x, [number for pair in reversed(pairs) for number in pair])


def npu_one_hot(
    x: torch.Tensor, num_classes: int = -1, depth: int = 1, on_value: float = 1, off_value: float = 0
) -> torch.Tensor:
    """Return a last dimension of `depth` elements with `on_value` where x says, as float32."""
    places = torch.arange(depth, device=x.device)
    hit = x.unsqueeze(-1) == places
    on, off = (torch.tensor(float(value), device=x.device) for value in (on_value, off_value))
    return torch.where(hit, on, off)


def npu_indexing(
    x: torch.Tensor,
    begin: list[int],
    end: list[int],
    strides: list[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> torch.Tensor:
    """Return x[begin:end:stride] of each dimension; a bit of a mask leaves that begin or end out."""
    if ellipsis_mask or new_axis_mask or shrink_axis_mask:
        refuse("npu::npu_indexing", "ellipsis_mask, new_axis_mask or shrink_axis_mask")
    for dim, (first, last, step) in enumerate(zip(begin, end, strides, strict=False)):
        chosen = slice(None if begin_mask >> dim & 1 else first, None if end_mask >> dim & 1 else last, step)
        places = range(x.shape[dim])[chosen]
        x = x.index_select(dim, torch.tensor(list(places), dtype=torch.long, device=x.device))
    return x


def npu_stride_copy(x: torch.Tensor, shape: list[int], stride: list[int], storage_offset: float) -> torch.Tensor:
    return torch.as_strided(x, shape, stride, int(storage_offset)).clone()


def npu_view_copy(x: torch.Tensor, other: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    return x.copy_(other)


def one_(x: torch.Tensor) -> torch.Tensor:
    return x.fill_(1)


def npu_sort_v2(x: torch.Tensor, dim: int = -1, descending: bool = False) -> torch.Tensor:
    """Return the values in order, without their places."""
    return x.sort(dim=dim, descending=descending)[0]


def npu_max(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = x.max(dim, keepdim)
    return values, places.to(torch.int32)


def npu_min(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = x.min(dim, keepdim)
    return values, places.to(torch.int32)


def _extremum_backward(
    grad: torch.Tensor, dim: int, indices: torch.Tensor, sizes: list[int], keepdim: bool
) -> torch.Tensor:
    if not keepdim and len(sizes) > 0:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return torch.zeros(sizes, dtype=grad.dtype, device=grad.device).scatter(dim, indices.long(), grad)


def scatter_update(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> torch.Tensor:
    return scatter_update_(x.clone(), indices, updates, axis)


def scatter_update_(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> torch.Tensor:
    """Put the updates of each batch at its index along `axis`; an index of two columns is (batch, place)."""
    pairs = indices.tolist() if indices.dim() == 2 else list(enumerate(indices.tolist()))
    along = axis % x.dim()
    for row, (batch, place) in enumerate(pairs):
        source = updates[row]
        x[batch].narrow(along - 1, place, source.shape[along - 1]).copy_(source)
    return x


def npu_scatter(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, dim: int) -> torch.Tensor:
    """Return x with x[..., indices] of `dim` set to the updates."""
    return x.scatter(dim, indices.long().unsqueeze(dim), updates.unsqueeze(dim))


def npu_scatter_nd_update(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    return npu_scatter_nd_update_(x.clone(), indices, updates)


def npu_scatter_nd_update_(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """Put updates at the places that the last dimension of `indices` names."""
    places = indices.long().reshape(-1, indices.shape[-1]).unbind(-1)
    return x.index_put_(places, updates.reshape(len(places[0]), *x.shape[len(places) :]))


def _npu_index_add(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, alpha: float = 1) -> torch.Tensor:
    return _npu_index_add_(x.clone(), index, source, alpha)


def _npu_index_add_(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, alpha: float = 1) -> torch.Tensor:
    return x.index_add_(0, index, source, alpha=alpha)


def npu_gather_sparse_index(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return the rows that are named, in the index's shape."""
    return x[index.long()]


def npu_gather_sparse_index_backward(grad: torch.Tensor, self_sizes: list[int], index: torch.Tensor) -> torch.Tensor:
    rows = grad.reshape(-1, *self_sizes[1:])
    return torch.zeros(self_sizes, dtype=grad.dtype, device=grad.device).index_add_(0, index.reshape(-1).long(), rows)


def npu_gather_backward(
    grad: torch.Tensor, self_size: list[int], dim: int, index: torch.Tensor, sparse_grad: bool
) -> torch.Tensor:
    return torch.zeros(self_size, dtype=grad.dtype, device=grad.device).scatter_add(dim, index, grad)


def repeat_interleave_backward(
    grad: torch.Tensor, x: torch.Tensor, repeats: int | torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    return gradient(lambda leaf: torch.repeat_interleave(leaf, repeats, dim), [x], [grad])[0]


def npu_renorm_backward(grad: torch.Tensor, x: torch.Tensor, p: float, dim: int, maxnorm: float) -> torch.Tensor:
    return gradient(lambda leaf: torch.renorm(leaf, p, dim, maxnorm), [x], [grad])[0]


def npu_sign_bits_pack(x: torch.Tensor, size: int) -> torch.Tensor:
    """Return one bit an element, set where it is not negative, eight in a byte from the lowest bit on."""
    bits = functional.pad((x >= 0).reshape(-1).to(torch.uint8), (0, -x.numel() % 8)).reshape(-1, 8)
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=x.device)
    return (bits * weights).sum(-1).to(torch.uint8).reshape(size, -1)


def npu_sign_bits_unpack(x: torch.Tensor, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Return 1 for a bit that is set and -1 for one that is not."""
    shifts = torch.arange(8, device=x.device, dtype=torch.int32)
    bits = x.reshape(-1, 1).to(torch.int32).bitwise_right_shift(shifts).bitwise_and(1)
    return (bits * 2 - 1).to(dtype).reshape(size, -1)


def npu_masked_fill_range(
    x: torch.Tensor, start: torch.Tensor, end: torch.Tensor, value: torch.Tensor, axis: int = -1
) -> torch.Tensor:
    """Return x with ranges along `axis` set to a value; rows of ranges belong to the first dimension, or to all."""
    result, along = x.clone(), axis % x.dim()
    numbers = value.tolist()
    for row, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=False)):
        for batch, (begin, stop) in enumerate(zip(begins, ends, strict=False)):
            part = result if along == 0 or x.dim() == 1 or (x.dim() == 3 and along == 1) else result[batch : batch + 1]
            part.narrow(along, begin, stop - begin).fill_(numbers[row])
    return result


OPERATORS = {
    **{
        function.__name__: function
        for function in (
            *(npu_confusion_transpose, npu_confusion_transpose_backward, npu_transpose, npu_broadcast, npu_reshape),
            *(npu_slice, npu_pad, npu_one_hot, npu_indexing, npu_stride_copy, npu_view_copy, one_, npu_sort_v2),
            *(scatter_update, scatter_update_, npu_scatter, npu_scatter_nd_update, npu_scatter_nd_update_),
            *(_npu_index_add, _npu_index_add_, npu_gather_sparse_index, npu_gather_sparse_index_backward),
            *(npu_gather_backward, npu_renorm_backward, npu_sign_bits_pack, npu_sign_bits_unpack),
            npu_masked_fill_range,
        )
    },
    "npu_slice.out": npu_slice_out,
    "npu_max.dim": npu_max,
    "npu_min.dim": npu_min,
    "npu_max_backward": _extremum_backward,
    "npu_min_backward": _extremum_backward,
    "repeat_interleave_backward_int": repeat_interleave_backward,
    "repeat_interleave_backward_tensor": repeat_interleave_backward,
}
