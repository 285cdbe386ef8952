"""Quantisation of the plugin's own, from and to 8 bits, and products of what is quantised.

Source: github.com/Ascend/op-plugin@517f2e7d0f20 docs/zh/custom_APIs/torch_npu and the expected values of
test/test_custom_ops there. What is packed into 4 bits, and what only cards of other generations have, is refused.
"""

from __future__ import annotations

import torch

from torchferry.rehearsal.driver.references import refuse

_INT8 = (torch.int8, torch.qint8)
_ACL_OFFSET = 256
_ACL_DTYPES = {
    0: torch.float32,
    1: torch.float16,
    2: torch.int8,
    3: torch.int32,
    4: torch.uint8,
    27: torch.bfloat16,
}
"""aclDataType. The plugin's own numbers (torch_npu.float16) are 256 more.

Source: github.com/Ascend/pytorch torch_npu/csrc/custom_dtype/Init.h, g_toAclOffset and GetAclDataType.
"""
_TORCH_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    3: torch.int32,
    5: torch.float16,
    6: torch.float32,
    15: torch.bfloat16,
    12: torch.qint8,
    13: torch.quint8,
    14: torch.qint32,
}
"""c10::ScalarType: every number below 256."""


def _dtype(number: int | torch.dtype | None, otherwise: torch.dtype, operator: str) -> torch.dtype:
    if number is None:
        return otherwise
    if isinstance(number, torch.dtype):
        return number
    dtype = _ACL_DTYPES.get(number - _ACL_OFFSET) if number >= _ACL_OFFSET else _TORCH_DTYPES.get(number)
    if dtype is None:
        refuse(operator, f"dtype {number}")
    return dtype


def _along(values: torch.Tensor, x: torch.Tensor, axis: int) -> torch.Tensor:
    if values.dim() != 1 or values.numel() == 1:
        return values
    return values.reshape([-1 if dim == axis % x.dim() else 1 for dim in range(x.dim())])


def npu_quantize(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    dtype: int,
    axis: int = 1,
    div_mode: bool = True,
) -> torch.Tensor:
    """Return round(x / scale) + zero point, or round(x * scale + zero point), within the type.

    Without `div_mode` the scales are those of the last dimension but one for the axis -2, else of the last.
    """
    wanted = _dtype(dtype, torch.int8, "npu::npu_quantize")
    kinds = {torch.int8: torch.int8, torch.qint8: torch.int8, torch.int32: torch.int32, torch.qint32: torch.int32}
    kinds |= dict.fromkeys((torch.uint8, torch.quint8), torch.uint8)
    if wanted not in kinds:
        refuse("npu::npu_quantize", f"dtype {wanted}")
    if not div_mode and axis != -2:
        axis = -1
    scale = _along(scales.float(), x, axis)
    zero = 0.0 if zero_points is None else _along(zero_points.float(), x, axis)
    rounded = torch.round(x.float() / scale) + zero if div_mode else torch.round(x.float() * scale + zero)
    limits = torch.iinfo(kinds[wanted])
    if kinds[wanted] == torch.int32:
        rounded = rounded.double()  # float32 has no number for the largest of them
    return rounded.clamp(limits.min, limits.max).to(kinds[wanted])


def npu_anti_quant(
    x: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
    dst_dtype: int | None = None,
    src_dtype: int | None = None,
) -> torch.Tensor:
    """Return (x + offset) * scale."""
    if x.dtype != torch.int8:
        refuse("npu::npu_anti_quant", f"{x.dtype}")
    wide = x.float() if offset is None else x.float() + offset.float()
    return (wide * scale.float()).to(_dtype(dst_dtype, torch.float16, "npu::npu_anti_quant"))


