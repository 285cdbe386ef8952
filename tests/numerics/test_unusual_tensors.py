"""One tensor that a tool cannot copy or read: it is left out and named, and everything else stays examined."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from tests.numerics.wrong import Wrong, times  # noqa: E402
from torchferry.numerics import CompareWithCPU, NanInfTracker  # noqa: E402
from torchferry.numerics.nan import watch  # noqa: E402
from torchferry.numerics.nan.diagnosis import Examiner  # noqa: E402
from torchferry.numerics.recording import Recorder  # noqa: E402
from torchferry.numerics.runlog.record import read_record  # noqa: E402


class Refusing(Tensor):
    """A tensor that its device's plugin does not copy."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func.overloadpacket in (torch.ops.aten.clone, torch.ops.aten._to_copy, torch.ops.aten.copy_):
            raise NotImplementedError(f"no {func}")
        out = Tensor.__torch_dispatch__(func, types, args, kwargs or {})
        return refusing() if func.overloadpacket is torch.ops.aten.detach else out


def refusing() -> Tensor:
    made: Tensor = Tensor._make_subclass(Refusing, torch.ones(3))
    return made


def sparse() -> Tensor:
    made: Tensor = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), (8, 8))
    return made


def inference() -> Tensor:
    with torch.inference_mode():
        made: Tensor = torch.ones(8)
    return made


UNUSUAL: dict[str, Callable[[], Tensor]] = {
    "refuses to be copied": refusing,
    "sparse": sparse,
    "sparse, compressed": lambda: sparse().to_dense().to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "nested, jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(8), 0.1, 0, torch.quint8),
    "meta": lambda: torch.ones(3, device="meta"),
    "of inference mode": inference,
    "elements share memory": lambda: torch.ones(1, 8).expand(8, 8),
    "eight bits": lambda: torch.ones(8).to(torch.float8_e4m3fn),
}


class Model(nn.Module):
    """A layer, running statistics, and a buffer of a kind; from a step on its results are not finite."""

    def __init__(self, make: Callable[[], Tensor]) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
        self.make, self.bad = make, False
        self.register_buffer("odd", make())

    def forward(self, x: Tensor, odd: Tensor) -> dict[str, Any]:
        y = self.norm(self.layer(x))
        if self.bad:
            y = torch.log(y * 0 - 1)
        return {"scores": y, "odd": [odd, self.make()]}


def train(make: Callable[[], Tensor], steps: int = 5, bad: int = 99, after: Callable[[], None] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = Model(make)
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        for step in range(steps):
            model.bad = step >= bad
            model(torch.randn(4, 8), make())["scores"].sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if after is not None:
                after()


@pytest.mark.parametrize("level", ["watch", "operator"])
@pytest.mark.parametrize("kind", UNUSUAL)
def test_nan_goes_on_beside_it(kind: str, level: Any) -> None:
    with NanInfTracker(level=level) as tracker:
        train(UNUSUAL[kind], bad=3)
    found = tracker.document()
    assert (found["bad_steps"][0], found["failures"]) == (3, {})
    assert [one["operator"] for one in found["findings"][0]["origins"]] == ["aten.log"]
    if kind == "refuses to be copied":
        assert "the buffer Model.odd cannot be copied" in found["left_out"][0]
        assert found["left_out"][0] in found["findings"][0]["notes"]


@pytest.mark.parametrize("kind", UNUSUAL)
def test_compare_goes_on_beside_it(kind: str) -> None:
    with Wrong("addmm", times(1.1)) as wrong, CompareWithCPU(every=True, quiet=True) as compare:
        train(UNUSUAL[kind], after=compare.step)
    found = compare.document()
    first = found["operators"][found["first_failure"]]
    assert (first["operator"], first["step"], found["counts"]["fail"]) == ("aten.addmm", 0, wrong.calls)


@pytest.mark.parametrize("kind", UNUSUAL)
def test_record_goes_on_beside_it(kind: str, tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        train(UNUSUAL[kind], after=recorder.step)
        result = recorder.stop()
    steps = read_record(tmp_path / "r").ranks[0].steps
    assert (len(steps), result["ended"], result["failures"]) == (5, "", {})
    rows = steps[4].rows()
    assert rows is not None
    assert {"aten.addmm", "aten.native_batch_norm_backward"} <= {key.operator for key in rows.keys}


def test_a_failure_of_the_tool_costs_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))
    original = watch.bad_tensors

    def fails_once(*args: Any) -> bool:
        if next(calls) == 1:
            raise ValueError("of a plugin")
        return original(*args)

    monkeypatch.setattr(watch, "bad_tensors", fails_once)
    with NanInfTracker(level="watch") as tracker:
        train(lambda: torch.ones(2), bad=3)
    found = tracker.document()
    assert found["failures"] == {"ValueError: of a plugin": 1}
    assert "of a plugin" in found["error"]
    assert found["findings"][0]["origins"][0]["operator"] == "aten.log"


def test_a_bad_step_is_told_where_it_cannot_be_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("of a plugin")

    monkeypatch.setattr(Examiner, "_forwards", fails)
    with NanInfTracker(level="watch") as tracker:
        train(lambda: torch.ones(2), bad=3)
    (finding,) = tracker.document()["findings"]
    assert finding["step"] == 3
    assert any("ValueError: of a plugin" in note for note in finding["notes"])


def test_a_result_that_leads_back_to_itself(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Result:
        scores: Tensor
        whole: Any = None

    class Circular(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            result = Result(super().forward(x).log())
            result.whole = [result]
            return result

    model = Circular(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    with NanInfTracker(level="watch") as tracker:
        model(torch.ones(4, 8)).scores.sum().backward()
        optimizer.step()
    found = tracker.document()
    assert found["failures"] == {}
    assert found["findings"][0]["origins"][0]["operator"] == "aten.log"
