"""Saving and loading: the device's name is in the file, and `map_location` in all its forms moves what is loaded."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal

FORMATS = {"zip": True, "legacy": False}
MAPPED: dict[str, tuple[Callable[[str], Any], Callable[[str], str]]] = {
    "nothing": (lambda d: None, lambda d: f"{d}:1"),
    "cpu": (lambda d: "cpu", lambda d: "cpu"),
    "cpu device": (lambda d: torch.device("cpu"), lambda d: "cpu"),
    "device": (lambda d: d, lambda d: f"{d}:0"),
    "device with index": (lambda d: f"{d}:0", lambda d: f"{d}:0"),
    "device object": (lambda d: torch.device(d, 0), lambda d: f"{d}:0"),
    "dictionary": (lambda d: {f"{d}:1": f"{d}:0"}, lambda d: f"{d}:0"),
    "dictionary to cpu": (lambda d: {f"{d}:1": "cpu"}, lambda d: "cpu"),
    "dictionary of others": (lambda d: {f"{d}:0": "cpu"}, lambda d: f"{d}:1"),
    "function": (lambda d: lambda storage, location: storage, lambda d: "cpu"),
    "function that moves": (
        lambda d: lambda storage, location: storage.to(device=torch.device(location[:-1] + "0")),
        lambda d: f"{d}:0",
    ),
    "meta": (lambda d: "meta", lambda d: "meta"),
}


def saved(value: Any, zipped: bool = True) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return file


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("where", MAPPED)
def test_map_location(device: str, where: str, form: str) -> None:
    module = torch.nn.Linear(3, 2).to(f"{device}:1")
    location, expected = MAPPED[where]
    loaded = torch.load(saved(module.state_dict(), FORMATS[form]), map_location=location(device))
    assert str(loaded["weight"].device) == expected(device)
    if where != "meta":
        assert torch.equal(loaded["weight"].cpu(), module.weight.cpu())


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_saved_on_the_cpu_is_loaded_onto_the_device(device: str, form: str) -> None:
    loaded = torch.load(saved({"a": torch.ones(2)}, FORMATS[form]), map_location=device)
    assert loaded["a"].device.type == device
    assert loaded["a"].tolist() == [1, 1]


@pytest.mark.parametrize("form", FORMATS)
def test_tensors_that_shared_memory_share_it_again(device: str, form: str) -> None:
    whole = torch.zeros(4, device=device)
    whole, part = torch.load(saved([whole, whole[1:3]], FORMATS[form]))
    whole[1] = 7
    assert part[0].item() == 7
    assert part.device.type == device


def test_whole_modules(device: str) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to(device)
    loaded = torch.load(saved(module), weights_only=False)
    assert loaded[1].running_mean.device.type == device
    inputs = torch.randn(3, 2, device=device)
    torch.testing.assert_close(loaded.eval()(inputs), module.eval()(inputs))


def test_an_optimizer(device: str) -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.Adam([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = torch.load(saved(optimizer.state_dict()))
    assert state["state"][0]["exp_avg"].device.type == device
    assert torch.equal(state["state"][0]["exp_avg"], optimizer.state[parameter]["exp_avg"])


def test_a_device_that_this_machine_lacks_is_refused(device: str) -> None:
    file = saved(torch.ones(2, device=f"{device}:1"))
    with pytest.raises(RuntimeError, match="device"):
        torch.load(file, map_location=f"{device}:7")


def test_mapped_files(device: str, tmp_path: Any) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"a": torch.arange(4.0, device=device)}, path)
    assert torch.load(path, map_location="cpu", mmap=True)["a"].tolist() == [0, 1, 2, 3]
    assert torch.load(path, map_location=device, mmap=True)["a"].device.type == device


def test_jit_archives(device: str, tmp_path: Any) -> None:
    path = str(tmp_path / "module.pt")
    torch.jit.script(torch.nn.Linear(2, 2).to(device)).save(path)
    assert torch.jit.load(path).weight.device.type == device
    assert torch.jit.load(path, map_location="cpu").weight.device.type == "cpu"
