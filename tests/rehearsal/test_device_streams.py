"""Devices, streams and events, through the plugin's namespace and through torch.accelerator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def namespace(rehearsed: Any) -> Iterator[Any]:
    yield rehearsed.namespace
    rehearsed.namespace.set_device(0)


def test_torch_accelerator_is_the_device(device: str, namespace: Any) -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator().type == device
    assert accelerator.device_count() == 2
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == 1
    assert namespace.current_device() == 1
    assert torch.ones(1, device=device).get_device() == 1
    accelerator.synchronize()


def test_the_current_device(device: str, namespace: Any) -> None:
    assert namespace.device_count() == 2
    with namespace.device(1):
        assert torch.ones(1, device=device).get_device() == 1
        with namespace.device(0):
            assert namespace.current_device() == 0
        assert namespace.current_device() == 1
    assert namespace.current_device() == 0
    namespace.set_device(f"{device}:1")
    assert getattr(torch.ones(1), device)().get_device() == 1
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        namespace.set_device(2)
    namespace.synchronize(0)


def test_results_stay_on_their_device(device: str, namespace: Any) -> None:
    values = torch.ones(2, 2, device=f"{device}:1")
    for result in (values + 1, values @ values, values.sum(), torch.zeros_like(values), values.half().exp()):
        assert result.get_device() == 1
    layer = torch.nn.Linear(2, 2).to(f"{device}:1")
    layer(values).sum().backward()
    assert layer.weight.grad.get_device() == 1
    assert values.to(f"{device}:0").get_device() == 0
    assert namespace.current_device() == 0


def test_streams(device: str, namespace: Any) -> None:
    default = namespace.default_stream()
    assert namespace.current_stream() == default
    stream = namespace.Stream()
    assert stream != default
    with namespace.stream(stream):
        assert namespace.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
        values = torch.ones(2, device=device)
    assert namespace.current_stream() == default
    default.wait_stream(stream)
    values.record_stream(default)
    stream.synchronize()
    assert stream.query()
    assert namespace.Stream(device=1).device == torch.device(device, 1)


def test_torch_streams(device: str) -> None:
    stream = torch.Stream(device=device)
    with stream:
        assert torch.accelerator.current_stream() == stream
    event = stream.record_event()
    event.synchronize()
    stream.wait_event(event)
    assert event.query()
    assert torch.accelerator.current_stream() != stream


@pytest.mark.parametrize("kind", ["torch", "namespace"])
def test_events_measure_time(device: str, namespace: Any, kind: str) -> None:
    def event(**options: Any) -> Any:
        return torch.Event(device, **options) if kind == "torch" else namespace.Event(**options)

    first, second = event(enable_timing=True), event(enable_timing=True)
    first.record()
    time.sleep(0.02)
    second.record()
    second.synchronize()
    assert first.elapsed_time(second) > 15
    unrecorded, untimed = event(enable_timing=True), event()
    untimed.record()
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        first.elapsed_time(unrecorded)
    with pytest.raises((RuntimeError, ValueError), match="enable_timing"):
        first.elapsed_time(untimed)
