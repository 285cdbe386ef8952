"""What the redirect does on an older torch, with functions of torch as they are there."""

from __future__ import annotations

from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from torchferry.backends.installed import installed_version
from torchferry.backends.registry import load
from torchferry.shim import patch_tensors, redirect, torch_versions
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches

DEVICES: Any = SimpleNamespace(card="somecard", to_card={"cuda": "somecard"})
WITHOUT_CARD: Any = SimpleNamespace(card="somecard", to_card={})
EXAMPLES: Any = [1, 2]
UNCHANGED: Any = SimpleNamespace(translated=lambda function: function)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("2.7.1", "2.7.1"),
        ("2.7.1.post2", "2.7.1.post2"),
        ("2.7.1.post2+gitabc", "2.7.1.post2"),
        ("2.7.1rc1", "2.7.1"),
        ("2.7.1.dev20250101", "2.7.1"),
        ("0", ""),
        ("somebody's", ""),
        (None, ""),
    ],
)
def test_the_redirect_takes_the_version_of_the_plugin_that_is_installed(
    version: str | None, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stated(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", stated)
    assert installed_version(load("npu")) == known
    chosen, named = redirect.choose("npu"), redirect.choose("npu@2.5.1")
    assert chosen is not None
    assert named is not None
    assert chosen.version == known
    assert named.version == "2.5.1"


@pytest.mark.parametrize("asks_cuda", [True, False], ids=["before 2.7", "from 2.7 on"])
def test_a_loader_that_would_ask_cuda_pins_for_the_card(asks_cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = DataLoader.__init__
    monkeypatch.setattr(torch_versions, "LOADER_ASKS_CUDA", asks_cuda)

    def place(devices: Any, **options: Any) -> str:
        patches = Patches()
        patch_tensors.patch_data_loader(patches, UNCHANGED, devices)
        try:
            return str(DataLoader(EXAMPLES, **options).pin_memory_device)
        finally:
            patches.restore()

    assert place(DEVICES, pin_memory=True) == ("somecard" if asks_cuda else "")
    assert place(DEVICES) == ""
    assert place(DEVICES, pin_memory=True, pin_memory_device="other") == "other"
    assert place(WITHOUT_CARD, pin_memory=True) == ""
    assert DataLoader.__init__ is original


@pytest.mark.parametrize("means_cuda", [True, False], ids=["up to 2.12", "from 2.13 on"])
def test_generators_of_the_card_are_forked_where_torch_would_fork_cudas(
    means_cuda: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork_rng(
        devices: Any = None,
        enabled: bool = True,
        _caller: str = "fork_rng",
        _devices_kw: str = "devices",
        device_type: str = "cuda",
    ) -> str:
        return device_type

    monkeypatch.setattr(torch.random, "fork_rng", fork_rng)
    monkeypatch.setattr(torch_versions, "FORK_RNG_MEANS_CUDA", means_cuda)
    patches = Patches()
    patch_tensors.patch_fork_rng(patches, DEVICES)
    forked: Any = torch.random.fork_rng
    assert forked() == forked([0], enabled=False) == ("somecard" if means_cuda else "cuda")
    assert forked(device_type="cpu") == forked(None, True, "", "", "cpu") == "cpu"
    patches.restore()
    assert vars(torch.random)["fork_rng"] is fork_rng
    patch_tensors.patch_fork_rng(patches, WITHOUT_CARD)
    assert vars(torch.random)["fork_rng"]() == "cuda"
    patches.restore()


def test_dynamo_is_given_a_constant_by_either_name() -> None:
    newer: Any = SimpleNamespace(VariableTracker=SimpleNamespace(build=lambda tracer, value: (tracer, value)))
    older: Any = SimpleNamespace(
        VariableTracker=object, ConstantVariable=SimpleNamespace(create=lambda value: ("created", value))
    )
    assert torch_versions.traced_constant(newer, "tracer", 3) == ("tracer", 3)
    assert torch_versions.traced_constant(older, "tracer", 3) == ("created", 3)


def test_the_tested_torch_is_asked_itself() -> None:
    assert (torch_versions.VERSION < (2, 13)) == torch_versions.FORK_RNG_MEANS_CUDA


class _Renamed(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is _OWN

    def __eq__(cls, other: object) -> bool:
        return other is _OWN

    def __hash__(cls) -> int:
        return hash(_OWN)


_OWN: Any = torch.device


class PluginDevice(metaclass=_Renamed):
    """What some plugins put in the place of `torch.device`: it makes devices of torch's own class."""

    def __new__(cls, *arguments: Any) -> Any:
        return _OWN(*arguments)


def test_a_plugin_that_replaces_the_class_of_devices_hides_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "device", PluginDevice)
    backend: Any = SimpleNamespace(DEVICE_TYPE="meta", INTEGER_DEVICE=True)
    devices = Devices(backend)
    for named in ("cuda", "cuda:1", torch.device("cuda"), torch.device("cuda", 1)):
        assert devices.of(named).type == "meta"
    assert devices.of(torch.device("cpu")).type == "cpu"
