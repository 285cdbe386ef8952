"""The vendor's operators whose definition is public, composed of torch's own: right in value, not in memory or speed.

Source: torch_npu/_op_plugin_docs.py of the torch-npu 2.13.0 wheel, which gives each formula.
"""

from __future__ import annotations

from typing import NoReturn

import torch

from torchferry.rehearsal import events as _events
from torchferry.rehearsal.driver.references import (
    attend,
    attention_scores,
    below_autocast,
    outside_band,
    refuse,
    rotated,
)

_WHOLE = 2147483647
_LAYOUTS = ("BNSD", "BSND", "BSH", "SBH")


def npu_fusion_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: torch.Tensor | None = None,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _WHOLE,
    next_tockens: int = _WHOLE,
    inner_precise: int = 0,
    prefix: list[int] | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, int, int]:
    """Return Dropout(Softmax(Mask(scale * (pse + query @ key^T)))) @ value and what its backward needs.

    In `atten_mask`, True hides a position. `sparse_mode` 0 and 1 take the mask as it is, which in mode 0 has to hide
    all that `pre_tockens` and `next_tockens` from the upper left do; 2 is causal from the upper left, 3 from the lower
    right, and 4 a band of `pre_tockens` and `next_tockens` from the lower right, each with a compressed mask that only
    has to be there.

    Raises:
        NotImplementedError: an argument that is not rehearsed, or a mask that shows what the numbers of tokens hide.
        RuntimeError: a layout that the operator does not have, or a mask that it needs and did not get.
    """
    if prefix is not None or padding_mask is not None or sink is not None or sparse_mode not in (0, 1, 2, 3, 4):
        _refuse(f"sparse_mode={sparse_mode}, prefix, padding_mask and sink")
    if sparse_mode in (1, 2, 3, 4) and atten_mask is None:
        raise _events.refusal(RuntimeError(f"npu_fusion_attention: sparse_mode {sparse_mode} needs atten_mask"))
    options = (pse, atten_mask, scale, keep_prob, sparse_mode, pre_tockens, next_tockens)
    if input_layout == "TND":
        if actual_seq_qlen is None or actual_seq_kvlen is None:
            raise _events.refusal(
                RuntimeError("npu_fusion_attention: layout TND needs actual_seq_qlen and actual_seq_kvlen")
            )
        return _variable_lengths(query, key, value, actual_seq_qlen, actual_seq_kvlen, options)
    if input_layout not in _LAYOUTS:
        raise _events.refusal(RuntimeError(f"npu_fusion_attention: unknown input_layout {input_layout!r}"))
    heads = [_to_heads(tensor, head_num, input_layout, query) for tensor in (query, key, value)]
    result, largest, total = _attend(*heads, *options)
    return (_from_heads(result, input_layout), largest, total, query.new_empty(0), 0, 0, 0)


def _refuse(what: str) -> NoReturn:
    refuse("torch_npu.npu_fusion_attention", what)


def _to_heads(tensor: torch.Tensor, head_num: int, layout: str, query: torch.Tensor) -> torch.Tensor:
    """Return batch, heads, sequence, width."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    width = query.shape[2] // head_num
    split = tensor.unflatten(2, (-1, width))
    return split.permute(1, 2, 0, 3) if layout == "SBH" else split.transpose(1, 2)


def _from_heads(result: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BNSD":
        return result
    if layout == "BSND":
        return result.transpose(1, 2).contiguous()
    if layout == "SBH":
        return result.permute(2, 0, 1, 3).flatten(2)
    return result.transpose(1, 2).flatten(2)


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pse: torch.Tensor | None,
    atten_mask: torch.Tensor | None,
    scale: float,
    keep_prob: float,
    sparse_mode: int,
    pre_tockens: int,
    next_tockens: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    scores = attention_scores(query, key)
    if pse is not None:
        scores = scores + pse.float()
    scores = scores * scale
    mask = _mask(scores, atten_mask, sparse_mode, pre_tockens, next_tockens)
    result, largest, total = attend(scores, value, mask, keep_prob)
    shape = (*largest.shape[:-1], 8)  # the card returns both in lines of eight equal numbers
    return (
        result.to(query.dtype),
        largest.detach().expand(shape).contiguous(),
        total.detach().expand(shape).contiguous(),
    )


def _mask(
    scores: torch.Tensor, given: torch.Tensor | None, sparse_mode: int, before: int, after: int
) -> torch.Tensor | None:
    rows, columns = scores.shape[-2:]
    if sparse_mode in (0, 1):
        if given is None:
            return None
        limits = sparse_mode == 0 and (before < rows - 1 or after < columns - 1)
        if limits and bool((outside_band(scores, before, after) & ~given.bool()).any()):
            _refuse("an atten_mask that shows what pre_tockens and next_tockens hide (make them agree)")
        return given.bool()
    shift = 0 if sparse_mode == 2 else columns - rows
    return outside_band(scores, before, after, shift) if sparse_mode == 4 else outside_band(scores, None, 0, shift)


def _variable_lengths(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_ends: list[int],
    key_ends: list[int],
    options: tuple[object, ...],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, int, int]:
    if options[0] is not None:
        _refuse("pse in layout TND")
    parts = []
    begins = zip([0, *query_ends], query_ends, [0, *key_ends], key_ends)  # noqa: B905 - the last begin has no end
    for begin, end, key_begin, key_end in begins:
        heads = (query[begin:end], key[key_begin:key_end], value[key_begin:key_end])
        cut = list(options)
        if isinstance(cut[1], torch.Tensor) and cut[4] in (0, 1):
            cut[1] = cut[1][: end - begin, : key_end - key_begin]
        parts.append(_attend(*(part.transpose(0, 1)[None] for part in heads), *cut))
    results, largest, total = (torch.cat([part[place][0].transpose(0, 1) for part in parts]) for place in range(3))
    return results, largest, total, query.new_empty(0), 0, 0, 0


def npu_rms_norm(self: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `self` over its root mean square times `gamma`, and one over that root."""
    dims = tuple(range(-gamma.dim(), 0))
    inverse = torch.rsqrt(self.float().pow(2).mean(dims, keepdim=True) + epsilon)
    return (self.float() * inverse * gamma.float()).to(self.dtype), inverse


def npu_swiglu(self: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return A * sigmoid(A) * B of the two halves of `self` along `dim`."""
    first, second = self.chunk(2, dim)
    return (torch.nn.functional.silu(first.float()) * second.float()).to(self.dtype)


def npu_geglu(
    self: torch.Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return GELU of one half of `self` along `dim` times the other, and that GELU; tanh unless told not to."""
    left, right = self.chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    activated = torch.nn.functional.gelu(gate, approximate="tanh" if approximate else "none")
    return other * activated, activated


def npu_rotary_mul(
    input: torch.Tensor,  # noqa: A002 - the vendor's name
    r1: torch.Tensor,
    r2: torch.Tensor,
    rotary_mode: str = "half",
    rotate: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `r1 * input + r2 * turned`, where `turned` is `input` rotated by a quarter."""
    return rotated(input, r1, r2, rotary_mode, rotate)


def npu_format_cast(self: torch.Tensor, acl_format: int, **_: object) -> torch.Tensor:
    """Return `self`: formats are about where numbers lie in the card's memory."""
    return self


OPERATORS = {
    function.__name__: below_autocast(function)
    for function in (npu_fusion_attention, npu_rms_norm, npu_swiglu, npu_geglu, npu_rotary_mul, npu_format_cast)
}
"""The operators that can be rehearsed, by name."""
