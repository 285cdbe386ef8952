"""Automatic mixed precision: which operators are cast, and how the gradient scaler deals with overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.rehearsal

LOW: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda x: x @ x.t(),
    "linear": lambda x: functional.linear(x, x),
    "conv2d": lambda x: functional.conv2d(x[None, None], x[None, None]),
    "bmm": lambda x: torch.bmm(x[None], x[None].transpose(1, 2)),
    "baddbmm": lambda x: torch.baddbmm(x[None, :, :3], x[None], x[None].transpose(1, 2)),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "prelu": lambda x: functional.prelu(x, torch.ones(1, device=x.device)),
    "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}
WIDE: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.arange(3, device=x.device)),
    "mse_loss": lambda x: functional.mse_loss(x, x),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "exp": lambda x: x.exp(),
    "pow": lambda x: x**2,
    "sum": lambda x: x.sum(),
    "cumsum": lambda x: x.cumsum(0),
    "norm": torch.linalg.vector_norm,
}
KEPT: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: x.relu(),
    "add": lambda x: x + x,
    "dropout": lambda x: functional.dropout(x, 0.5),
    "view": lambda x: x.flatten(),
    "max_pool": lambda x: functional.max_pool1d(x, 2),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("way", LOW)
def test_products_run_in_low_precision(device: str, way: str, dtype: Any) -> None:
    with torch.autocast(device, dtype=dtype):
        assert LOW[way](torch.randn(3, 4, device=device)).dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("way", WIDE)
def test_sums_run_in_single_precision(device: str, way: str, dtype: Any) -> None:
    with torch.autocast(device, dtype=dtype):
        assert WIDE[way](torch.randn(3, 4, device=device, dtype=dtype)).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("way", KEPT)
def test_the_rest_keeps_its_type(device: str, way: str, dtype: Any) -> None:
    with torch.autocast(device, dtype=torch.float16):
        assert KEPT[way](torch.randn(3, 4, device=device, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("way", ["cat", "stack"])
def test_mixed_types_become_the_widest(device: str, way: str) -> None:
    pair = [torch.ones(2, device=device), torch.ones(2, device=device, dtype=torch.float16)]
    with torch.autocast(device, dtype=torch.float16):
        assert getattr(torch, way)(pair).dtype == torch.float32
        assert getattr(torch, way)(pair[1:]).dtype == torch.float16


def test_double_precision_and_the_cpu_are_left_alone(device: str) -> None:
    double = torch.ones(2, 2, device=device, dtype=torch.float64)
    with torch.autocast(device, dtype=torch.float16):
        assert (double @ double).dtype == torch.float64
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_a_loss_that_cannot_stand_half_precision_is_refused(device: str) -> None:
    values = torch.rand(3, device=device)
    with torch.autocast(device, dtype=torch.float16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        functional.binary_cross_entropy(values, values)


def test_a_region_can_be_left_and_named_by_a_decorator(device: str) -> None:
    values = torch.randn(2, 2, device=device)

    @torch.amp.custom_fwd(device_type=device, cast_inputs=torch.float32)  # type: ignore[untyped-decorator]
    def forward(context: Any, inputs: Any) -> Any:
        assert not torch.is_autocast_enabled(device)
        return inputs @ inputs

    class Context:
        pass

    with torch.autocast(device, dtype=torch.bfloat16):
        assert torch.get_autocast_dtype(device) == torch.bfloat16
        with torch.autocast(device, enabled=False):
            assert (values @ values).dtype == torch.float32
        assert forward(Context(), values.half()).dtype == torch.float32
        assert (values @ values).dtype == torch.bfloat16
    assert (values @ values).dtype == torch.float32


def test_weights_are_cast_once_in_a_region(device: str) -> None:
    module = torch.nn.Linear(4, 4).to(device)
    with torch.autocast(device, dtype=torch.float16):
        first, second = (module(torch.ones(1, 4, device=device)) for _ in range(2))
    casts = {result.grad_fn.next_functions[2][0].next_functions[0][0] for result in (first, second)}
    assert len(casts) == 1


def network(device: str) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 4),
    ).to(device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training_follows_single_precision(device: str, dtype: Any) -> None:
    inputs = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1)).to(device)
    labels = torch.arange(4, device=device)
    losses: dict[bool, list[float]] = {False: [], True: []}
    for low in (False, True):
        module = network(device)
        optimizer = torch.optim.SGD(module.parameters(), 0.5)
        scaler = torch.amp.GradScaler(device, enabled=low)
        for _ in range(20):
            with torch.autocast(device, dtype=dtype, enabled=low):
                loss = functional.cross_entropy(module(inputs), labels)
            losses[low].append(loss.item())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        assert module[0].weight.grad.dtype == torch.float32
    assert losses[True] == pytest.approx(losses[False], abs=0.1)
    assert losses[True] != losses[False]
    assert losses[True][-1] < losses[True][0] / 2


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}])
def test_the_scaler_skips_a_step_with_an_overflow(device: str, options: dict[str, bool]) -> None:
    parameter = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.AdamW([parameter], 0.1, **options)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=1)
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 512
    optimizer.zero_grad()
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter[0].item() < 1
    assert scaler.get_scale() == 1024


def test_the_scaler_is_saved_and_loaded(device: str) -> None:
    scaler = torch.amp.GradScaler(device, init_scale=64.0)
    scaler.scale(torch.ones(1, device=device))
    other = torch.amp.GradScaler(device)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 64


def test_half_precision_products_are_those_of_single_precision_rounded(device: str) -> None:
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(2, 64, 64, generator=generator).half()
    found = left.to(device) @ right.to(device)
    assert torch.equal(found.cpu(), (left.float() @ right.float()).half())
