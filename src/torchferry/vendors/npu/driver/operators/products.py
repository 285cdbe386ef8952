"""Matrix products and convolutions of the plugin's own, with their gradients.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu (a page for each, with its formula
and the meaning of group_type, group_list_type and split_item) and the expected values of the tests there.
"""

from __future__ import annotations

from itertools import accumulate

import torch
from torch.nn import functional

from torchferry.rehearsal.driver.references import gradient, refuse


def npu_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return functional.linear(x, weight, bias)


def npu_linear_backward(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return grad @ weight, grad.flatten(0, -2).t() @ x.flatten(0, -2)


def npu_bmm_v2(x: torch.Tensor, mat2: torch.Tensor, output_sizes: list[int]) -> torch.Tensor:
    """Return the product, with the sizes that are wanted."""
    product = torch.matmul(x, mat2)
    return product.reshape(output_sizes) if output_sizes else product


def npu_bmm_v2_mat1_backward(
    grad: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, size: list[int]
) -> torch.Tensor:
    return gradient(lambda leaf: torch.matmul(leaf, mat2), [mat1], [grad])[0].reshape(size)


def npu_bmm_v2_mat2_backward(
    grad: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, size: list[int]
) -> torch.Tensor:
    return gradient(lambda leaf: torch.matmul(mat1, leaf), [mat2], [grad])[0].reshape(size)


def npu_transpose_batchmatmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale: torch.Tensor | None = None,
    perm_x1: list[int] | None = None,
    perm_x2: list[int] | None = None,
    perm_y: list[int] | None = None,
    batch_split_factor: int | None = 1,
) -> torch.Tensor:
    """Return the product of both, with the dimensions of all three in other orders."""
    if scale is not None or batch_split_factor not in (None, 1):
        refuse("npu::npu_transpose_batchmatmul", "scale or batch_split_factor")
    product = torch.matmul(x.permute(perm_x1 or [0, 1, 2]), weight.permute(perm_x2 or [0, 1, 2]))
    product = product if bias is None else product + bias
    return product.permute(perm_y or [1, 0, 2]).contiguous()


def npu_fused_matmul(
    x1: torch.Tensor,
    x2: torch.Tensor,
    bias: torch.Tensor | None = None,
    x3: torch.Tensor | None = None,
    fused_op_type: str = "",
) -> torch.Tensor:
    """Return x1 @ x2 + bias, and after that what `fused_op_type` says."""
    product = torch.matmul(x1, x2) if bias is None else torch.matmul(x1, x2) + bias
    if fused_op_type in ("", "16cast32"):
        return product.float() if fused_op_type else product
    if fused_op_type in ("add", "mul") and x3 is not None:
        return product + x3 if fused_op_type == "add" else product * x3
    if fused_op_type == "relu":
        return functional.relu(product)
    if fused_op_type in ("gelu_erf", "gelu_tanh"):
        return functional.gelu(product, approximate="none" if fused_op_type == "gelu_erf" else "tanh")
    refuse("npu::npu_fused_matmul", f"fused_op_type={fused_op_type}")


