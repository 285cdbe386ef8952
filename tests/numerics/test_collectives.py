"""What ranks make of their gradients together: two records of runs of three ranks, which this process plays in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchferry.numerics.recording import Recorder
from torchferry.numerics.rundiff.causes import CERTAIN
from torchferry.numerics.rundiff.comparison import compare
from torchferry.numerics.runlog.record import read_record

pytestmark = pytest.mark.rehearsal

RANKS = 3
Reduce = Callable[[int, int, list[Tensor], Tensor], Tensor]
"""Of rank, number of the parameter, the gradients of all ranks and the one of the step before, what a rank gets."""


def batch(step: int, rank: int) -> Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + rank))


def gradients(model: nn.Module, step: int, rank: int) -> list[Tensor]:
    """Return what a rank's own gradients are, computed without a module of it."""
    w1, b1, w2, b2 = held = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    given = batch(step, rank)
    out = functional.linear(functional.relu(functional.linear(given, w1, b1)), w2, b2)
    return list(torch.autograd.grad(functional.mse_loss(out, given[:, :3]), held))


def played(folder: Path, reduce: Reduce, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record a run of three ranks, each by itself; what a collective writes is seen by nobody."""
    monkeypatch.setenv("WORLD_SIZE", str(RANKS))
    torch.set_num_threads(1)
    for rank in range(RANKS):
        monkeypatch.setenv("RANK", str(rank))
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        before = [torch.zeros_like(parameter) for parameter in model.parameters()]
        with Recorder(folder) as recorder:
            for step in range(2):
                recorder._mode.on = False
                every = [gradients(model, step, other) for other in range(RANKS)]
                recorder._mode.on = True
                optimizer.zero_grad()
                given = batch(step, rank)
                functional.mse_loss(model(given), given[:, :3]).backward()
                for number, parameter in enumerate(model.parameters()):
                    assert parameter.grad is not None
                    got = reduce(rank, number, [of_rank[number] for of_rank in every], before[number])
                    before[number] = got.clone()
                    parameter.grad.numpy()[...] = got.numpy()
                optimizer.step()
                recorder.step()
    return folder


def mean(rank: int, number: int, every: list[Tensor], before: Tensor) -> Tensor:
    return torch.stack(every).mean(0)


WRONG: dict[str, tuple[Reduce, str, str]] = {
    "a sum": (lambda rank, number, every, before: torch.stack(every).sum(0), "the sum over 3 ranks", "and 3 more"),
    "one left out": (
        lambda rank, number, every, before: (every[0] + every[1]) / 3, "without the ranks 2", "and 3 more, rank 0",
    ),
    "one rank alone": (
        lambda rank, number, every, before: every[1] if rank == 1 else mean(rank, number, every, before),
        "its own gradient alone", "rank 1",
    ),
    "one parameter not": (
        lambda rank, number, every, before: every[rank] if number == 2 else mean(rank, number, every, before),
        "its own gradient alone", "2.weight, rank 0",
    ),
    "a stale buffer": (
        lambda rank, number, every, before: before
        if number == 0 and before.any() else mean(rank, number, every, before),
        "none of the ranks' gradients of this step", "step 1",
    ),
    "half": (lambda rank, number, every, before: mean(rank, number, every, before) / 2, "0.167 times the sum", ""),
}  # fmt: skip


def test_the_same_collective_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (played(tmp_path / name, mean, monkeypatch) for name in "ab")
    result = compare(read_record(a), read_record(b))
    assert result.same


@pytest.mark.parametrize("name", WRONG)
def test_another_collective_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    reduce, text, where = WRONG[name]
    result = compare(
        read_record(played(tmp_path / "a", mean, monkeypatch)), read_record(played(tmp_path / "b", reduce, monkeypatch))
    )
    assert not result.same
    [cause] = [cause for cause in result.causes if cause.cause == "collective"]
    assert cause.grade == CERTAIN
    assert cause.a == "the mean over 3 ranks"
    assert text in cause.b
    assert where in cause.where
    assert not any(other.cause in {"optimizer step", "gradient scale"} for other in result.causes)
