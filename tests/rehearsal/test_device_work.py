"""How much a model computes on the device and on the CPU, and whose work the CPU's is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from torchferry.rehearsal import events  # noqa: E402

pytestmark = pytest.mark.rehearsal


@pytest.fixture(autouse=True)
def _from_nothing() -> Iterator[None]:
    events.recorder.clear()
    yield
    events.recorder.clear()


def on_host() -> dict[str, int]:
    """Return the operations that the CPU did, by what they belong to."""
    found: dict[str, int] = {}
    for key, count in events.recorder.counts().items():
        if key.kind == "host-work":
            found[key.subject] = found.get(key.subject, 0) + count.amount
    return found


class Attention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, rows: Any) -> Any:
        return self.inner(rows, rows, rows, need_weights=False)[0]


STEPS: dict[str, Any] = {
    "Linear": (lambda: nn.Linear(8, 4), (5, 8), 2 * 5 * 8 * 4),
    "Conv2d": (lambda: nn.Conv2d(3, 4, 3), (2, 3, 10, 10), 2 * 2 * 4 * 8 * 8 * 27),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, groups=2), (2, 4, 10), 2 * 2 * 6 * 8 * 6),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 5, 5), 2 * 2 * 3 * 5 * 5 * 36),
    "MultiheadAttention": (Attention, (2, 6, 8), None),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_counts_the_same_on_both_sides(name: str, device: str, native: Any) -> None:
    make, shape, forward = STEPS[name]
    torch.manual_seed(0)
    model, rows = make(), torch.randn(shape)
    before = native.work()
    result = model(rows)
    subject = f"model `{type(model).__name__}`"
    assert set(on_host()) == {subject}
    assert forward in (None, on_host()[subject])
    result.sum().backward()
    assert set(on_host()) == {subject, "backward"}
    assert native.work() == before
    expected = sum(on_host().values())
    events.recorder.clear()
    model.zero_grad()
    model.to(device)(rows.to(device)).sum().backward()
    assert on_host() == {}
    assert native.work() - before == expected


def test_a_recurrent_layer_is_counted_on_both_sides(device: str, native: Any) -> None:
    layer, rows, before = nn.LSTM(8, 16), torch.randn(5, 3, 8), native.work()
    layer(rows)[0].sum().backward()
    assert on_host()["model `LSTM`"] == 2 * 5 * 3 * (8 + 16) * 64
    layer.to(device)(rows.to(device))[0].sum().backward()
    assert native.work() - before > 2 * 5 * 3 * (8 + 16) * 64


class Frozen(nn.Module):
    """A model within a model, without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).requires_grad_(False)

    def forward(self, rows: Any) -> Any:
        return self.layers(rows)


def test_the_outermost_module_is_named_where_the_program_calls_it(device: str) -> None:
    model = nn.DataParallel(Frozen())
    with torch.inference_mode():
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        model.module(torch.ones(2, 4))
    ((key, count),) = [each for each in events.recorder.counts().items() if each[0].kind == "host-work"]
    assert (key.subject, key.place.file, key.place.line) == ("model `Frozen`", __file__, line)
    assert count == events.Count(1, 2 * 2 * 4 * 4)


def test_tensors_that_need_gradients_are_a_model_without_a_module(device: str) -> None:
    weights = torch.ones(4, requires_grad=True)
    (torch.ones(3, 4) @ weights).sum().backward()
    assert on_host()["tensors that need gradients"] == 2 * 3 * 4


class Transform(nn.Module):
    """Prepares data, and has a buffer and no parameter."""

    kernel: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.ones(1, 1, 3, 3))

    def forward(self, image: Any) -> Any:
        return functional.conv2d(image, self.kernel)


def test_preparing_data_on_the_cpu_is_not_a_models_work(device: str) -> None:
    Transform()(torch.ones(1, 1, 8, 8))
    torch.ones(8, 8) @ torch.ones(8, 8)
    torch.ones(2, 8, 8) @ torch.ones(2, 8, 8)
    assert on_host() == {}


def test_a_partly_moved_model_is_named_by_what_was_left(device: str) -> None:
    model = nn.Sequential(Frozen().to(device), nn.Linear(4, 2))
    model[1](model[0](torch.ones(2, 4, device=device)).cpu())
    assert on_host() == {"model `Linear`": 2 * 2 * 4 * 2}