def matmul_double_backward(
    grad_self: torch.Tensor | None,
    grad_other: torch.Tensor | None,
    grad_out: torch.Tensor,
    x: torch.Tensor,
    other: torch.Tensor,
    mask: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients of the two gradients of a product."""

    def first_gradients(*leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        product = torch.matmul(leaves[0], leaves[1])
        return torch.autograd.grad(product, leaves[:2], leaves[2], create_graph=True)

    derived = gradient(first_gradients, [x, other, grad_out], [grad_self, grad_other])
    return tuple(part if wanted else None for part, wanted in zip(derived, mask, strict=False))


# --- groups: one product for each expert ---


def _ends(group_list: torch.Tensor | list[int] | None, kind: int | None, operator: str) -> list[int]:
    """Return where each group ends: `group_list` holds ends (0) or lengths (1)."""
    if group_list is None:
        return []
    if kind not in (None, 0, 1):  # 2 has rows of an expert and a length
        refuse(operator, f"group_list_type={kind} (pass the ends of the groups with 0, or their lengths with 1)")
    numbers = [int(number) for number in (group_list.tolist() if isinstance(group_list, torch.Tensor) else group_list)]
    return list(accumulate(numbers)) if kind == 1 else numbers


def _parts(x: torch.Tensor, ends: list[int], dim: int) -> list[torch.Tensor]:
    return [x.narrow(dim, begin, end - begin) for begin, end in zip([0, *ends[:-1]], ends, strict=False)]


def npu_grouped_matmul(
    x: list[torch.Tensor],
    weight: list[torch.Tensor],
    bias: list[torch.Tensor] | None = None,
    scale: list[torch.Tensor] | None = None,
    offset: list[torch.Tensor] | None = None,
    antiquant_scale: list[torch.Tensor] | None = None,
    antiquant_offset: list[torch.Tensor] | None = None,
    per_token_scale: list[torch.Tensor] | None = None,
    group_list: torch.Tensor | list[int] | None = None,
    activation_input: list[torch.Tensor] | None = None,
    activation_quant_scale: list[torch.Tensor] | None = None,
    activation_quant_offset: list[torch.Tensor] | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    group_list_type: int | None = 0,
    act_type: int | None = 0,
) -> list[torch.Tensor]:
    """Return x_i @ weight_i + bias_i of each group; one x is cut into groups by rows (0) or columns (2)."""
    quantised = (scale, offset, antiquant_scale, antiquant_offset, per_token_scale)
    if any(quantised) or any((activation_input, activation_quant_scale, activation_quant_offset)) or act_type:
        refuse("npu::npu_grouped_matmul", "quantisation or an activation")
    ends = _ends(group_list, group_list_type, "npu::npu_grouped_matmul")
    if group_type == 2:
        transposed = [
            part @ other for part, other in zip(_parts(x[0], ends, 1), _parts(weight[0], ends, 0), strict=False)
        ]
        return [torch.stack(transposed)] if split_item in (2, 3) else transposed
    inputs = _parts(x[0], ends, 0) if len(x) == 1 and ends else list(x)
    weights = list(weight[0].unbind(0)) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    biases = [None] * len(inputs) if not bias else list(bias[0].unbind(0)) if len(bias) == 1 < len(inputs) else bias
    results = [
        part @ matrix if addend is None else part @ matrix + addend
        for part, matrix, addend in zip(inputs, weights, biases, strict=False)
    ]
    if split_item not in (2, 3):
        return results
    together = torch.cat(results)
    rows = sum(part.shape[0] for part in x)
    return [torch.cat([together, together.new_zeros(rows - together.shape[0], together.shape[1])])]


def npu_grouped_matmul_add(
    y: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    group_list: torch.Tensor,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: int | None = 0,
) -> torch.Tensor:
    """Return y + x_i^T @ weight_i of each group of rows."""
    return _grouped_sum(
        "npu::npu_grouped_matmul_add",
        *(y, x, weight, group_list, (transpose_x, transpose_weight, group_type), group_list_type),
    )


def _grouped_sum(
    operator: str,
    y: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    group_list: torch.Tensor,
    form: tuple[bool, bool, int],
    group_list_type: int | None,
) -> torch.Tensor:
    if form != (True, False, 2):
        what = "transpose_x={}, transpose_weight={}, group_type={}".format(*form)
        refuse(operator, f"{what} (pass True, False and 2)")
    ends = _ends(group_list, group_list_type, operator)
    products = [a.float().t() @ b.float() for a, b in zip(_parts(x, ends, 0), _parts(weight, ends, 0), strict=False)]
    return y + torch.stack(products).reshape(y.shape).to(y.dtype)


def npu_grouped_matmul_add_(
    y: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    group_list: torch.Tensor,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: int | None = 0,
) -> torch.Tensor:
    result = _grouped_sum(
        "npu::npu_grouped_matmul_add_",
        *(y, x, weight, group_list, (transpose_x, transpose_weight, group_type), group_list_type),
    )
    return y.copy_(result)


_ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "fastgelu": lambda x: torch.ops.npu.fast_gelu(x),  # noqa: PLW0108 - looked up when it is called, as a version may lack it
    "silu": functional.silu,
}


def npu_ffn(
    x: torch.Tensor,
    weight1: torch.Tensor,
    weight2: torch.Tensor,
    activation: str,
    expert_tokens: list[int] | None = None,
    expert_tokens_index: list[int] | None = None,
    bias1: torch.Tensor | None = None,
    bias2: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return activation(x @ W1 + b1) @ W2 + b2, with weights of its own for each expert's rows."""
    function = _ACTIVATIONS.get(activation)
    if function is None:
        refuse("npu::npu_ffn", f"activation={activation}")

    def layer(rows: torch.Tensor, *parts: torch.Tensor | None) -> torch.Tensor:
        first, second, before, after = parts
        inner = rows @ first if before is None else rows @ first + before
        outer = function(inner) @ second
        return outer if after is None else outer + after

    if expert_tokens is None and expert_tokens_index is None:
        return layer(x, weight1, weight2, bias1, bias2)
    ends = list(expert_tokens_index) if expert_tokens is None else list(accumulate(expert_tokens))
    pieces = [None if part is None else part.unbind(0) for part in (weight1, weight2, bias1, bias2)]
    rows = _parts(x, ends, 0)
    return torch.cat([layer(part, *(None if p is None else p[i] for p in pieces)) for i, part in enumerate(rows)])


# --- convolutions: torch's, with the arguments in another order ---


def npu_convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    return torch.convolution(
        x,
        weight,
        bias,
        _spread(stride, x),
        _spread(padding, x),
        _spread(dilation, x),
        False,
        [0] * (x.dim() - 2),
        groups,
    )


def _spread(numbers: list[int], x: torch.Tensor) -> list[int]:
    return list(numbers) * (x.dim() - 2) if len(numbers) == 1 else list(numbers)


def npu_convolution_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    sizes = (_spread(stride, x), _spread(padding, x), _spread(dilation, x))
    return torch.convolution(x, weight, bias, *sizes, True, _spread(output_padding, x), groups)


def npu_convolution_backward(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    sizes = (_spread(stride, x), _spread(padding, x), _spread(dilation, x))
    rest = (False, [0] * (x.dim() - 2), groups, output_mask)
    return torch.ops.aten.convolution_backward(grad, x, weight, [weight.shape[0]], *sizes, *rest)


def npu_convolution_transpose_backward(
    x: torch.Tensor,
    grad: torch.Tensor,
    weight: torch.Tensor,
    padding: list[int],
    output_padding: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    sizes = (_spread(stride, x), _spread(padding, x), _spread(dilation, x))
    rest = (True, _spread(output_padding, x), groups, output_mask)
    return torch.ops.aten.convolution_backward(grad, x, weight, [weight.shape[1] * groups], *sizes, *rest)


OPERATORS = {
    "npu_linear": npu_linear,
    "npu_linear_backward": npu_linear_backward,
    "npu_bmmV2": npu_bmm_v2,
    "npu_bmm_v2_mat1_backward": npu_bmm_v2_mat1_backward,
    "npu_bmm_v2_mat2_backward": npu_bmm_v2_mat2_backward,
    "npu_transpose_batchmatmul": npu_transpose_batchmatmul,
    "npu_fused_matmul": npu_fused_matmul,
    "matmul_double_backward": matmul_double_backward,
    "npu_grouped_matmul": npu_grouped_matmul,
    "npu_grouped_matmul.List": npu_grouped_matmul,
    "npu_grouped_matmul_add": npu_grouped_matmul_add,
    "npu_grouped_matmul_add_": npu_grouped_matmul_add_,
    "npu_ffn": npu_ffn,
    **dict.fromkeys(("npu_convolution", "npu_conv2d", "npu_conv3d"), npu_convolution),
    **dict.fromkeys(("npu_convolution_transpose", "npu_conv_transpose2d"), npu_convolution_transpose),
    **dict.fromkeys(
        ("npu_convolution_backward", "npu_conv2d_backward", "npu_conv3d_backward"), npu_convolution_backward
    ),
    **dict.fromkeys(
        ("npu_convolution_transpose_backward", "npu_conv_transpose2d_backward", "npu_conv_transpose3d_backward"),
        npu_convolution_transpose_backward,
    ),
}
