"""Two runs side by side, and the commands that show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.profiling.traces import host, kineto, launched, linear, step, two_steps, work, written
from torchferry.cli import cli
from torchferry.profiling.comparison import compare, open_run


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["profile", *map(str, words)])


def test_the_parts_sum_to_the_difference_of_the_step(tmp_path: Path) -> None:
    base = open_run(written(tmp_path / "base.json", kineto(two_steps())))
    target = open_run(written(tmp_path / "target.json", kineto(two_steps(2.0))))
    comparison = compare(base, target)
    assert not comparison.obstacles
    assert comparison.difference == pytest.approx(100_000)
    assert sum(part.difference for part in comparison.parts) == pytest.approx(comparison.difference)
    assert comparison.operators[0].name == "aten::addmm"
    assert comparison.operators[0].difference == pytest.approx(30_000)
    assert comparison.interval is None
    again = compare(base, target, [base], [target])
    assert again.interval is not None
    assert list(again.interval) == pytest.approx([100_000, 100_000])


SLOWER: dict[str, tuple[list[dict[str, Any]], str]] = {
    "kernel": (launched("aten::addmm", 12, 20, 90, 1, **linear()), "the largest difference is compute"),
    "host": (
        [*launched("aten::addmm", 60, 70, 30, 1, **linear()), host("python_function", "sleep", 0, 60)],
        "the largest difference is idle",
    ),
    "loader": (
        [
            host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60),
            *launched("aten::addmm", 62, 70, 30, 1, **linear()),
        ],
        "the largest difference is data loading",
    ),
    "copy": (
        [
            *launched("aten::addmm", 12, 20, 30, 1, **linear()),
            work("gpu_memcpy", "Memcpy HtoD", 50, 40, 9, bytes=1),
        ],
        "the largest difference is exposed copies",
    ),
    "collective": (
        [*launched("aten::addmm", 12, 20, 30, 1, **linear()), work("kernel", "ncclKernel", 50, 40, 9)],
        "the largest difference is exposed communication",
    ),
}


@pytest.mark.parametrize("planted", SLOWER)
def test_a_planted_slowdown_is_named_first(planted: str, tmp_path: Path) -> None:
    fast = [step(0, 0, 52), *launched("aten::addmm", 12, 20, 30, 1, **linear())]
    events, named = SLOWER[planted]
    written(tmp_path / "base.json", kineto(fast))
    written(tmp_path / "target.json", kineto([step(0, 0, 112), *events]))
    result = run("compare", tmp_path / "base.json", tmp_path / "target.json")
    assert result.exit_code == 0, result.output
    assert named in result.output


def strided(strides: list[int]) -> dict[str, Any]:
    """Return the arguments of a convolution whose input lies so."""
    return {"Input Dims": [[8, 3, 16, 16]], "Input Strides": [strides], "Input type": ["float"]}


CAUSES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "operator": ([], launched("aten::erf", 45, 55, 50, 2), "aten::erf: +0.050 ms a step (0.000 -> 0.050)"),
    "loader": (
        [],
        [host("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 42, 60)],
        "the host waits for the next batch: 0.000 ms a step in the base, 0.060 ms in the target",
    ),
    "wait": (
        [],
        [host("cpu_op", "aten::_local_scalar_dense", 44, 2), host("cuda_runtime", "cudaStreamSynchronize", 47, 9)],
        "numbers read from tensors: 0 a step in the base, 1 in the target; calls that wait for the device: 0 and 1",
    ),
    "the optimizer's own": (
        [],
        [host("user_annotation", "Optimizer.step#SGD.step", 43, 9), host("cpu_op", "aten::_local_scalar_dense", 44, 2)],
        "",
    ),
    "fall back": (
        [],
        [host("cpu_op", "aten::mode", 43, 9), host("cpu_op", "aten::_to_cpu", 44, 2)],
        "aten::mode runs on the CPU only in the target; calls a step: 1",
    ),
    "layout": (
        launched("aten::convolution", 43, 52, 9, 3, **strided([768, 1, 48, 3])),
        launched("aten::convolution", 43, 52, 9, 3, **strided([768, 256, 16, 1])),
        "of the convolutions of a step, 1 have inputs in channels_last in the base and 0 in the target",
    ),
}


@pytest.mark.parametrize("what", CAUSES)
def test_what_makes_the_difference_is_named(what: str, tmp_path: Path) -> None:
    base, target, cause = CAUSES[what]
    common = launched("aten::addmm", 12, 20, 22, 1, **linear())
    paths = [
        written(tmp_path / "base.json", kineto([step(0, 0, 50), *common, *base])),
        written(tmp_path / "target.json", kineto([step(0, 0, 110), *common, *target])),
    ]
    document = json.loads(run("compare", *paths, "-f", "json").output)
    assert document["causes"][:1] == ([cause] if cause else [])
    assert f"  {cause}\n" in run("compare", *paths).output if cause else True


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            kineto(two_steps(**linear((32, 8)))),
            "aten::addmm has inputs of 16x8 8x4 in the base, of 32x8 8x4 in the target",
        ),
        (kineto(two_steps(**linear(dtype="c10::Half"))), "aten::addmm computes in float in the base, in c10::Half"),
        (kineto(two_steps(), distributedInfo={"rank": 0, "world_size": 4}), "the base ran on 1 ranks, the target on 4"),
        (
            kineto([event for event in two_steps() if "Step" not in event["name"]]),
            "marks no steps, and the other trace does",
        ),
        (kineto([step(0, 0, 100), host("cpu_op", "aten::addmm", 1, 5, **linear())]), "has no work of a device"),
        (kineto(two_steps(), torchferry={"rehearsal": "npu@2.13.0"}), "was rehearsed: its times are those of a CPU"),
        (kineto([*two_steps(), {"ph": "X", "cat": "cpu_op", "name": "x"}]), "1 event has no time"),
        (
            kineto([*two_steps(), *launched("aten::addmm", 80, 90, 1, 77, **linear())]),
            "aten::addmm is called 1 times a step in the base, 1.5 in the target",
        ),
    ],
)
def test_what_is_not_comparable_is_refused(other: dict[str, Any], reason: str, tmp_path: Path) -> None:
    base = written(tmp_path / "base.json", kineto(two_steps()))
    target = written(tmp_path / "target.json", other)
    refused = run("compare", base, target)
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert not refused.stdout
    forced = run("compare", base, target, "--force")
    assert forced.exit_code == 0
    assert (
        f"NOT COMPARABLE: {reason}" in forced.output.replace(str(target), "").replace(": : ", ": ")
        or reason in forced.output
    )


def test_what_was_not_recorded_was_not_compared(tmp_path: Path) -> None:
    events = [event for event in two_steps() if not event["args"].pop("Input Dims", None) or True]
    base = written(tmp_path / "base.json", kineto(events))
    assert "not compared: shapes and dtypes were not recorded" in run("compare", base, base).output


def test_the_slowest_rank_comes_first_and_missing_ones_are_named(tmp_path: Path) -> None:
    for rank, scale in ((0, 1.0), (2, 1.2)):
        info = {"rank": rank, "world_size": 3, "backend": "nccl"}
        events = two_steps()
        for event in events:
            if event["name"] == "kernel_of_aten::addmm":
                event["dur"] *= scale
        written(tmp_path / "run" / f"worker{rank}.pt.trace.json", kineto(events, distributedInfo=info))
    result = run("show", tmp_path / "run")
    assert "no trace of ranks 1" in result.output
    lines = result.output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("rank (the slowest first)"))
    assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["2", "0"]


def test_bandwidth_is_told_by_collective_and_size(tmp_path: Path) -> None:
    def trace(name: str, collective: str, time: float) -> Path:
        message: dict[str, Any] = {"In msg nelems": 1_000_000, "dtype": "Float", "Collective name": collective}
        events = [
            *(step(number, 1000 * number, 1000) for number in (0, 1)),
            *(work("kernel", "ncclKernel", 10 + at, time, 9, **message) for at in (0, 400, 1000)),
            work("kernel", "ncclKernel", 1500, 100, 9),
        ]
        return written(tmp_path / f"{name}.json", kineto([*events, *launched("aten::addmm", 0, 0, 5, 1, **linear())]))

    base, target = trace("base", "allreduce", 200), trace("target", "all_reduce", 400)
    shown = run("show", base).output
    (row,) = (line.split() for line in shown.splitlines() if "allreduce" in line)
    assert row == ["allreduce", "3.8", "MiB", "0.300", "30.0", "1.5", "20"]  # 4 MB in 0.2 ms
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("  ncclKernel"))
    assert row[1:] == ["?", "0.050", "5.0", "0.5", "?"]
    compared = run("compare", base, target).output
    (row,) = (line.split() for line in compared.splitlines() if line.startswith("  allreduce"))
    assert row == ["allreduce", "3.8", "MiB", "20", "10", "1.5", "->", "1.5"]
    document = json.loads(run("compare", base, target, "-f", "json").output)
    assert document["collectives"][0]["base"] == pytest.approx(20e9)
    for form in ("html", "json"):
        assert run("show", base, "-f", form).exit_code == 0
    assert "20" in run("compare", base, target, "-f", "html").output


def test_a_hundred_ranks_of_which_three_are_missing(tmp_path: Path) -> None:
    for rank in set(range(100)) - {3, 50, 99}:
        info = {"rank": rank, "world_size": 100, "backend": "nccl"}
        written(tmp_path / "run" / f"worker{rank}.pt.trace.json", kineto(two_steps(), distributedInfo=info))
    shown = run("show", tmp_path / "run").output
    assert "rank 0 of 100" in shown
    assert "no trace of ranks 3, 50, 99" in shown
    assert json.loads(run("show", tmp_path / "run", "-f", "json").output)["missing_ranks"] == [3, 50, 99]


def test_all_forms_say_the_same(tmp_path: Path) -> None:
    path = written(tmp_path / "</script><b>.json", kineto(two_steps()))
    document = json.loads(run("show", path, "-f", "json").output)
    assert document["format"] == "torchferry trace summary"
    assert document["ranks"][0]["steps"][0]["compute"] == 30_000
    assert run("show", path, "-f", "csv").output.splitlines()[0].startswith("name,detail,calls")
    for by, row in (
        ("shape", "aten::addmm 16x8 8x4 | float"),
        ("kernel", "ncclDevKernel"),
        ("module", "outside of modules"),
        ("stack", "profile --stack -- COMMAND"),
    ):
        assert row in run("show", path, "--by", by).output
    page = run("show", path, "-f", "html").output
    assert "<b>.json" not in page
    data = page.partition('id="timeline-data">')[2].partition("</script>")[0]
    lanes = json.loads(data)["runs"][0]["lanes"]
    assert sum(len(lane["slices"]) for lane in lanes) == len(two_steps())
    target = written(tmp_path / "target.json", kineto(two_steps(2.0)))
    both = run("compare", path, target, "-f", "html").output
    assert len(json.loads(both.partition('id="timeline-data">')[2].partition("</script>")[0])["runs"]) == 2
    compared = json.loads(run("compare", path, target, "-f", "json").output)
    assert compared["comparable"] is True
    assert compared["step"] == {"base": 100_000, "target": 200_000, "interval": None}
    assert run("compare", path, target, "-f", "csv").output.splitlines()[1].startswith("aten::addmm,30000.0,60000.0")
    svg = tmp_path / "flame.svg"
    assert run("show", path, "--flame", svg, "--lang", "zh").exit_code == 0
    assert svg.read_text(encoding="utf-8").startswith("<svg")
