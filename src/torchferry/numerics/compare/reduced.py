"""Devices that round the float32 inputs of products first: TF32 on NVIDIA, HF32 on Ascend, and their like.

It is proven, not assumed: the reference is run on inputs so rounded, and must come to what the device has.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchferry.numerics.compare import measuring, tolerances
from torchferry.numerics.compare.call import Call
from torchferry.numerics.compare.pair import Pair
from torchferry.numerics.compare.snapshot import Untestable

_KEPT = (10, 11, 7)
"""Explicit bits of the mantissa: TF32, HF32, bfloat16."""


def bits(call: Call, number: int, pair: Pair) -> int:
    """Return how many bits of its inputs the device keeps, or 0 where that does not explain its result."""
    from torchferry.numerics.compare.reference import Reference

    for kept in _KEPT:
        for to_nearest in (True, False):
            reference = Reference(call.operator, call.snapshot)
            reference.change = lambda tensor, kept=kept, to_nearest=to_nearest: rounded(tensor, kept, to_nearest)
            try:
                results, _ = reference.wide([torch.float32])
            except Untestable:
                return 0
            right = results[number].detach().to(pair.reference.dtype)
            allowed = tolerances.bound(call.operator, reference.args, number, right, torch.float32)
            if measuring.of_bound(pair.device, right, allowed) <= 1:
                return kept
    return 0


def rounded(tensor: Tensor, kept: int, to_nearest: bool) -> Tensor:
    """Return float32 values with so many explicit bits of the mantissa: nearest, ties to even, or cut off."""
    if tensor.dtype != torch.float32:
        return tensor
    whole = tensor.contiguous().view(torch.int32)
    cut = 23 - kept
    if to_nearest:
        whole = whole + ((1 << (cut - 1)) - 1) + ((whole >> cut) & 1)
    return (whole & ~((1 << cut) - 1)).view(torch.float32)
