"""What stands above the operators: TorchScript, torch.compile, fake tensors, dispatch modes, the profiler."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal


def network(device: str) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to(device)


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("way", ["script", "trace"])
def test_torchscript(device: str, way: str) -> None:
    module, values = network(device), torch.randn(3, 4, device=device)
    compiled = torch.jit.script(module) if way == "script" else torch.jit.trace(module, values)
    for _ in range(3):  # the first runs profile
        result = compiled(values)
        result.sum().backward()
    torch.testing.assert_close(result, module(values))
    assert result.device.type == device
    torch.testing.assert_close(compiled.cpu()(values.cpu()), result.cpu())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(device: str, backend: str) -> None:
    module, values = network(device), torch.randn(3, 4, device=device)
    expected = module(values)
    expected.sum().backward()
    gradient = module[0].weight.grad.clone()
    module.zero_grad()
    found = torch.compile(module, backend=backend)(values)
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(module[0].weight.grad, gradient)


def test_fake_tensors(device: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        values = torch.randn(3, 4, device=device)
        product = values @ values.t()
        convolved = torch.nn.Conv2d(3, 5, 3, device=device)(torch.randn(1, 3, 8, 8, device=device))
        assert product.shape == (3, 3)
        assert str(product.device) == f"{device}:0"
        assert convolved.shape == (1, 5, 6, 6)
        assert values.cpu().device.type == "cpu"
        assert (values > 0).any().device.type == device


def test_export(device: str) -> None:
    module, values = network(device).eval(), torch.randn(3, 4, device=device)
    program = torch.export.export(module, (values,))
    torch.testing.assert_close(program.module()(values), module(values))


def test_dispatch_modes_see_the_device(device: str) -> None:
    seen: list[str] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                seen.append(f"{function} {result.device.type}")
            return result

    with Watch():
        torch.ones(2, 2, device=device).mm(torch.ones(2, 2, device=device))
    assert seen[-1] == f"aten.mm.default {device}"


def test_flops_are_counted(device: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.ones(2, 3, device=device) @ torch.ones(3, 4, device=device)
    assert counter.get_total_flops() == 2 * 2 * 3 * 4


def test_the_profiler_sees_the_operators(device: str, tmp_path: Any) -> None:
    values = torch.randn(64, 64, device=device)
    profiler = torch.profiler.profile(profile_memory=True, record_shapes=True)
    with profiler as profile, torch.profiler.record_function("mine"):
        (values @ values).relu().sum().item()
    names = {event.key for event in profile.key_averages()}
    assert {"mine", "aten::mm", "aten::relu", "aten::sum"} <= names
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(str(path))
    assert any(event.get("name") == "aten::mm" for event in json.loads(path.read_text())["traceEvents"])


@pytest.mark.filterwarnings("ignore")
def test_the_profiler_has_columns_for_the_device(device: str) -> None:
    values = torch.randn(64, 64, device=device)
    with torch.autograd.profiler.profile(use_device=device) as profile:
        (values @ values).sum()
    table = profile.key_averages().table()
    assert f"{device.upper()} time" in table or f"{device.upper()} total" in table
    (product,) = [event for event in profile.key_averages() if event.key == "aten::mm"]
    assert product.device_time_total > 0


def test_nested_tensors_of_the_jagged_layout(device: str) -> None:
    parts = [torch.ones(2, 3, device=device), torch.ones(4, 3, device=device)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    assert nested.device.type == device
    first, second = (nested * 2 + 1).unbind()
    assert (first.shape, second.shape) == ((2, 3), (4, 3))
    assert second.sum().item() == 36