def _smoothed(x: torch.Tensor, smooth_scales: torch.Tensor | None, group_index: torch.Tensor | None) -> torch.Tensor:
    wide = x.float()
    if smooth_scales is None:
        return wide
    if group_index is None:
        return wide * smooth_scales.float()
    rows = torch.arange(wide.numel() // wide.shape[-1], device=x.device)
    group = torch.searchsorted(group_index.to(rows.dtype).contiguous(), rows, right=True)
    return wide * smooth_scales.float()[group.clamp(max=len(group_index) - 1)].reshape(wide.shape)


def npu_dynamic_quant(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return round(x / scale) in 8 bits, and the scale: the largest magnitude over 127, of a row, column or all."""
    if _dtype(dst_type, torch.int8, "npu::npu_dynamic_quant") not in _INT8:
        refuse("npu::npu_dynamic_quant", f"dst_type={dst_type}")
    wide = _smoothed(x, smooth_scales, group_index)
    dims = {"pertoken": (-1,), "perchannel": (-2,), "pertensor": tuple(range(x.dim()))}.get(quant_mode)
    if dims is None:
        refuse("npu::npu_dynamic_quant", f"quant_mode={quant_mode}")
    scale = wide.abs().amax(dims, keepdim=True) / 127
    narrow = torch.round(wide / scale).nan_to_num(0).clamp(-128, 127).to(torch.int8)
    return narrow, scale.reshape(1) if quant_mode == "pertensor" else scale.squeeze(dims[0])


def npu_dynamic_quant_asymmetric(
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None = None,
    group_index: torch.Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return round(x / scale + offset) in 8 bits, scale (max - min) / 255, offset 127 - max / scale, of rows."""
    if quant_mode != "pertoken" or _dtype(dst_type, torch.int8, "npu::npu_dynamic_quant_asymmetric") not in _INT8:
        refuse("npu::npu_dynamic_quant_asymmetric", f"quant_mode={quant_mode} or dst_type={dst_type}")
    wide = _smoothed(x, smooth_scales, group_index)
    highest, lowest = wide.amax(-1, keepdim=True), wide.amin(-1, keepdim=True)
    scale = (highest - lowest) / 255
    offset = 127 - highest / scale
    narrow = torch.round(wide / scale + offset).nan_to_num(0).clamp(-128, 127).to(torch.int8)
    return narrow, scale.squeeze(-1), offset.squeeze(-1)


def npu_dequant_bias(
    x: torch.Tensor,
    weight_scale: torch.Tensor,
    activation_scale: torch.Tensor | None,
    bias: torch.Tensor | None,
    output_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return (x + bias) * weight scale * activation scale for a bias of integers, else the bias is added last."""
    whole = bias is not None and bias.dtype == torch.int32
    wide = (x + bias if whole else x).float() * weight_scale.float()
    wide = wide if activation_scale is None else wide * activation_scale.float().unsqueeze(-1)
    wide = wide if bias is None or whole else wide + bias.float()
    return wide.to(output_dtype or torch.float16)


def npu_quant_matmul(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor | None = None,
    pertoken_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    output_dtype: int | None = None,
) -> torch.Tensor:
    """Return (x1 @ x2 + bias) * scale + offset: int8 by default, else times each row's scale in a floating type."""
    if x1.dtype != torch.int8 or x2.dtype != torch.int8 or scale.dtype == torch.int64:
        refuse("npu::npu_quant_matmul", f"{x1.dtype}, {x2.dtype} and a scale of {scale.dtype}")
    product = torch.matmul(x1.int(), x2.int())
    if bias is not None and bias.dtype == torch.int32:
        product = product + bias
    wide = product.float() * scale.float()
    if pertoken_scale is not None:
        wide = wide * pertoken_scale.float().unsqueeze(-1)
    if bias is not None and bias.dtype != torch.int32:
        wide = wide + bias.float()
    wanted = _dtype(output_dtype, torch.int8, "npu::npu_quant_matmul")
    if wanted in _INT8:
        wide = wide if offset is None else wide + offset.float()
        return torch.round(wide).clamp(-128, 127).to(torch.int8)
    return wide.to(wanted)


def npu_weight_quant_batchmatmul(
    x: torch.Tensor,
    weight: torch.Tensor,
    antiquant_scale: torch.Tensor,
    antiquant_offset: torch.Tensor | None = None,
    quant_scale: torch.Tensor | None = None,
    quant_offset: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
) -> torch.Tensor:
    """Return x @ ((weight + offset) * scale) + bias."""
    if weight.dtype != torch.int8 or quant_scale is not None or antiquant_group_size:
        refuse("npu::npu_weight_quant_batchmatmul", f"weights of {weight.dtype}, quant_scale or groups")
    wide = weight.to(x.dtype) if antiquant_offset is None else weight.to(x.dtype) + antiquant_offset
    product = torch.matmul(x, wide * antiquant_scale)
    return product if bias is None else (product + bias).to(x.dtype)


def npu_trans_quant_param(
    scale: torch.Tensor, offset: torch.Tensor | None = None, round_mode: int | None = 0
) -> torch.Tensor:
    """Return the scale's upper 19 bits, bit 46, and nine bits of the offset from bit 37 on, in 64 bits."""
    if round_mode:
        refuse("npu::npu_trans_quant_param", f"round_mode={round_mode}")
    bits = scale.float().contiguous().view(torch.int32).to(torch.int64) & 0xFFFFE000
    packed = bits | 1 << 46
    if offset is not None:
        packed = packed | (torch.round(offset.float()).clamp(-256, 255).to(torch.int64) & 0x1FF) << 37
    return packed


OPERATORS = {
    function.__name__: function
    for function in (
        *(npu_quantize, npu_anti_quant, npu_dynamic_quant, npu_dynamic_quant_asymmetric, npu_dequant_bias),
        *(npu_quant_matmul, npu_weight_quant_batchmatmul, npu_trans_quant_param),
    )
}
