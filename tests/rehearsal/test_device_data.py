"""Feeding the device: page-locked memory and data loaders with worker processes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
data = torch.utils.data

pytestmark = pytest.mark.rehearsal


class OnDevice(data.Dataset):  # type: ignore[misc,name-defined]
    """Uses the device where it must not: in a worker that was forked."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.full((2,), float(index), device=self.device).cpu()


def test_pinned_memory(device: str) -> None:
    plain = torch.arange(6.0).view(2, 3)
    pinned = plain.pin_memory()
    assert pinned.is_pinned()
    assert not plain.is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, plain)
    assert pinned[1:].is_pinned()
    assert torch.equal(pinned.to(device, non_blocking=True).cpu(), plain)
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert not torch.empty(3).is_pinned()


def test_device_memory_is_not_pinned(device: str) -> None:
    assert not torch.ones(2, device=device).is_pinned()
    with pytest.raises(RuntimeError, match=r"only dense CPU tensors can be pinned|cannot pin"):
        torch.ones(2, device=device).pin_memory()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device=device, pin_memory=True)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("named", [False, True])
def test_a_loader_pins_its_batches(device: str, workers: int, named: bool) -> None:
    dataset = data.TensorDataset(torch.randn(32, 3), torch.arange(32))
    options = {"pin_memory_device": device} if named else {}
    seen = 0
    for inputs, labels in data.DataLoader(dataset, batch_size=8, num_workers=workers, pin_memory=True, **options):
        assert inputs.is_pinned()
        assert labels.is_pinned()
        there = inputs.to(device, non_blocking=True)
        assert torch.equal(there.cpu(), inputs)
        seen += there.shape[0]
    assert seen == 32


def test_workers_are_seeded_apart(device: str) -> None:
    torch.ones(1, device=device)
    torch.manual_seed(0)
    seeds = [loader_seeds(), loader_seeds()]
    assert len(seeds[0]) == 2
    assert seeds[0] != seeds[1]
    torch.manual_seed(0)
    assert loader_seeds() == seeds[0]


class Seeds(data.Dataset):  # type: ignore[misc,name-defined]
    """The seed of the worker."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return int(torch.initial_seed())


def loader_seeds() -> list[int]:
    return [int(seed) for seed in data.DataLoader(Seeds(), batch_size=None, num_workers=2)]


def test_a_forked_worker_cannot_use_the_device(device: str) -> None:
    torch.ones(1, device=device)  # the parent has used it
    with pytest.raises(RuntimeError, match="Cannot re-initialize SDAA in forked subprocess"):
        list(data.DataLoader(OnDevice(device), num_workers=1, multiprocessing_context="fork"))


def test_a_loader_on_the_default_device(device: str) -> None:
    generator = torch.Generator(device=device).manual_seed(0)
    with torch.device(device):
        loader = data.DataLoader(data.TensorDataset(torch.arange(8)), batch_size=4, shuffle=True, generator=generator)
        batches = [batch for (batch,) in loader]
    assert sorted(torch.cat(batches).tolist()) == list(range(8))
    assert batches[0].device.type == device
