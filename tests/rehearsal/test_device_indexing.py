"""Reading and writing by index: the same as on the CPU, for indices on either side."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
functional = torch.nn.functional

pytestmark = pytest.mark.rehearsal

READ: dict[str, Callable[[Any, Any], Any]] = {
    "integer": lambda x, i: x[1],
    "slice": lambda x, i: x[1:, ::2],
    "none": lambda x, i: x[None, ..., 0],
    "list": lambda x, i: x[[0, 2]],
    "tensor": lambda x, i: x[i],
    "two tensors": lambda x, i: x[i, i],
    "tensor and slice": lambda x, i: x[:, i],
    "tensor on the cpu": lambda x, i: x[i.cpu()],
    "mask": lambda x, i: x[x > 0],
    "mask of rows": lambda x, i: x[x.sum(1) > 0],
    "scalar tensor": lambda x, i: x[i[0]],
    "gather": lambda x, i: x.gather(1, i[None].expand(5, 2)),
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: x.take_along_dim(x.argsort(1), 1),
    "index_select": lambda x, i: x.index_select(1, i),
    "masked_select": lambda x, i: x.masked_select(x < 0),
    "nonzero": lambda x, i: (x > 0).nonzero(),
    "where": lambda x, i: torch.where(x > 0)[1],
    "where of numbers": lambda x, i: torch.where(x > 0, 1.0, x),
    "one_hot": lambda x, i: functional.one_hot(i, 5),
    "embedding": lambda x, i: functional.embedding(i, x),
    "sort": lambda x, i: x.sort(1).indices,
    "topk": lambda x, i: x.topk(2).values,
    "unique": lambda x, i: (x > 0).unique(return_counts=True)[1],
    "bincount": lambda x, i: i.bincount(minlength=4),
    "searchsorted": lambda x, i: torch.searchsorted(x[0].sort().values, x[1]),
}

WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "number": lambda x, i: x.__setitem__(0, 3.0),
    "rows": lambda x, i: x.__setitem__(i, 0),
    "mask": lambda x, i: x.__setitem__(x > 1, 9),
    "tensor from the cpu": lambda x, i: x.__setitem__(0, torch.ones(6)),
    "slice": lambda x, i: x.__setitem__((slice(None), slice(1, 3)), torch.zeros(2, device=x.device)),
    "step": lambda x, i: x.__setitem__((slice(0, None, 2), 1), x[:3, 0]),
    "accumulate": lambda x, i: x.index_put_((torch.zeros_like(i),), x[:2].clone(), accumulate=True),
    "index_add": lambda x, i: x.index_add_(0, i, x[:2].clone()),
    "index_copy": lambda x, i: x.index_copy_(1, i, x[:, :2].clone()),
    "index_fill": lambda x, i: x.index_fill_(0, i, 4),
    "scatter": lambda x, i: x.scatter_(1, i[None].expand(5, 2), 7.0),
    "scatter_add": lambda x, i: x.scatter_add_(1, i[None].expand(5, 2), x[:, :2].clone()),
    "scatter_reduce": lambda x, i: x.scatter_reduce_(1, i[None].expand(5, 2), x[:, 2:4].clone(), "amax"),
    "masked_fill": lambda x, i: x.masked_fill_(x < 0, float("-inf")),
    "masked_scatter": lambda x, i: x.masked_scatter_(x < 0, x.abs()),
    "put": lambda x, i: x.put_(i, x[0, :2].clone()),
    "diagonal": lambda x, i: x.fill_diagonal_(1.0),
    "flip": lambda x, i: x.copy_(x.flip(0)),
    "roll": lambda x, i: x.copy_(x.roll(1, 1)),
}


@pytest.fixture
def values() -> Any:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("way", READ)
def test_reading(device: str, values: Any, way: str) -> None:
    index = torch.tensor([0, 2])
    found = READ[way](values.to(device), index.to(device))
    assert found.device.type == device
    assert torch.equal(found.cpu(), READ[way](values, index))


@pytest.mark.parametrize("way", WRITTEN)
def test_writing(device: str, values: Any, way: str) -> None:
    index = torch.tensor([0, 2])
    there = values.to(device)
    address = there.data_ptr()
    WRITTEN[way](there, index.to(device))
    WRITTEN[way](values, index)
    assert torch.equal(there.cpu(), values)
    assert there.data_ptr() == address


def test_an_index_out_of_range_is_refused(device: str) -> None:
    with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds)"):
        torch.ones(3, device=device)[torch.tensor([5], device=device)]


MIXED: dict[str, Callable[[Any, str], Any]] = {
    "cpu tensor, device index": lambda x, d: x.cpu()[torch.tensor([1], device=d)],
    "cpu tensor, device mask": lambda x, d: x.cpu()[x > 0],
    "index on another device": lambda x, d: x[torch.tensor([1], device=f"{d}:1")],
    "values from the cpu": lambda x, d: x.__setitem__(torch.tensor([1, 2], device=d), torch.ones(2, 6)),
    "values from another device": lambda x, d: x.__setitem__(torch.tensor([1]), torch.ones(1, 6, device=f"{d}:1")),
    "cpu tensor written": lambda x, d: x.cpu().__setitem__(torch.tensor([1]), x[:1]),
}


@pytest.mark.parametrize("way", MIXED)
def test_only_the_index_may_be_on_the_cpu(device: str, values: Any, way: str) -> None:
    with pytest.raises(RuntimeError, match=r"same device"):
        MIXED[way](values.to(device), device)


@pytest.mark.parametrize(
    ("way", "indexed"),
    [("cpu tensor, device index", "cpu"), ("cpu tensor, device mask", "cpu"), ("index on another device", "{}:0")],
)
def test_a_wrong_index_is_refused_in_pytorchs_words(device: str, values: Any, way: str, indexed: str) -> None:
    words = f"indices should be either on cpu or on the same device as the indexed tensor ({indexed.format(device)})"
    with pytest.raises(RuntimeError, match=re.escape(words)):
        MIXED[way](values.to(device), device)


def test_a_number_from_the_cpu_is_put(device: str, values: Any) -> None:
    there = values.to(device)
    there[torch.tensor([0, 1], device=device)] = torch.tensor(5.0)
    assert there[:2].eq(5).all()
