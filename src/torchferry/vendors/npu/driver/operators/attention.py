"""Attention of the plugin's own beside npu_fusion_attention: its gradients, for inference, and what joins parts of it.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu (npu_fusion_attention, _v3,
npu_prompt_flash_attention, npu_incre_flash_attention, npu_fused_infer_attention_score, npu_attention_update) and the
expected values of test/test_custom_ops/test_npu_ring_attention_update.py and test_npu_attention_update.py there.
"""

from __future__ import annotations

import torch

from torchferry.rehearsal.driver.references import attend, attention_scores, gradient, outside_band, refuse

_WHOLE = 2147483647
_NO_ROOM = 0


def npu_fusion_attention_v2(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: torch.Tensor | None = None,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    query_rope: torch.Tensor | None = None,
    key_rope: torch.Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tokens: int = _WHOLE,
    next_tokens: int = _WHOLE,
    inner_precise: int = 0,
    prefix: list[int] | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    pse_type: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, int, int]:
    """Return what npu_fusion_attention does; pse_type 1 scales the sum with `pse`, 0 adds it to what is scaled."""
    if query_rope is not None or key_rope is not None or (pse is not None and pse_type not in (0, 1)):
        refuse("npu::npu_fusion_attention_v2", "query_rope, key_rope or an inner pse")
    if pse is not None and pse_type == 0:
        pse = pse / scale
    return torch.ops.npu.npu_fusion_attention(
        *(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob),
        *(pre_tokens, next_tokens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode),
        *(gen_mask_parallel, sync),
    )


