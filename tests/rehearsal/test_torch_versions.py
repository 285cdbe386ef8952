"""What stands in on an older torch gives what torch itself gives: both are there on the tested one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchferry.rehearsal import torch_versions

pytestmark = pytest.mark.rehearsal

STATE: dict[str, Callable[..., Any]] = {
    "is_autocast_enabled": lambda: torch.is_autocast_enabled("cpu"),
    "get_autocast_dtype": lambda: torch.get_autocast_dtype("cpu"),
}


def seen(
    cast_inputs: torch.dtype | None, wrap_forward: Callable[..., Any], wrap_backward: Callable[..., Any], *, on: bool
) -> list[Any]:
    """Return the dtypes that an autograd function sees, and whether autocast is on in its halves."""
    found: list[Any] = []

    def forward(ctx: Any, value: torch.Tensor, pair: tuple[torch.Tensor, int]) -> torch.Tensor:
        found.append((value.dtype, pair[0].dtype, pair[1], torch.is_autocast_enabled("cpu")))
        return value * 2

    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        found.append((gradient.dtype, torch.is_autocast_enabled("cpu")))
        return gradient * 2, None

    function: Any = type(
        "Function",
        (torch.autograd.Function,),
        {"forward": staticmethod(wrap_forward(forward)), "backward": staticmethod(wrap_backward(backward))},
    )
    value = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", enabled=on):
        result = function.apply(value, (torch.ones(1, dtype=torch.float64), 3))
    result.sum().backward()
    return [*found, result.dtype]


@pytest.mark.parametrize("cast_inputs", [None, torch.float32])
@pytest.mark.parametrize("on", [False, True])
def test_functions_of_autograd_see_under_autocast_what_torch_shows_them(
    cast_inputs: torch.dtype | None, on: bool
) -> None:
    expected = seen(
        cast_inputs,
        lambda forward: torch.amp.custom_fwd(forward, device_type="cpu", cast_inputs=cast_inputs),
        lambda backward: torch.amp.custom_bwd(backward, device_type="cpu"),
        on=on,
    )
    ours = seen(
        cast_inputs,
        lambda forward: torch_versions.custom_forward_for(forward, cast_inputs, "cpu", STATE),
        lambda backward: torch_versions.custom_backward_for(backward, "cpu"),
        on=on,
    )
    assert ours == expected


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_are_unscaled_as_torch_does(bad: float | None, dtype: torch.dtype) -> None:
    results = []
    for unscale in (torch._amp_foreach_non_finite_check_and_unscale_, torch_versions.unscale):
        gradients = [torch.tensor([1.0, 2.5], dtype=dtype), torch.tensor([3.0 if bad is None else bad], dtype=dtype)]
        found = torch.zeros(1)
        unscale(gradients, found, torch.tensor([0.125]))
        results.append((str(gradients[0]), str(gradients[1]) if bad is None else "", found.item()))
    assert results[0] == results[1]


@pytest.mark.parametrize("scale", [1024.0, 3e38])
@pytest.mark.parametrize("found_inf", [0.0, 1.0])
@pytest.mark.parametrize("steps", [0, 2])
def test_the_scale_grows_and_shrinks_as_torchs(scale: float, found_inf: float, steps: int) -> None:
    results = []
    for update in (torch._amp_update_scale_, torch_versions.update_scale):
        current, tracker = torch.tensor([scale]), torch.tensor([steps], dtype=torch.int32)
        update(current, tracker, torch.tensor([found_inf]), 2.0, 0.5, 3)
        results.append((current.item(), tracker.item()))
    assert results[0] == results[1]
