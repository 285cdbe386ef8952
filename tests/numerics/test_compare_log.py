"""What CompareWithCPU writes, and what it says of what it did not compare."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.numerics.wrong import Wrong, times  # noqa: E402
from torchferry.numerics import CompareWithCPU, ModuleInfo, open_module_tracker  # noqa: E402
from torchferry.numerics.callfile import writing  # noqa: E402
from torchferry.numerics.compare import ComparisonFailed  # noqa: E402
from torchferry.numerics.replay import read  # noqa: E402
from torchferry.numerics.report.compare import lines  # noqa: E402

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native
    from torchferry.rehearsal.session import Session


def test_a_log_is_added_to_and_names_the_standard(tmp_path: Path) -> None:
    def tool() -> CompareWithCPU:
        return CompareWithCPU(should_log_to_file=True, output_dir=tmp_path, standard="torch")

    twice = tool()
    with Wrong("sin", times(2)), twice:
        torch.ones(3).sin()
    with Wrong("cos", times(2)), twice:
        torch.ones(3).cos()
    with Wrong("tan", times(2)), tool():
        torch.ones(3).tan()
    text = (tmp_path / "compare_result_rank0.txt").read_text()
    assert [name for name in ("sin", "cos", "tan") if f"[ERROR] torch.ops.aten.{name}(forward)" in text] == [
        "sin",
        "cos",
        "tan",
    ]
    assert text.count("standard: torch (torch.testing") == 3
    assert twice.document()["standard"] == "torch"
    assert twice.document()["source"].startswith("torch.testing")


@pytest.mark.parametrize("name", ["skip_op", "white_list"])
def test_a_verbose_log_says_what_is_done_with_each_call(capsys: pytest.CaptureFixture[str], name: str) -> None:
    skipped: dict[str, Any] = {name: ["sin"]}
    with CompareWithCPU(verbose=True, **skipped):
        torch.ones(3).view(3, 1).sin().cos()
    said = capsys.readouterr().out
    assert "torch.ops.aten.view(forward) is not compared: view" in said
    assert "torch.ops.aten.sin(forward) is not compared: left out on request" in said
    begun = said.index("torch.ops.aten.cos(forward) starts to run ...")
    assert begun < said.index("torch.ops.aten.cos(forward) succeeds to pass CompareWithCPU test")


def test_a_call_that_cannot_be_written_is_named_and_stops_the_program(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tool = CompareWithCPU(dump_error_data=True, output_dir=tmp_path / "file", quiet=True)
    with pytest.raises(ComparisonFailed, match=r"aten\.sin") as failed, Wrong("sin", times(2)), tool:
        torch.ones(3).sin()
    assert "the call could not be written: cannot write" in " ".join(failed.value.lines())
    assert tool.document()["replay"] == []


@pytest.mark.rehearsal
def test_a_large_call_is_made_smaller_while_it_fails(
    native: Native, rehearsed: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert writing.write.__kwdefaults__ is not None
    monkeypatch.setitem(writing.write.__kwdefaults__, "limit", 1000)
    tool = CompareWithCPU(dump_error_data=True, output_dir=tmp_path, quiet=True)
    given = torch.ones(4096).to(rehearsed.backend.DEVICE_TYPE)
    native.set_fault("aten::sin", "noise", 1.0, 0)
    try:
        with pytest.raises(ComparisonFailed), tool:
            given.sin()
    finally:
        native.set_fault("aten::sin", "noise", 0.0, 1 << 60)
    [path] = tool.written
    call = read(path)
    assert call.document["tensors"][0]["shape"] == [128]
    assert call.document["described"] == []


def test_graphs_of_earlier_steps_are_forgotten_without_step() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tool = CompareWithCPU(quiet=True)
    kept = []
    with tool:
        for _ in range(12):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            [thread] = tool.attribution._threads
            kept.append(len(thread.origins) + len(thread.before))
    assert kept[-1] <= kept[1]


def test_forward_passes_in_other_threads_are_counted() -> None:
    model = nn.Linear(4, 4)
    tool = CompareWithCPU(quiet=True)
    with tool:
        model(torch.ones(2, 4))
        for _ in range(3):
            thread = threading.Thread(target=lambda: model(torch.ones(2, 4)))
            thread.start()
            thread.join()
    assert tool.document()["in_other_threads"] == 3
    assert tool.document()["counts"]["pass"] >= 1


@pytest.mark.parametrize(
    ("options", "steps", "why"),
    [
        ({"target_op": ["aten.adddmm"]}, 0, "no operator with the name aten.adddmm was called"),
        ({"start_step": 5}, 2, "the program ended after 2 steps; see --start-step, --end-step and what was skipped"),
    ],
)
def test_why_nothing_was_compared(options: dict[str, object], steps: int, why: str) -> None:
    tool = CompareWithCPU(quiet=True, **options)
    with tool:
        torch.ones(3).sin()
        for _ in range(steps):
            tool.step()
    rank = {"rank": 0, "process": 1, **tool.document()}
    found = {"standard": "ours", "source": "-", "broken": [], "ranks": [rank]}
    assert list(lines(found, "en"))[-1] == f"NOTHING WAS COMPARED: {why}"


def test_the_names_of_the_manual_are_there() -> None:
    open_module_tracker(nn.Linear(2, 2))
    assert ModuleInfo("Linear", ModuleInfo("Block", ModuleInfo("GPT"))).name_with_prefix() == "GPT/Block/Linear"


@pytest.mark.parametrize("standard", ["ours", "given", "torch"])
def test_the_first_wrong_elements_are_listed_by_the_tolerance_that_judges(
    capsys: pytest.CaptureFixture[str], standard: str
) -> None:
    """All of 32 differ from the reference, one of them by much: by a narrow tolerance all are wrong."""

    def change(out: Any, args: Any) -> Any:
        out += 3e-5
        out[3] += 10
        return out

    options: dict[str, Any] = {} if standard == "torch" else {"atol": 1e-6, "rtol": 1e-6}
    with Wrong("mul.Tensor", change), CompareWithCPU(standard=standard, **options) as tool:
        torch.ones(32).mul(2.0)
    said = capsys.readouterr().out
    listed = [line for line in said.splitlines() if line.startswith("Element at index")]
    assert [line.partition(" is")[0] for line in listed] == [f"Element at index ({number},)" for number in range(20)]
    assert listed[0].endswith("2.000030040740967 (cpu) vs 2.0 (cpu), 3.00407e-05 apart")
    assert listed[3].endswith("10 apart")
    assert "total 32" in said
    assert [row["off"] for row in tool.document()["operators"] if row["operator"] == "aten.mul.Tensor"] == [32]