def npu_fusion_attention_v3(
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
    actual_seq_qlen: torch.Tensor | None = None,
    actual_seq_kvlen: torch.Tensor | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return what npu_fusion_attention does; lengths, seed and offset are tensors."""
    lengths = [None if each is None else each.tolist() for each in (actual_seq_qlen, actual_seq_kvlen)]
    results = torch.ops.npu.npu_fusion_attention(
        *(query, key, value, head_num, input_layout, pse, padding_mask, atten_mask, scale, keep_prob),
        *(pre_tockens, next_tockens, inner_precise, prefix, *lengths, sparse_mode, gen_mask_parallel, sync),
    )
    numbers = (torch.tensor(number, dtype=torch.int64) for number in results[4:6])
    return (*results[:4], *numbers)


def npu_fusion_attention_grad(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dy: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: torch.Tensor | None = None,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    softmax_max: torch.Tensor | None = None,
    softmax_sum: torch.Tensor | None = None,
    softmax_in: torch.Tensor | None = None,
    attention_in: torch.Tensor | None = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = _WHOLE,
    next_tockens: int = _WHOLE,
    inner_precise: int = 0,
    seed: int = 0,
    offset: int = 0,
    numels: int = 0,
    prefix: list[int] | None = None,
    actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients for query, key, value and pse; what dropout drew is not known here."""
    if keep_prob < 1.0:
        refuse("npu::npu_fusion_attention_grad", f"keep_prob={keep_prob}")

    def forward(*leaves: torch.Tensor | None) -> torch.Tensor:
        results = torch.ops.npu.npu_fusion_attention(
            *(*leaves[:3], head_num, input_layout, leaves[3], padding_mask, atten_mask, scale_value, keep_prob),
            *(pre_tockens, next_tockens, inner_precise, prefix, actual_seq_qlen, actual_seq_kvlen, sparse_mode),
            *(gen_mask_parallel, sync),
        )
        return results[0]

    derived = gradient(forward, [query, key, value, pse], [dy])
    return (*(query.new_empty(0) if part is None else part for part in derived), query.new_empty(0))


# --- inference: no gradients, no dropout ---


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    hidden: torch.Tensor,
    pse: torch.Tensor | None,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Softmax(scale * query @ key^T + pse) @ value and the logarithm of the softmax's sum, of heads.

    A row that sees nothing gets zeros.
    """
    scores = attention_scores(query, key) * scale
    scores = scores if pse is None else scores + pse.float()[..., : scores.shape[-2], : scores.shape[-1]]
    if key.shape[2] == 0:
        return torch.zeros_like(query), scores.new_full((*scores.shape[:-1], 1), -torch.inf)
    result, largest, total = attend(scores, value, hidden)
    blind = hidden.all(-1, keepdim=True)
    return result.masked_fill(blind, 0).to(query.dtype), (largest + total.log()).masked_fill(blind, -torch.inf)


_LAYOUTS = {"BSH": "BSH", "BSND": "BSND", "BNSD": "BNSD", "BNSD_BSND": "BSND"}
"""Layouts of the inputs, and of the result."""


def _heads(tensor: torch.Tensor, heads: int, layout: str) -> torch.Tensor:
    """Return batch, heads, sequence, width."""
    if layout.startswith("BNSD"):
        return tensor
    return (tensor.unflatten(2, (heads, -1)) if layout == "BSH" else tensor).transpose(1, 2)


_COMPRESSED = (2048, 2048)


def _counts(lengths: list[int] | None, whole: int, batch: int, device: torch.device) -> torch.Tensor:
    """Return how much of a sequence counts, for each of a batch: one length is that of all, too many are cut."""
    numbers = list(lengths)[:batch] if lengths else [whole]
    return torch.tensor(numbers * (batch if len(numbers) == 1 else 1), device=device).reshape(-1, 1, 1, 1)


def _of_batches(mask: torch.Tensor, batch: int, rows: int) -> torch.Tensor:
    """Return a mask as batch, heads, queries, keys: without heads it may have a batch, which of one query is all."""
    if mask.dim() == 2 and rows == 1 and mask.shape[0] == batch:
        return mask[:, None, None]
    return mask[:, None] if mask.dim() == 3 else mask


def _infer(
    operator: str,
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    heads: int,
    key_heads: int,
    layout: str,
    masks: tuple[torch.Tensor | None, torch.Tensor | None],
    lengths: tuple[list[int] | None, list[int] | None],
    scale: float,
    sparse: tuple[int, int, int],
) -> tuple[torch.Tensor, torch.Tensor]:
    if layout not in _LAYOUTS:
        refuse(operator, f"input_layout={layout}")
    mode, before, after = sparse
    if mode not in (0, 1, 2, 3, 4):
        refuse(operator, f"sparse_mode={mode}")
    pse, mask = masks
    if mode in (2, 3, 4) and (mask is None or tuple(mask.shape[-2:]) != _COMPRESSED):
        raise RuntimeError(f"{operator}: sparse_mode {mode} needs the compressed atten_mask of 2048 x 2048")
    query, *others = tensors
    query = _heads(query, heads, layout)
    key, value = (_heads(tensor, key_heads or heads, layout) for tensor in others)
    batch, _, rows, _ = query.shape
    columns = key.shape[2]
    query_counts = _counts(lengths[0], rows, batch, query.device)
    key_counts = _counts(lengths[1], columns, batch, query.device)
    hidden = torch.arange(rows, device=query.device)[:, None] >= query_counts
    hidden = hidden | (torch.arange(columns, device=query.device) >= key_counts)
    shift = key_counts - query_counts if mode in (3, 4) else 0
    if mode in (0, 1) and mask is not None:
        hidden = hidden | _of_batches(mask.bool(), batch, rows)[..., :rows, :columns]
    if mode in (2, 3):
        hidden = hidden | outside_band(hidden, None, 0, shift)
    elif mode == 4 or (mode == 0 and mask is not None):
        hidden = hidden | outside_band(hidden, before, after, shift)
    result, together = _attend(query, key, value, hidden, pse, scale)
    if layout == "BNSD":
        return result, together
    result = result.transpose(1, 2)
    return (result.flatten(2) if layout == "BSH" else result.contiguous()), together


def npu_prompt_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    pse_shift: torch.Tensor | None = None,
    actual_seq_lengths: list[int] | None = None,
    deq_scale1: torch.Tensor | None = None,
    quant_scale1: torch.Tensor | None = None,
    deq_scale2: torch.Tensor | None = None,
    quant_scale2: torch.Tensor | None = None,
    quant_offset2: torch.Tensor | None = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    pre_tokens: int = _WHOLE,
    next_tokens: int = _NO_ROOM,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    actual_seq_lengths_kv: list[int] | None = None,
    sparse_mode: int = 0,
) -> torch.Tensor:
    """Return the attention of a whole prompt; what is quantised is refused."""
    if any(
        each is not None for each in (padding_mask, deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2)
    ):
        refuse("npu::npu_prompt_flash_attention", "padding_mask or quantisation")
    return _infer(
        "npu::npu_prompt_flash_attention",
        (query, key, value),
        num_heads,
        num_key_value_heads,
        input_layout,
        (pse_shift, atten_mask),
        (actual_seq_lengths, actual_seq_lengths_kv),
        scale_value,
        (sparse_mode, pre_tokens, next_tokens),
    )[0]


def npu_incre_flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    pse_shift: torch.Tensor | None = None,
    actual_seq_lengths: list[int] | None = None,
    antiquant_scale: torch.Tensor | None = None,
    antiquant_offset: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    dequant_scale1: torch.Tensor | None = None,
    quant_scale1: torch.Tensor | None = None,
    dequant_scale2: torch.Tensor | None = None,
    quant_scale2: torch.Tensor | None = None,
    quant_offset2: torch.Tensor | None = None,
    kv_padding_size: torch.Tensor | None = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    block_size: int = 0,
    inner_precise: int = 1,
) -> torch.Tensor:
    """Return the attention of one new token for all before it; `actual_seq_lengths` are those of keys and values."""
    quantised = (
        antiquant_scale,
        antiquant_offset,
        dequant_scale1,
        quant_scale1,
        dequant_scale2,
        quant_scale2,
        quant_offset2,
    )
    if any(each is not None for each in (*quantised, padding_mask, block_table, kv_padding_size)):
        refuse("npu::npu_incre_flash_attention", "pages, padding or quantisation")
    return _infer(
        "npu::npu_incre_flash_attention",
        (query, key, value),
        num_heads,
        num_key_value_heads,
        input_layout,
        (pse_shift, atten_mask),
        (None, actual_seq_lengths),
        scale_value,
        (0, _WHOLE, _WHOLE),
    )[0]


def npu_fused_infer_attention_score(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention of either kind and, where it is requested, the logarithm of the softmax's sum."""
    query, key, value, pse, mask, lengths, key_lengths, *rest = arguments
    others, settings = rest[:20], rest[20:]
    if any(each is not None for each in others) or settings[7] != 0:
        refuse("npu::npu_fused_infer_attention_score", "pages, prefixes, rope or quantisation")
    heads, scale, before, after, layout, key_heads, mode = settings[:7]
    if query.shape[2 if layout.startswith("BNSD") else 1] == 1 and mode in (0, 2, 3, 4):
        # Of one query, without rope, neither the mode nor the numbers of tokens mean anything: mode 1 reads its mask.
        compressed = mode != 0 and mask is not None and tuple(mask.shape[-2:]) == _COMPRESSED
        mask, mode = None if compressed else mask, 1
    result, together = _infer(
        "npu::npu_fused_infer_attention_score",
        (query, key, value),
        heads,
        key_heads,
        layout,
        (pse, mask),
        (lengths, key_lengths),
        scale,
        (mode, before, after),
    )
    return result, together if settings[-1] else query.new_zeros(1, dtype=torch.float32)


# --- parts that were computed apart ---


def npu_ring_attention_update(
    prev_attn_out: torch.Tensor,
    prev_softmax_max: torch.Tensor,
    prev_softmax_sum: torch.Tensor,
    cur_attn_out: torch.Tensor,
    cur_softmax_max: torch.Tensor,
    cur_softmax_sum: torch.Tensor,
    actual_seq_qlen: torch.Tensor | None = None,
    input_layout: str = "SBH",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the attention, largest score and sum of two parts of the keys together; maxima and sums are B, N, S, 8."""
    if input_layout != "SBH":
        refuse("npu::npu_ring_attention_update", f"input_layout={input_layout}")
    largest = torch.maximum(prev_softmax_max, cur_softmax_max)
    before = prev_softmax_sum * (prev_softmax_max - largest).exp()
    now = cur_softmax_sum * (cur_softmax_max - largest).exp()
    total = before + now

    def weighed(part: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        weights = (share / total)[..., 0].permute(2, 0, 1)  # S, B, N
        return (part.float().unflatten(2, (weights.shape[2], -1)) * weights.unsqueeze(-1)).flatten(2)

    result = weighed(prev_attn_out, before) + weighed(cur_attn_out, now)
    return result.to(prev_attn_out.dtype), largest, total


def npu_attention_update(
    lse: list[torch.Tensor], local_out: list[torch.Tensor], update_type: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of the parts weighed by exp(lse_i - lse), and lse, the logarithm of the sum of all exp(lse_i)."""
    together = torch.logsumexp(torch.stack(list(lse)), 0)
    parts = [part.float() * (each - together).exp().unsqueeze(-1) for part, each in zip(local_out, lse, strict=False)]
    return sum(parts).to(local_out[0].dtype), together if update_type else together.new_empty(0)


OPERATORS = {
    function.__name__: function
    for function in (
        *(npu_fusion_attention_v2, npu_fusion_attention_v3, npu_fusion_attention_grad),
        *(npu_prompt_flash_attention, npu_incre_flash_attention, npu_fused_infer_attention_score),
        *(npu_ring_attention_update, npu_attention_update),
    )
}
