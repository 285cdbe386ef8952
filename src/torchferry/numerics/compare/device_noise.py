"""What two runs on the device differ by, for operators that add in an order that is not fixed, and what that explains.

A device that is wrong in another way in each run differs from itself as well: what two runs differ by excuses an error
only as far as the order of additions can carry it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.reference import CpuReference
from torchferry.numerics.compare.snapshot import ComparedCall, Snapshot, Untestable, replaced
from torchferry.numerics.compare.standards import ResultPair
from torchferry.numerics.compare.tolerances import unit

_DEVIATIONS = 4 / math.sqrt(6)
"""Rounding a partial sum s is off by unit * |s| / root(3), root mean square. Of n terms of random sign, the squares of
the partial sums add up to n / 2 times those of the terms, and of terms of one sign to n / 3 times that of the sum; four
standard deviations of what comes of it."""

_SHORTEST = 4.0
"""Terms that each sum is taken to have at least: factors below 1, as of an interpolation, count as less than a term."""


def device_noise(call: ComparedCall, number: int) -> Tensor | None:
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


def explained(call: ComparedCall, number: int, pair: ResultPair, finite: Tensor | None) -> Tensor:
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
    reference = CpuReference(
        call.operator, Snapshot(call.snapshot.args, kwargs, call.snapshot.stores, call.snapshot.size)
    )
    reference.change = lambda tensor: change(tensor) if tensor.is_floating_point() else tensor
    try:
        results, _ = reference.wide([torch.float64])
    except Untestable:
        return None
    return results[number].detach() if number < len(results) else None
