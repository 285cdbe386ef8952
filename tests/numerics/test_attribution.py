"""Where a call belongs: phase, module, and in backward the forward call that is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.autograd.function import Function  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from torchferry.numerics.framework.attribution import Attribution, Where  # noqa: E402
from torchferry.numerics.framework.operators import operator  # noqa: E402


class Seen(TorchDispatchMode):
    """Where each call belongs, by operator."""

    def __init__(self, attribution: Attribution) -> None:
        super().__init__()
        self.calls: list[tuple[str, Where]] = []
        self._attribution = attribution

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = operator(func)
        self.calls.append((known.name, self._attribution.where(known)))
        return func(*args, **(kwargs or {}))


def seen(call: Callable[[], object]) -> dict[str, list[Where]]:
    attribution = Attribution()
    attribution.start()
    try:
        with Seen(attribution) as mode:
            call()
    finally:
        attribution.stop()
    found: dict[str, list[Where]] = {}
    for name, where in mode.calls:
        found.setdefault(name, []).append(where)
    return found


class Cube(Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].mul(ctx.saved_tensors[0].pow(2))


class Custom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = Cube.apply(x)
        return result


class Again(nn.Module):
    """Runs its part again in backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.part, self.reentrant = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), reentrant

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = checkpoint(self.part, x, use_reentrant=self.reentrant)
        return result


def trained(*layers: nn.Module) -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(3, 3), *layers)

    def run() -> None:
        model(torch.ones(2, 3)).sum().backward()

    return run


BACKWARD = [
    (nn.Tanh(), "aten.tanh_backward", Where("backward", "Sequential.1", "aten.tanh")),
    (nn.ReLU(inplace=True), "aten.threshold_backward", Where("backward", "Sequential.1", "aten.relu_")),
    (nn.SiLU(inplace=True), "aten.silu_backward", Where("backward", "Sequential.1", "SiluBackward0")),
    (nn.LayerNorm(3), "aten.native_layer_norm_backward", Where("backward", "Sequential.1", "aten.native_layer_norm")),
    (Custom(), "aten.pow.Tensor_Scalar", Where("backward", "Sequential.1", "CubeBackward")),
    (Again(False), "aten.tanh_backward", Where("backward", "Sequential.1.part.1", "aten.tanh")),
    (Again(True), "aten.tanh_backward", Where("backward", "Sequential.1.part.1", "aten.tanh")),
]


@pytest.mark.parametrize(("layer", "name", "expected"), BACKWARD, ids=lambda value: type(value).__name__)
def test_backward_belongs_to_the_forward_module(layer: nn.Module, name: str, expected: Where) -> None:
    assert seen(trained(layer))[name] == [expected]


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_runs_again_is_told_apart(reentrant: bool) -> None:
    found = seen(trained(Again(reentrant)))["aten.tanh"]
    assert [(where.phase, where.module) for where in found] == [
        ("forward", "Sequential.1.part.1"),
        ("recompute", "Sequential.1.part.1"),
    ]


def test_the_optimizer_and_the_loss() -> None:
    def run() -> None:
        model = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
        for _ in range(2):
            model(torch.ones(2, 3)).exp().sum().backward()
            optimizer.step()

    found = seen(run)
    assert found["aten.exp"] == [Where("forward", "", "")] * 2
    assert set(found["aten._foreach_mul_.Scalar"]) == {Where("optimizer", "", "")}


def test_a_gradient_that_is_added_has_its_parameter() -> None:
    def run() -> None:
        model = nn.Linear(3, 3)
        for _ in range(2):
            model(torch.ones(2, 3)).sum().backward()

    assert Where("backward", "Linear", "weight") in seen(run)["aten.add_.Tensor"]


def test_a_closure_is_forward_and_backward() -> None:
    def run() -> None:
        model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(torch.ones(2, 3)).sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    found = seen(run)
    assert {where.phase for where in found["aten.tanh"]} == {"forward"}
    assert {where.phase for where in found["aten.tanh_backward"]} == {"backward"}
