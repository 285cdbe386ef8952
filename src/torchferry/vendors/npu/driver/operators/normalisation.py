"""Normalisations of the plugin's own, with their gradients.

Source of each formula: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu and what is expected in
test/test_base_ops and test/test_custom_ops there. What is computed between is float32, as the documentation says.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def _by_root_mean_square(
    x: torch.Tensor, gamma: torch.Tensor, epsilon: float, shift: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = tuple(range(-gamma.dim(), 0))
    inverse = torch.rsqrt(x.float().pow(2).mean(dims, keepdim=True) + epsilon)
    return (x.float() * inverse * (gamma.float() + shift)).to(x.dtype), inverse


def npu_rms_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients for x and gamma; the epsilon is in `rstd`."""
    dims = tuple(range(-gamma.dim(), 0))
    scaled, root = dy.float() * gamma.float(), rstd.float()
    normal = x.float() * root
    for_x = root * (scaled - normal * (scaled * normal).mean(dims, keepdim=True))
    for_gamma = (dy.float() * normal).reshape(-1, *gamma.shape).sum(0)
    return for_x.to(x.dtype), for_gamma


def npu_gemma_rms_norm(
    x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x over its root mean square times (1 + gamma), and one over that root."""
    return _by_root_mean_square(x, gamma, epsilon, 1.0)


def npu_add_rms_norm(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the normalised sum, one over the root, and the sum."""
    total = x1 + x2
    result, inverse = _by_root_mean_square(total, gamma, epsilon)
    return result, inverse, total


def npu_add_rms_norm_cast(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the normalised sum in float32 and in its own type, one over the root, and the sum."""
    result, inverse, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return result.float(), result, inverse, total


def npu_add_rms_norm_v2(x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> torch.Tensor:
    """Put the normalised sum into x1 and the sum into x2; return one over the root."""
    result, inverse, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    x1.copy_(result)
    x2.copy_(total)
    return inverse


def npu_add_rms_norm_v2_functional(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    result, inverse, total = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return inverse, result, total


def _by_layer(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dims = tuple(range(-gamma.dim(), 0))
    wide = x.float()
    mean = wide.mean(dims, keepdim=True)
    inverse = torch.rsqrt((wide - mean).pow(2).mean(dims, keepdim=True) + epsilon)
    return ((wide - mean) * inverse * gamma.float() + beta.float()), mean, inverse


def npu_add_layer_norm(
    x1: torch.Tensor,
    x2: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    epsilon: float = 1e-5,
    additional_output: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the layer norm of x1 + x2, mean, one over the deviation, and the sum where it is requested."""
    total = x1 + x2
    result, mean, inverse = _by_layer(total, gamma, beta, epsilon)
    return result.to(total.dtype), mean, inverse, total if additional_output else total.new_empty(0)


def npu_add_layer_norm_backward(
    dy: torch.Tensor | None,
    x1: torch.Tensor,
    x2: torch.Tensor,
    rstd: torch.Tensor,
    mean: torch.Tensor,
    gamma: torch.Tensor,
    dsum: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    dy = torch.zeros_like(x1) if dy is None else dy
    for_x, for_gamma, for_beta = _layer_gradient(dy, x1 + x2, gamma, mean, rstd)
    for_x = for_x if dsum is None else for_x + dsum.float()
    return for_x.to(x1.dtype), for_x.to(x2.dtype), for_gamma, for_beta


def _layer_gradient(
    dy: torch.Tensor, x: torch.Tensor, gamma: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dims = tuple(range(-gamma.dim(), 0))
    scaled = dy.float() * gamma.float()
    normal = (x.float() - mean.float()) * rstd.float()
    within = scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True)
    parts = (dy.float() * normal).reshape(-1, *gamma.shape), dy.float().reshape(-1, *gamma.shape)
    return within * rstd.float(), parts[0].sum(0), parts[1].sum(0)


def npu_deep_norm(
    x: torch.Tensor,
    gx: torch.Tensor,
    beta: torch.Tensor,
    gamma: torch.Tensor,
    alpha: float = 0.3,
    epsilon: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return mean, one over the deviation, and the layer norm of alpha * x + gx."""
    result, mean, inverse = _by_layer(alpha * x.float() + gx.float(), gamma, beta, epsilon)
    return mean, inverse, result.to(x.dtype)


def npu_deep_norm_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    gx: torch.Tensor,
    gamma: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    alpha: float = 0.3,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    for_sum, for_gamma, for_beta = _layer_gradient(dy, alpha * x.float() + gx.float(), gamma, mean, rstd)
    return (alpha * for_sum).to(x.dtype), for_sum.to(x.dtype), for_beta, for_gamma


def npu_layer_norm_eval(
    x: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    return functional.layer_norm(x, normalized_shape, weight, bias, eps)


def npu_layernorm_grad(
    grad: torch.Tensor,
    x: torch.Tensor,
    normalized_shape: list[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    gamma = torch.ones(normalized_shape, dtype=x.dtype, device=x.device) if weight is None else weight
    shape = (*x.shape[: x.dim() - len(normalized_shape)], *[1] * len(normalized_shape))
    for_x, for_gamma, for_beta = _layer_gradient(grad, x, gamma, mean.reshape(shape), rstd.reshape(shape))
    return for_x.to(x.dtype), for_gamma, for_beta


def _by_group(
    x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    parts = x.float().reshape(x.shape[0], groups, -1)
    mean = parts.mean(-1)
    inverse = torch.rsqrt((parts - mean.unsqueeze(-1)).pow(2).mean(-1) + eps)
    return functional.group_norm(x, groups, weight, bias, eps), mean.to(x.dtype), inverse.to(x.dtype)


def npu_group_norm_silu(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, group: int, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return SiLU of the group norm, mean, and one over the deviation."""
    result, mean, inverse = _by_group(x, group, weight, bias, eps)
    return functional.silu(result), mean, inverse


def npu_group_norm_swish(
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float | None = 1e-5,
    swish_scale: float | None = 1.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y * sigmoid(scale * y) of the group norm y, mean, and one over the deviation."""
    result, mean, inverse = _by_group(x, num_groups, weight, bias, 1e-5 if eps is None else eps)
    return result * torch.sigmoid((1.0 if swish_scale is None else swish_scale) * result), mean, inverse


def npu_group_norm_swish_grad(
    grad: torch.Tensor,
    x: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    grad_input_mask: list[bool],
    swish_scale: float | None = 1.0,
) -> tuple[torch.Tensor | None, ...]:
    scale = 1.0 if swish_scale is None else swish_scale
    groups = (x.shape[0], num_groups, -1)
    channels = (1, x.shape[1], *[1] * (x.dim() - 2))
    centre, inverse = mean.float().reshape(*groups), rstd.float().reshape(*groups)
    normal = ((x.float().reshape(*groups) - centre) * inverse).reshape(x.shape)
    affine = normal * weight.float().reshape(channels) + bias.float().reshape(channels)
    gate = torch.sigmoid(scale * affine)
    inner = grad.float() * (gate + scale * affine * gate * (1 - gate))
    scaled, flat = (inner * weight.float().reshape(channels)).reshape(*groups), normal.reshape(*groups)
    within = scaled - scaled.mean(-1, keepdim=True) - flat * (scaled * flat).mean(-1, keepdim=True)
    dims = [dim for dim in range(x.dim()) if dim != 1]
    derived = ((within * inverse).reshape(x.shape), (inner * normal).sum(dims), inner.sum(dims))
    types = (x.dtype, weight.dtype, bias.dtype)
    return tuple(
        part.to(dtype) if wanted else x.new_empty(0)
        for part, dtype, wanted in zip(derived, types, grad_input_mask, strict=False)
    )


def batch_norm_reduce(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum and the sum of squares of each channel, in float32."""
    dims = [dim for dim in range(x.dim()) if dim != 1]
    return x.float().sum(dims), x.float().pow(2).sum(dims)


def batch_norm_gather_stats_update(
    x: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    momentum: float,
    eps: float,
    counts: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and one over the deviation of all ranks; `mean` and `invstd` hold their sums and sums of squares."""
    whole = counts.to(mean.dtype).sum()
    centre = mean.sum(0) / whole
    variance = invstd.sum(0) / whole - centre * centre
    for running, now in ((running_mean, centre), (running_var, variance)):
        if running is not None:
            running.copy_(momentum * now + (1 - momentum) * running)
    return centre, torch.rsqrt(variance.float() + eps).to(mean.dtype)


def npu_normalize_batch(x: torch.Tensor, seq_len: torch.Tensor, normalize_type: int = 0) -> torch.Tensor:
    """Return x less its mean, over its deviation plus 1e-5: of each feature (0) or of all (1), over each length."""
    rows = []
    for row, length in zip(x, seq_len.tolist(), strict=False):
        used = row[:, : int(length)]
        if normalize_type == 0:
            rows.append((row - used.mean(1, keepdim=True)) / (used.std(1, keepdim=True) + 1e-5))
        else:
            rows.append((row - used.mean()) / (used.std() + 1e-5))
    return torch.stack(rows)


OPERATORS = {
    function.__name__: function
    for function in (
        *(npu_rms_norm_backward, npu_gemma_rms_norm, npu_add_rms_norm, npu_add_rms_norm_cast),
        *(npu_add_rms_norm_v2, npu_add_rms_norm_v2_functional),
        *(npu_add_layer_norm, npu_add_layer_norm_backward, npu_deep_norm, npu_deep_norm_backward),
        *(
            npu_layer_norm_eval,
            npu_layernorm_grad,
            npu_group_norm_silu,
            npu_group_norm_swish,
            npu_group_norm_swish_grad,
        ),
        *(batch_norm_reduce, batch_norm_gather_stats_update, npu_normalize_batch),
    )
}
