"""Routing of tokens to experts: gating, permutations and their way back, with gradients.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu (npu_moe_*) and the expected values of
test/test_custom_ops/test_npu_moe_*.py there.
"""

from __future__ import annotations

import torch

from torchferry.rehearsal.driver.references import gradient, refuse


def _largest(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest of each row; of equal ones the first."""
    places = scores.argsort(dim=-1, descending=True, stable=True)[..., :k]
    return scores.gather(-1, places), places


def npu_moe_gating_top_k_softmax(
    x: torch.Tensor, finished: torch.Tensor | None = None, k: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the k largest of softmax(x), their experts, and rows counted down the columns; finished rows get none."""
    values, experts = _largest(torch.softmax(x.float(), -1), k)
    if finished is not None:
        experts = experts.masked_fill(finished.bool().unsqueeze(-1), x.shape[-1])
    count = values.numel() // k
    rows = torch.arange(values.numel(), device=x.device).reshape(k, count).t().reshape(values.shape)
    return values.to(x.dtype), experts.int(), rows.int().contiguous()


def npu_moe_gating_top_k_softmax_v2(
    x: torch.Tensor,
    k: int = 1,
    finished: torch.Tensor | None = None,
    renorm: int | None = 0,
    output_softmax: bool | None = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the k largest of softmax(x), or softmax of the k largest (`renorm`), their experts, and the softmax."""
    if renorm:
        values, experts = _largest(x.float(), k)
        values, whole = torch.softmax(values, -1), None
    else:
        whole = torch.softmax(x.float(), -1)
        values, experts = _largest(whole, k)
    if finished is not None:
        experts = experts.masked_fill(finished.bool().unsqueeze(-1), x.shape[-1])
    shown = whole if output_softmax and whole is not None else x.new_empty(0, dtype=torch.float32)
    return values.to(x.dtype), experts.int(), shown


def npu_moe_gating_top_k(
    x: torch.Tensor,
    k: int,
    bias: torch.Tensor | None = None,
    input_ids: torch.Tensor | None = None,
    tid2eid: torch.Tensor | None = None,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the weights and experts of the best k, of the best groups; the bias chooses and does not weigh."""
    if renorm:
        refuse("npu::npu_moe_gating_top_k", f"renorm={renorm} (the operator has renorm=0 only)")
    if input_ids is not None or tid2eid is not None or norm_type not in (0, 1):
        refuse("npu::npu_moe_gating_top_k", f"input_ids, tid2eid or norm_type={norm_type}")
    scores = torch.softmax(x.float(), -1) if norm_type == 0 else torch.sigmoid(x.float())
    choosing = scores if bias is None else scores + bias.float()
    if group_count > 1:
        groups = choosing.unflatten(-1, (group_count, -1))
        worth = groups.amax(-1) if group_select_mode == 0 else groups.topk(2, -1)[0].sum(-1)
        chosen = torch.zeros_like(worth, dtype=torch.bool).scatter(-1, _largest(worth, k_group)[1], True)
        choosing = groups.masked_fill(~chosen.unsqueeze(-1), -torch.inf).flatten(-2)
    experts = _largest(choosing, k)[1]
    weights = scores.gather(-1, experts)
    if norm_type == 1:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    shown = scores if out_flag else x.new_empty(0, dtype=torch.float32)
    return (weights * routed_scaling_factor).to(x.dtype), experts.int(), shown


def npu_moe_init_routing(
    x: torch.Tensor, row_idx: torch.Tensor, expert_idx: torch.Tensor, active_num: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the rows in the order of their experts, where each went, and the experts in order."""
    experts, order = expert_idx.reshape(-1).sort(stable=True)
    sources = row_idx.reshape(-1).long()[order]
    targets = torch.empty_like(sources).scatter_(0, sources, torch.arange(len(sources), device=x.device))
    count = min(active_num, x.shape[0]) * expert_idx.shape[-1]
    return x[sources[:count] % x.shape[0]], targets.int(), experts.int()


def npu_moe_compute_expert_tokens(sorted_experts: torch.Tensor, num_expert: int) -> torch.Tensor:
    """Return where the rows of each expert end."""
    experts = torch.arange(num_expert, dtype=sorted_experts.dtype, device=sorted_experts.device)
    return torch.searchsorted(sorted_experts.contiguous(), experts, right=True).int()


def npu_moe_finalize_routing(
    expanded_permuted_rows: torch.Tensor,
    skip1: torch.Tensor | None,
    skip2: torch.Tensor | None,
    bias: torch.Tensor | None,
    scales: torch.Tensor | None,
    expanded_src_to_dst_row: torch.Tensor,
    export_for_source_row: torch.Tensor | None,
    drop_pad_mode: int | None = 0,
) -> torch.Tensor:
    """Return skip1 + skip2 + the sum over a token's experts of scale * (row + the expert's bias)."""
    if drop_pad_mode not in (None, 0, 1):
        refuse("npu::npu_moe_finalize_routing", f"drop_pad_mode={drop_pad_mode}")
    width = expanded_permuted_rows.shape[-1]
    rows = expanded_permuted_rows.reshape(-1, width)
    k = 1 if scales is None else scales.shape[1]
    places = expanded_src_to_dst_row.long().reshape(k, -1).t()
    parts = rows[places.clamp(min=0)].masked_fill((places < 0).unsqueeze(-1), 0)
    if bias is not None and export_for_source_row is not None:
        parts = parts + bias[export_for_source_row.long().reshape(places.shape)]
    parts = parts if scales is None else parts * scales.unsqueeze(-1)
    total = parts.sum(1)
    for skip in (skip1, skip2):
        total = total if skip is None else total + skip
    return total.to(expanded_permuted_rows.dtype)


def npu_moe_token_permute(
    tokens: torch.Tensor, indices: torch.Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens in the order of their experts, and where each went."""
    if padded_mode:
        refuse("npu::npu_moe_token_permute", "padded_mode")
    flat = indices.reshape(-1)
    order = flat.argsort(stable=True)
    places = order.argsort(stable=True)
    count = len(flat) if not num_out_tokens else num_out_tokens if num_out_tokens > 0 else len(flat) + num_out_tokens
    return tokens[order[:count] // (1 if indices.dim() == 1 else indices.shape[1])], places.int()


def npu_moe_token_permute_grad_v2(
    grad: torch.Tensor,
    sorted_indices: torch.Tensor,
    rows: int,
    dtype: torch.dtype,
    topk: int,
    padded_mode: bool = False,
) -> torch.Tensor:
    """Return for each token the sum over where it went."""
    parts = _gathered(grad, sorted_indices)
    return parts.reshape(rows, topk, grad.shape[-1]).float().sum(1).to(dtype)


def npu_moe_token_permute_grad(
    tokens: torch.Tensor,
    grad: torch.Tensor,
    indices: torch.Tensor,
    sorted_indices: torch.Tensor,
    padded_mode: bool = False,
) -> torch.Tensor:
    topk = 1 if indices.dim() == 1 else indices.shape[1]
    return npu_moe_token_permute_grad_v2(grad, sorted_indices, tokens.shape[0], tokens.dtype, topk, padded_mode)


def _gathered(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the rows at the places, zeros for a place that was dropped."""
    places = places.reshape(-1).long()
    return rows[places.clamp(max=rows.shape[0] - 1)].masked_fill((places >= rows.shape[0]).unsqueeze(-1), 0)


def npu_moe_token_unpermute(
    permuted_tokens: torch.Tensor,
    sorted_indices: torch.Tensor,
    probs: torch.Tensor | None = None,
    padded_mode: bool = False,
) -> torch.Tensor:
    """Return for each token the sum over its experts, weighed by `probs`."""
    if padded_mode:
        refuse("npu::npu_moe_token_unpermute", "padded_mode")
    topk = 1 if probs is None else probs.shape[1]
    parts = _gathered(permuted_tokens, sorted_indices).reshape(-1, topk, permuted_tokens.shape[-1])
    return (parts if probs is None else parts * probs.unsqueeze(-1)).sum(1).to(permuted_tokens.dtype)


def _unpermuted_and_its_input(
    permuted_tokens: torch.Tensor,
    sorted_indices: torch.Tensor,
    probs: torch.Tensor | None = None,
    padded_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    return npu_moe_token_unpermute(permuted_tokens, sorted_indices, probs, padded_mode), permuted_tokens.clone()


def npu_moe_token_unpermute_grad(
    permuted_tokens: torch.Tensor,
    grad: torch.Tensor,
    sorted_indices: torch.Tensor,
    probs: torch.Tensor | None = None,
    padded_mode: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    def forward(tokens: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
        return npu_moe_token_unpermute(tokens, sorted_indices, weights, padded_mode)

    derived = gradient(forward, [permuted_tokens, probs], [grad])
    return derived[0], permuted_tokens.new_empty(0) if probs is None else derived[1]


def npu_moe_token_permute_with_routing_map(
    tokens: torch.Tensor,
    routing_map: torch.Tensor,
    probs: torch.Tensor | None = None,
    num_out_tokens: int | None = None,
    drop_and_pad: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Return for each expert the tokens that its column of the map names, their probabilities, and where each went."""
    if drop_and_pad:
        refuse("npu::npu_moe_token_permute_with_routing_map", "drop_and_pad")
    chosen = routing_map.bool().t().contiguous()
    rows = torch.arange(tokens.shape[0], device=tokens.device).expand(chosen.shape[0], -1).masked_select(chosen)
    weights = tokens.new_empty(0) if probs is None else probs.t().masked_select(chosen)
    return tokens.index_select(0, rows), weights, rows.argsort(stable=True).int()


OPERATORS = {
    **{
        function.__name__: function
        for function in (
            *(npu_moe_gating_top_k_softmax, npu_moe_gating_top_k_softmax_v2, npu_moe_gating_top_k),
            *(npu_moe_init_routing, npu_moe_compute_expert_tokens, npu_moe_finalize_routing),
            *(npu_moe_token_permute, npu_moe_token_permute_grad, npu_moe_token_permute_grad_v2),
            *(npu_moe_token_unpermute, npu_moe_token_unpermute_grad, npu_moe_token_permute_with_routing_map),
        )
    },
    "_npu_moe_token_unpermute": _unpermuted_and_its_input,
}
