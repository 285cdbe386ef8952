"""Activations, softmax, dropout and losses of the plugin's own, with their gradients.

Source of each formula: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu and what is expected in
test/test_base_ops and test/test_custom_ops there; `fast_gelu`: torch_npu/_op_plugin_docs.py of the 2.13.0 wheel.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from torchferry.rehearsal.driver.references import gradient, refuse, rotated


def fast_gelu(x: torch.Tensor) -> torch.Tensor:
    """Return x * exp(0.851 * (x - |x|)) / (1 + exp(-1.702 * |x|)), which is x * sigmoid(1.702 * x)."""
    return x * torch.sigmoid(1.702 * x)


def npu_fast_gelu_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient(fast_gelu, [x], [grad])[0]


def npu_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return functional.gelu(x, approximate=approximate)


def npu_gelu_backward(grad: torch.Tensor, x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return gradient(lambda leaf: functional.gelu(leaf, approximate=approximate), [x], [grad])[0]


def npu_gelu_mul(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GELU of the first half of the last dimension times the second."""
    first, second = x.chunk(2, -1)
    return functional.gelu(first, approximate=approximate) * second


def npu_silu(x: torch.Tensor) -> torch.Tensor:
    return functional.silu(x)


def npu_silu_(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(functional.silu(x))


def npu_silu_backward(grad: torch.Tensor, x: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    return gradient(functional.silu, [x], [grad])[0]


def npu_mish(x: torch.Tensor) -> torch.Tensor:
    """Return x * tanh(softplus(x))."""
    return x * torch.tanh(functional.softplus(x))


def npu_mish_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient(npu_mish, [x], [grad])[0]


def npu_swiglu_backward(grad: torch.Tensor, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return gradient(lambda leaf: torch.ops.npu.npu_swiglu(leaf, dim), [x], [grad])[0]


def npu_geglu_grad(
    grad: torch.Tensor,
    x: torch.Tensor,
    gelu: torch.Tensor,
    dim: int = -1,
    approximate: int = 1,
    activate_left: bool = False,
) -> torch.Tensor:
    """Return the gradient of GELU of one half times the other."""
    return gradient(lambda leaf: torch.ops.npu.npu_geglu(leaf, dim, approximate, activate_left)[0], [x], [grad])[0]


def npu_clipped_swiglu(
    x: torch.Tensor,
    group_index: torch.Tensor | None = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> torch.Tensor:
    """Return g * sigmoid(alpha * g) * (l + bias), g clipped from above and l from both sides; zeros follow."""
    rows = x.flatten(dim)
    rows = rows.reshape(-1, rows.shape[-1])
    count = rows.shape[0] if group_index is None else min(int(group_index.sum()), rows.shape[0])
    used = rows[:count].float()
    gate, linear = (used[:, ::2], used[:, 1::2]) if interleaved else used.chunk(2, -1)
    gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    part = (gate * torch.sigmoid(alpha * gate) * (linear + bias)).to(x.dtype)
    result = torch.cat([part, part.new_zeros(rows.shape[0] - count, part.shape[1])])
    shape = list(x.shape)
    shape[dim] //= 2
    return result.reshape(shape)


def npu_rotary_mul_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    r1: torch.Tensor,
    r2: torch.Tensor,
    rotary_mode: str = "half",
    rotate: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    return gradient(lambda *leaves: rotated(*leaves, rotary_mode, rotate), [x, r1, r2], [grad])


def npu_apply_rotary_pos_emb(
    query: torch.Tensor,
    key: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both with x * cos + turned(x) * sin; the operator writes them in place as well."""
    for tensor in (query, key):
        tensor.copy_(rotated(tensor, cos, sin, rotary_mode))
    return query.clone(), key.clone()


def npu_interleave_rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return the rotation of x with its even elements first and its odd ones behind them."""
    return rotated(torch.cat((x[..., ::2], x[..., 1::2]), -1), cos, sin, "half")


_TRIU = "fixed_triu_mask=True (the operator has False only: pass the mask)"


def npu_scaled_masked_softmax(
    x: torch.Tensor, mask: torch.Tensor, scale: float = 1, fixed_triu_mask: bool = False
) -> torch.Tensor:
    """Return Softmax(scale * x) where the mask is False; hidden positions get -10000 before the softmax."""
    if fixed_triu_mask:
        refuse("npu::npu_scaled_masked_softmax", _TRIU)
    return torch.softmax((x.float() * scale).masked_fill(mask.bool(), -10000.0), -1).to(x.dtype)


def npu_scaled_masked_softmax_backward(
    grad: torch.Tensor, y: torch.Tensor, mask: torch.Tensor, scale: float, fixed_triu_mask: bool
) -> torch.Tensor:
    """Return scale * y * (grad - sum(grad * y)), zero where hidden."""
    if fixed_triu_mask:
        refuse("npu::npu_scaled_masked_softmax_backward", _TRIU)
    wide, result = grad.float(), y.float()
    derived = result * (wide - (wide * result).sum(-1, keepdim=True)) * scale
    return derived.masked_fill(mask.bool(), 0.0).to(grad.dtype)


def npu_masked_softmax_with_rel_pos_bias(
    x: torch.Tensor,
    atten_mask: torch.Tensor | None,
    relative_pos_bias: torch.Tensor,
    scale_value: float = 1.0,
    inner_precision_mode: int = 0,
) -> torch.Tensor:
    """Return Softmax(x * scale + mask + bias)."""
    scores = x.float() * scale_value + relative_pos_bias.float()
    return torch.softmax(scores if atten_mask is None else scores + atten_mask.float(), -1).to(x.dtype)


def npu_attn_softmax_(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(torch.softmax(x.float(), -1))


def npu_attn_softmax_backward_(x: torch.Tensor, grad_output: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return y * (d - sum(d * y)) with d = grad @ values^T; `x` holds the softmax y and gets the result."""
    derived = grad_output.float() @ values.float().transpose(-1, -2)
    result = x.float()
    return x.copy_(result * (derived - (derived * result).sum(-1, keepdim=True)))


def _drawn_mask(x: torch.Tensor, p: float) -> torch.Tensor:
    return torch.bernoulli(torch.full_like(x, 1 - p, dtype=torch.float32)).to(torch.uint8)


def _dropout_with_byte_mask(x: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x with a share of `p` zeroed and the rest over 1 - p, and one byte an element that says which."""
    mask = _drawn_mask(x, p)
    return (x * mask / (1 - p)).to(x.dtype) if p < 1 else x * 0, mask


def _dropout_with_byte_mask_backward(grad: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    return (grad * mask / (1 - p)).to(grad.dtype) if p < 1 else grad * 0


def dropout_with_byte_mask(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return _dropout_with_byte_mask(x, p)[0] if train else x


_MASK_BITS = 128
"""The mask of `_npu_dropout` has a bit an element, filled up to a multiple of these, in bytes.

Source: op_plugin/ops/opapi/NativeDropoutKernelNpuOpApi.cpp. The order of the bits in a byte is not documented:
the least significant first fits the example on the operator's page, whose mask begins with 98 for 0, 1, 0, 0.
"""


def _packed(mask: torch.Tensor) -> torch.Tensor:
    bits = functional.pad(mask.reshape(-1), (0, -mask.numel() % _MASK_BITS)).reshape(-1, 8)
    return (bits << torch.arange(8, dtype=torch.uint8, device=mask.device)).sum(-1).to(torch.uint8)


def _unpacked(mask: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    bits = mask.unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8, device=mask.device) & 1
    return bits.reshape(-1)[: like.numel()].reshape(like.shape)


def _npu_dropout(x: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x with a share of `p` zeroed and the rest over 1 - p, and one bit an element that says which."""
    result, mask = _dropout_with_byte_mask(x, p)
    return result, _packed(mask)


def npu_dropout_backward(grad: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    return _dropout_with_byte_mask_backward(grad, _unpacked(mask, grad), p)


def npu_dropout_with_add_softmax(
    x: torch.Tensor, x1: torch.Tensor, alpha: float, prob: float, dim: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a mask, Softmax(x * alpha + x1), and that with a share of `prob` dropped."""
    result = torch.softmax((x * alpha + x1).float(), dim).to(x.dtype)
    mask = _drawn_mask(result, prob)
    return mask, result, (result * mask / (1 - prob)).to(x.dtype)


def npu_dropout_with_add_softmax_backward(
    grad: torch.Tensor, mask: torch.Tensor, softmax_out: torch.Tensor, alpha: float, prob: float, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    derived = (grad * mask / (1 - prob)).float()
    result = softmax_out.float()
    inner = (result * (derived - (derived * result).sum(dim, keepdim=True))).to(grad.dtype)
    return inner * alpha, inner


def npu_softmax_cross_entropy_with_logits(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -sum(labels * log_softmax(x)) of each row."""
    return -(labels * torch.log_softmax(x.float(), -1)).sum(-1).to(x.dtype)


def npu_softmax_cross_entropy_with_logits_backward(
    grad: torch.Tensor, x: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    return gradient(lambda leaf: npu_softmax_cross_entropy_with_logits(leaf, labels), [x], [grad])[0]


def npu_cross_entropy_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cross entropy and log_softmax(x); the Z loss, whose place is empty, cannot be asked for."""
    if return_zloss or lse_square_scale_for_zloss:
        refuse("npu::npu_cross_entropy_loss", "a Z loss")
    logarithms = torch.log_softmax(x.float(), -1)
    loss = functional.cross_entropy(
        x.float(), target, weight, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    )
    shape = loss.reshape(-1).to(x.dtype)
    return shape, logarithms.to(x.dtype), x.new_empty(0, dtype=torch.float32), x.new_empty(0, dtype=torch.float32)


def npu_cross_entropy_loss_backward(
    grad_loss: torch.Tensor,
    log_prob: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    grad_zloss: torch.Tensor | None = None,
    lse_for_zloss: torch.Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Return the gradient for x; log_softmax(x) represents x, which differs from it by a number of each row."""

    def forward(leaf: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(
            leaf.float(),
            target,
            weight,
            reduction=reduction,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )

    return gradient(forward, [log_prob], [grad_loss])[0]


def _reduced(loss: torch.Tensor, reduction: int) -> torch.Tensor:
    return (loss, loss.mean(), loss.sum())[reduction] if reduction else loss


def npu_binary_cross_entropy_with_logits_backward(
    grad_output: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    pos_weight: torch.Tensor | None,
    reduction: int,
) -> torch.Tensor:
    def forward(leaf: torch.Tensor) -> torch.Tensor:
        loss = functional.binary_cross_entropy_with_logits(
            leaf, target, weight, reduction="none", pos_weight=pos_weight
        )
        return _reduced(loss, reduction)

    return gradient(forward, [x], [grad_output.expand_as(x) if reduction == 0 else grad_output])[0]


def l1_loss_backward(grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int) -> torch.Tensor:
    return gradient(lambda leaf: _reduced((leaf - target).abs(), reduction), [x], [grad])[0]


def _divergence(x: torch.Tensor, target: torch.Tensor, reduction: int, log_target: bool) -> torch.Tensor:
    loss = functional.kl_div(x, target, reduction="none", log_target=log_target)
    return _reduced(loss, reduction)


def kl_div_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int = 1, log_target: bool = False
) -> torch.Tensor:
    return gradient(lambda leaf: _divergence(leaf, target, reduction, log_target), [x], [grad])[0]


def kl_div_target_backward(
    grad: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int = 1, log_target: bool = False
) -> torch.Tensor:
    return gradient(lambda leaf: _divergence(x, leaf, reduction, log_target), [target], [grad])[0]


def npu_top_k_top_p(logits: torch.Tensor, p: torch.Tensor | None = None, k: torch.Tensor | None = None) -> torch.Tensor:
    """Return logits with -inf for all but the k largest, and but those that hold a probability of p together."""
    ordered, places = logits.sort(-1)
    if k is not None:
        least = ordered.gather(-1, (logits.shape[-1] - k.long()).unsqueeze(-1))
        ordered = ordered.masked_fill(ordered < least, -torch.inf)
    if p is not None:
        together = ordered.float().softmax(-1).cumsum(-1)
        hidden = together <= 1 - p.float().unsqueeze(-1)
        hidden[..., -1] = False
        ordered = ordered.masked_fill(hidden, -torch.inf)
    return torch.empty_like(logits).scatter_(-1, places, ordered)


OPERATORS = {
    function.__name__: function
    for function in (
        *(fast_gelu, npu_fast_gelu_backward, npu_gelu, npu_gelu_backward, npu_gelu_mul),
        *(npu_silu, npu_silu_, npu_silu_backward, npu_mish, npu_mish_backward),
        *(npu_swiglu_backward, npu_geglu_grad, npu_clipped_swiglu),
        *(npu_rotary_mul_backward, npu_apply_rotary_pos_emb, npu_interleave_rope),
        *(npu_scaled_masked_softmax, npu_scaled_masked_softmax_backward, npu_masked_softmax_with_rel_pos_bias),
        *(npu_attn_softmax_, npu_attn_softmax_backward_),
        *(_dropout_with_byte_mask, _dropout_with_byte_mask_backward, dropout_with_byte_mask),
        *(_npu_dropout, npu_dropout_backward, npu_dropout_with_add_softmax, npu_dropout_with_add_softmax_backward),
        *(npu_softmax_cross_entropy_with_logits, npu_softmax_cross_entropy_with_logits_backward),
        *(npu_cross_entropy_loss, npu_cross_entropy_loss_backward, npu_binary_cross_entropy_with_logits_backward),
        *(l1_loss_backward, kl_div_backward, kl_div_target_backward, npu_top_k_top_p),
    )
} | {"npu_fast_gelu": fast_gelu}
