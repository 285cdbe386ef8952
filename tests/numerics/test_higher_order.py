"""Operators that call others, and compiled parts, below each mode of ours: the program runs as it does alone."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from torchferry.numerics import CompareWithCPU, NanInfTracker, Recorder  # noqa: E402
from torchferry.numerics.framework.dispatch import _STANCE  # noqa: E402
from torchferry.numerics.runlog.record import read_record  # noqa: E402


class Branches(nn.Module):
    """A model with a branch that is an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        result: Tensor = torch.cond(x.sum() > 1e9, lambda v: v.sin(), lambda v: v.cos() + 1, (x,))
        return result


class Attention(nn.Module):
    """A model with attention that is not compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():  # on the CPU torch has no backward for it
            q = self.layer(x)
            scores: Any = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score + (i - j))
        result: Tensor = self.layer(scores)
        return result


class Own(TorchDispatchMode):
    """A mode of the program's own."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "cond": (Branches, (2, 3), "aten.cos"),
    "flex_attention": (Attention, (1, 2, 16, 8), "aten._safe_softmax"),
}
TOOLS: dict[str, Callable[[Path], AbstractContextManager[Any]]] = {
    "compare": lambda folder: CompareWithCPU(quiet=True, every=True),
    "nan watch": lambda folder: NanInfTracker(level="watch"),
    "nan operator": lambda folder: NanInfTracker(level="operator"),
    "record": lambda folder: Recorder(folder / "r"),
}


@pytest.fixture(autouse=True)
def _calm() -> Iterator[None]:
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert _STANCE._asked == 0


def train(make: Callable[[], nn.Module], shape: tuple[int, ...], wrap: Callable[[Any], Any] = lambda one: one) -> Any:
    """Train a model for two steps, and return what came of it."""
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = wrap(model)
    for _ in range(2):
        run(torch.randn(shape)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_operators_that_call_others_run(tmp_path: Path, program: str, tool: str) -> None:
    make, shape, inside = PROGRAMS[program]
    alone = train(make, shape)
    with TOOLS[tool](tmp_path) as used:
        assert torch.equal(train(make, shape), alone)
        if tool == "record":
            used.step()
    if tool == "compare":
        found = {row["operator"]: row["status"] for row in used.document()["operators"]}
        assert found[inside] == "pass", found
    elif tool == "record":
        kept = read_record(tmp_path / "r").ranks[0].steps[0].rows()
        assert kept is not None
        assert inside in {f"aten.{key.base}" for key in kept.keys}
    else:
        document = used.document()
        assert (document["findings"], document["untested"], document.get("error")) == ([], {}, None)


@pytest.mark.parametrize("level", ["watch", "operator"])
def test_what_turns_bad_inside_is_named(level: Any) -> None:
    class Bad(Branches):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = torch.cond(
                x.sum() > 1e9, lambda v: v.sin(), lambda v: (v * 0 - 1).sqrt(), (self.layer(x),)
            )
            return result

    with NanInfTracker(level=level) as tracker:
        train(Bad, (2, 3))
    origin = tracker.document()["findings"][0]["origins"][0]
    assert (origin["operator"], origin["module"], origin["kind"]) == ("aten.sqrt", "Bad", "nan")


def test_what_is_not_seen_inside_is_said(tmp_path: Path) -> None:
    """A mode of the program's own wants the operator itself."""
    make, shape, inside = PROGRAMS["flex_attention"]
    with Own(), CompareWithCPU(quiet=True, every=True) as compare:
        train(make, shape)
    rows = {row["operator"]: row for row in compare.document("en")["operators"]}
    assert inside not in rows
    assert (rows["higher_order.flex_attention"]["status"], rows["higher_order.flex_attention"]["count"]) == (
        "untested",
        2,
    )
    assert "higher-order" in rows["higher_order.flex_attention"]["reason"]
    with Own(), Recorder(tmp_path / "r") as recorder:
        train(make, shape)
        assert recorder.stop()["skipped"] == {"higher_order.flex_attention (higher-order)": 2}


@pytest.mark.parametrize("tool", ["compare", "nan operator", "record"])
def test_a_compiler_that_is_being_loaded_is_asked_when_it_is(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the compiler is loaded it calls operators itself; torch 2.7 does so in a plugin's import."""
    whole = torch._dynamo
    half = ModuleType("torch._dynamo")
    monkeypatch.setitem(sys.modules, "torch._dynamo", half)
    monkeypatch.setattr(torch, "_dynamo", half)
    with TOOLS[tool](tmp_path):
        torch.ones(1).sin()
        assert _STANCE._asked == 0
        monkeypatch.setitem(sys.modules, "torch._dynamo", whole)
        monkeypatch.setattr(torch, "_dynamo", whole)
        torch.ones(1).cos()
        assert _STANCE._asked == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_compiled_whole_runs(tmp_path: Path, tool: str) -> None:
    def compiled(one: Any) -> Any:
        model = torch.compile(one, backend="aot_eager", fullgraph=True)
        loss = torch.compile(lambda scores: (scores * scores).sum(), backend="aot_eager", fullgraph=True)
        return lambda x: loss(model(x))

    alone = train(lambda: nn.Linear(4, 4), (2, 4), compiled)
    torch.compiler.reset()
    with TOOLS[tool](tmp_path) as used:
        assert torch.allclose(train(lambda: nn.Linear(4, 4), (2, 4), compiled), alone)
    if tool.startswith("nan"):
        document = used.document()
        assert (document["steps"], document["findings"], document.get("error")) == (2, [], None)
