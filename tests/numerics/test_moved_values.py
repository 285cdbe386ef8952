"""Operators that only move values, each wrong once: `compare diff` names the operator itself, and not the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tests.numerics.wrong import Change, Wrong  # noqa: E402
from torchferry.numerics.framework.kinds import moves  # noqa: E402
from torchferry.numerics.recording import Recorder  # noqa: E402
from torchferry.numerics.rundiff.comparison import compare  # noqa: E402
from torchferry.numerics.runlog.record import read_record  # noqa: E402

PLACES = torch.tensor([3, 1, 0, 2, 5, 7, 6, 4])
MASK = torch.arange(64).reshape(8, 8) % 3 == 0

MOVING: dict[str, Callable[[Tensor, nn.Embedding], Tensor]] = {
    "embedding": lambda x, table: table(PLACES) + x,
    "gather": lambda x, table: x.gather(1, PLACES.expand(8, 8)),
    "index.Tensor": lambda x, table: x[PLACES],
    "index_select": lambda x, table: x.index_select(0, PLACES),
    "take": lambda x, table: x.take(PLACES),
    "roll": lambda x, table: x.roll(2, 1),
    "flip": lambda x, table: x.flip(0),
    "cat": lambda x, table: torch.cat([x, x * 2]),
    "stack": lambda x, table: torch.stack([x, x * 2]),
    "where.self": lambda x, table: torch.where(MASK, x, x * 2),
    "constant_pad_nd": lambda x, table: functional.pad(x, (1, 2)),
    "reflection_pad1d": lambda x, table: functional.pad(x, (1, 2), "reflect"),
    "replication_pad1d": lambda x, table: functional.pad(x, (1, 2), "replicate"),
    "repeat": lambda x, table: x.repeat(2, 1),
    "tril": lambda x, table: x.tril(),
    "triu": lambda x, table: x.triu(),
    "masked_select": lambda x, table: x.masked_select(MASK),
    "masked_fill.Scalar": lambda x, table: x.masked_fill(MASK, 3.0),
    "index_fill.int_Scalar": lambda x, table: x.index_fill(0, PLACES[:2], 2.0),
    "scatter.src": lambda x, table: torch.zeros(8, 8).scatter(1, PLACES.expand(8, 8), x),
    "slice_scatter": lambda x, table: x.slice_scatter(x[:2] * 2, 0, 4, 6),
    "pixel_shuffle": lambda x, table: functional.pixel_shuffle(x.reshape(1, 4, 4, 4), 2),
    "im2col": lambda x, table: functional.unfold(x.reshape(1, 1, 8, 8), 3),
    "clone": lambda x, table: x.clone(),
    "_to_copy": lambda x, table: x.to(torch.float64),
    "copy_": lambda x, table: torch.empty(8, 8).copy_(x),
}


def exchanged(out: Any, args: tuple[Any, ...]) -> Any:
    """Exchange two values: the sum, the norm and all statistics stay as they are."""
    with torch.no_grad():
        flat = out.view(-1)
        first, last = flat[1].clone(), flat[-2].clone()
        flat[1], flat[-2] = last, first
    return out


def slightly(out: Any, args: tuple[Any, ...]) -> Any:
    """Change one value by less than what float32 is allowed in an operator that computes."""
    with torch.no_grad():
        flat = out.view(-1)
        flat[flat.abs().argmax()] *= 1 + 2.0**-12
    return out


class Model(nn.Module):
    def __init__(self, move: Callable[[Tensor, nn.Embedding], Tensor]) -> None:
        super().__init__()
        self.table, self.layer, self.move = nn.Embedding(8, 8), nn.Linear(8, 8), move

    def forward(self, x: Tensor) -> Tensor:
        return self.move(self.layer(x), self.table).sin().sum()


def record(folder: Path, move: Callable[[Tensor, nn.Embedding], Tensor], fault: tuple[str, Change] | None) -> Path:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(move)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    seen = 0

    def change(out: Any, args: tuple[Any, ...]) -> Any:
        nonlocal seen
        seen += 1
        assert fault is not None
        return fault[1](out, args)

    with Wrong(fault[0] if fault else "none", change), Recorder(folder) as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 8, generator=torch.Generator().manual_seed(1))).backward()
            optimizer.step()
            recorder.step()
    assert bool(seen) is bool(fault)
    return folder


@pytest.mark.parametrize("fault", [exchanged, slightly], ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", MOVING)
def test_the_operator_itself_is_named(tmp_path: Path, name: str, fault: Change) -> None:
    right = record(tmp_path / "a", MOVING[name], None)
    wrong = record(tmp_path / "b", MOVING[name], (name, fault))
    assert moves(f"aten.{name}")
    copies = name in {"clone", "_to_copy", "copy_"}  # they may round, and are allowed what rounding is
    result = compare(read_record(right), read_record(wrong))
    if fault is slightly and copies:
        return
    assert result.first is not None
    assert (result.first.operator, result.first.step, result.first.phase) == (f"aten.{name}", 0, "forward")
    assert compare(read_record(right), read_record(right)).same
