"""What else explains a result that is outside of its tolerance: another order of additions, or rounded inputs.

Operators that add in an order that is not fixed differ from run to run. A device that is wrong in another way in each
run differs from itself as well: what two runs differ by excuses an error only as far as the order of additions can
carry it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.reference import CpuReference
from torchferry.numerics.compare.snapshot import ComparedCall, Snapshot, Untestable, replaced
from torchferry.numerics.compare.standards import Judgement, ResultPair, short
from torchferry.numerics.compare.tolerances import ErrorBound, unit
from torchferry.numerics.compare.verdict import Status, of_bound

_DEVIATIONS = 4 / math.sqrt(6)
"""Rounding a partial sum s is off by unit * |s| / root(3), root mean square. Of n terms of random sign, the squares of
the partial sums add up to n / 2 times those of the terms, and of terms of one sign to n / 3 times that of the sum; four
standard deviations of what comes of it."""

_SHORTEST = 4.0
"""Terms that each sum is taken to have at least: factors below 1, as of an interpolation, count as less than a term."""


def explained_by_order(
    call: ComparedCall, number: int, pair: ResultPair, reason: Message | None, finite: Tensor | None
) -> Judgement:
    """Judge again a result that failed, with what two runs on the device differ by allowed, if order can explain that.

    Args:
        call: The call.
        number: Number of the result.
        pair: The result and its reference.
        reason: Why it failed.
        finite: Where both are finite; None where everything is.
    """
    differences = _device_noise(call, number)
    if differences is None or differences.shape != call.results[number].shape or not differences.any():
        return Status.FAIL, reason
    if pair.device.shape != differences.shape:  # complex, in its two parts
        differences = differences.unsqueeze(-1).expand(pair.device.shape)
    if finite is not None:
        differences = torch.where(finite, differences, 0.0)
    between = float(differences.max())
    order = _order_error(call, number, pair, finite)
    wide = ErrorBound(pair.bound.relative, order.clamp(max=4 * between).add_(pair.bound.absolute))
    if of_bound(pair.device, pair.reference, wide) <= 1:
        return Status.PASS, say("within the difference of two runs on the device, {spread}", spread=short(between))
    most = 2 * (pair.reference.abs() * pair.bound.relative + pair.bound.absolute + order)  # of two runs
    if bool((differences > most).any()):
        reason = say(
            "two runs on the device differ by {spread}, more than reordered additions explain", spread=short(between)
        )
    return Status.FAIL, reason


def _device_noise(call: ComparedCall, number: int) -> Tensor | None:
    """Return the differences of two runs on copies of the arguments; None where they cannot be made."""
    if call.device.startswith("cpu"):
        return None
    device = torch.device(call.device)

    def run() -> Tensor:
        args, kwargs = call.snapshot.build(lambda dtype: dtype, fresh=False)
        moved: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            key = id(tensor)
            if key not in moved:
                moved[key] = tensor.to(device)
            return moved[key]

        on_device = tuple(replaced(value, Tensor, move) for value in args)
        named = {key: replaced(value, Tensor, move) for key, value in kwargs.items()}
        out = call.operator.overload(*on_device, **named)
        return list(call.operator.results(on_device, named, out))[number].detach().to("cpu", torch.float64)

    try:
        return (run() - run()).abs().nan_to_num(nan=math.inf)
    except Exception:
        return None


def _order_error(call: ComparedCall, number: int, pair: ResultPair, finite: Tensor | None) -> Tensor:
    """Return what another order of additions can change in each element.

    Where each element is a sum of products of the arguments, n terms that are added in the dtype of the result are off
    by unit * root(n) * (|sum| + root(sum of squares)) times a small factor, whatever their order. Of other operators
    nothing is known but their own tolerance: another order may take as much again.
    """
    if tolerances.is_sum(call.operator) and not pair.reference.is_complex():
        squares = _on(call, number, torch.square)
        counts = _on(call, number, torch.ones_like)
        if squares is not None and counts is not None and squares.shape == counts.shape == pair.reference.shape:
            steps = counts.abs().clamp(min=_SHORTEST).sqrt_().mul_(_DEVIATIONS * unit(pair.dtype))
            steps = torch.nan_to_num(steps.mul_(squares.abs().sqrt_() + pair.reference.abs()), nan=0.0, posinf=0.0)
            return (steps if finite is None else torch.where(finite, steps, 0.0)).to(pair.reference.dtype)
    return pair.reference.abs() * pair.bound.relative + pair.bound.absolute


def _on(call: ComparedCall, number: int, change: Callable[[Tensor], Tensor]) -> Tensor | None:
    """Return a result of the reference on changed arguments; None where it cannot run on them."""
    kwargs = dict(call.snapshot.kwargs)
    if "alpha" in kwargs:
        kwargs["alpha"] = kwargs["alpha"] ** 2 if change is torch.square else 1
    changed = Snapshot(call.snapshot.args, kwargs, call.snapshot.stores, call.snapshot.size)
    reference = CpuReference(call.operator, changed, call.slots)
    reference.change = lambda tensor: change(tensor) if tensor.is_floating_point() else tensor
    try:
        results, _ = reference.wide([torch.float64])
    except Untestable:
        return None
    return results[number].detach() if number < len(results) else None


# Devices that round the float32 inputs of products first: TF32 on NVIDIA, HF32 on Ascend, and their like.
#
# It is proven, not assumed: the reference is run on inputs so rounded, and must come to what the device has.

_KEPT = (10, 11, 7)
"""Explicit bits of the mantissa: TF32, HF32, bfloat16."""


def explained_by_rounded_inputs(call: ComparedCall, number: int, pair: ResultPair) -> Judgement | None:
    """Return a warning that names the bits of its inputs that the device keeps; None if that does not explain it."""
    for kept in _KEPT:
        for to_nearest in (True, False):
            reference = CpuReference(call.operator, call.snapshot, call.slots)
            reference.change = lambda tensor, kept=kept, to_nearest=to_nearest: rounded(tensor, kept, to_nearest)
            try:
                results, _ = reference.wide([torch.float32])
            except Untestable:
                return None
            right = results[number].detach().to(pair.reference.dtype)
            allowed = tolerances.bound(call.operator, reference.args, number, right, torch.float32)
            if of_bound(pair.device, right, allowed) <= 1:
                # as the card is made, and still less than the program asked for: never a pass
                return Status.WARN, say("the device rounds inputs of products to {bits} bits", bits=kept)
    return None


def rounded(tensor: Tensor, kept: int, to_nearest: bool) -> Tensor:
    """Return float32 values with so many explicit bits of the mantissa: nearest, ties to even, or cut off."""
    if tensor.dtype != torch.float32:
        return tensor
    whole = tensor.contiguous().view(torch.int32)
    cut = 23 - kept
    if to_nearest:
        whole = whole + ((1 << (cut - 1)) - 1) + ((whole >> cut) & 1)
    return (whole & ~((1 << cut) - 1)).view(torch.float32)
