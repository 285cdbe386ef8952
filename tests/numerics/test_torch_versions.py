"""What stands in on an older torch gives what torch itself gives: both are there on the tested one."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

from torchferry.numerics.framework import torch_versions


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what torch has from 2.3 and 2.4 on."""
    monkeypatch.delattr(torch.amp, "is_autocast_available")
    monkeypatch.delattr(torch._C, "_get_accelerator")
    monkeypatch.delattr(torch, "get_device_module", raising=False)
    monkeypatch.setattr(torch_versions, "_NORMS_HAVE_DTYPE", False)


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_of_the_cpu_is_read_as_torch_says_it(
    on: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.autocast("cpu", dtype=dtype, enabled=on):
        expected = torch_versions.autocast_state("cpu")
        monkeypatch.delattr(torch.amp, "is_autocast_available")
        assert torch_versions.autocast_state("cpu") == expected == (on, torch.get_autocast_dtype("cpu"))


@pytest.mark.usefixtures("older")
def test_autocast_of_a_card_is_read_from_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(is_autocast_enabled=lambda: True, get_autocast_dtype=lambda: torch.bfloat16)
    monkeypatch.setattr(torch, "somecard", module, raising=False)
    assert torch_versions.autocast_state("somecard") == (True, torch.bfloat16)
    assert torch_versions.autocast_state("nobodys") is None
    assert torch_versions.device_module("somecard") is module


@pytest.mark.usefixtures("older")
def test_the_accelerator_is_the_plugins_then_cudas_then_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "somecard")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert torch_versions.accelerator() == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert torch_versions.accelerator() == "cuda"
    monkeypatch.setattr(torch, "somecard", object(), raising=False)
    assert torch_versions.accelerator() == "somecard"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_norms_are_computed_in_float32_where_they_take_no_dtype(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = [torch.full((300,), 200.0, dtype=dtype), torch.randn(7, 5).to(dtype), torch.tensor([float("inf")])]
    expected = torch_versions.norms(tensors)
    assert torch_versions._NORMS_HAVE_DTYPE
    monkeypatch.setattr(torch_versions, "_NORMS_HAVE_DTYPE", False)
    torch.testing.assert_close(torch_versions.norms(tensors), expected, rtol=0, atol=0)
    assert torch.isfinite(expected[0])  # beyond float16


@pytest.mark.parametrize("watched", [torch_versions.watched, torch_versions._watched_by_torch])
def test_a_storage_is_watched_until_it_is_gone(watched: object) -> None:
    assert callable(watched)
    tensor = torch.ones(3)
    ask = watched(tensor.untyped_storage())
    gc.collect()
    assert ask() is not None
    del tensor
    gc.collect()
    assert ask() is None


def test_dtypes_that_torch_lacks_are_left_out() -> None:
    assert torch_versions.by_dtype({"float32": 1, "float2_never": 2}) == {torch.float32: 1}
