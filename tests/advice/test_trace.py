"""Advice that rests on a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.advice.programs import CLEAN, worse
from tests.profiling.traces import host, kineto, launched, linear, step, work, written
from torchferry.cli import cli
from torchferry.core.errors import TorchferryError

LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def run(folder: Path, trace: Path, *words: object, target: str = "npu") -> Result:
    return CliRunner().invoke(
        cli, ["advise", "-j", "1", "-t", target, "--trace", str(trace), str(folder), *map(str, words)]
    )


def advice(folder: Path, events: list[Any], target: str = "npu", **header: Any) -> list[dict[str, Any]]:
    trace = written(folder / "trace.pt.trace.json", kineto(events, **header))
    result = run(folder, trace, "-f", "json", target=target)
    assert result.exit_code == 0, result.output
    return list(json.loads(result.output)["advice"])


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(CLEAN["cnn"], encoding="utf-8")
    return tmp_path


BUSY = launched("aten::addmm", 1, 3, 96, 1, **linear(dtype="c10::BFloat16"))
"""A step of 100 in which the device computes nearly all the time, in bfloat16."""


def convolution(start: float, strides: list[int], number: int, dtype: str = "c10::BFloat16") -> list[Any]:
    shapes = {"Input Dims": [[8, 3, 16, 16]], "Input Strides": [strides], "Input type": [dtype]}
    return launched("aten::convolution", start, start + 8, 20, number, **shapes)


NHWC, NCHW = [768, 1, 48, 3], [768, 256, 16, 1]

SEEN: dict[str, tuple[list[Any], str, float | None, str]] = {
    # what: events of a step, the kind of the first advice, its share, a part of the figure
    "data": (
        [host("user_annotation", LOADING, 0, 60), *launched("aten::addmm", 62, 70, 30, 1)],
        "slow-data", 0.7, "waits for the next batch",
    ),
    "float32": (launched("aten::addmm", 1, 10, 80, 1, **linear()), "mixed-precision", 0.8, "products and convolutions"),
    "waits": (
        [*launched("aten::addmm", 1, 10, 40, 1), host("cpu_op", "aten::_local_scalar_dense", 30, 60)],
        "host-wait", 0.6, "for the device: 1 a step",
    ),
    "fall back": (
        [*BUSY, host("cpu_op", "aten::mode", 20, 40), host("cpu_op", "aten::_to_cpu", 22, 5)],
        "cpu-fallback", 0.4, "aten::mode ran on the CPU; calls a step: 1",
    ),
    "slow operator": (launched("aten::silu", 1, 10, 80, 1), "slow-operator", 0.8, "aten::silu take"),
    "host processor": (
        [*launched("aten::mul", 1, 3, 60, 1, **linear(dtype="c10::complex<double>")),
         *launched("aten::mul", 64, 67, 32, 2, **linear(dtype="c10::complex<float>"))],
        "host-processor", 0.6, "aten::mul of complex128; calls a step: 1",
    ),
    "communication": (
        [*launched("aten::addmm", 1, 10, 40, 1), work("kernel", "ncclDevKernel_AllReduce", 55, 40, 2)],
        "bucket-size", 0.4, "collectives during which nothing is computed",
    ),
    "layout": (
        [
            *convolution(1, NHWC, 1),
            *convolution(29, NCHW, 2),
            *launched("aten::add_", 52, 57, 20, 3),
            *launched("aten::addmm", 62, 77, 20, 4, **linear(dtype="c10::Half")),
        ],
        "layout-lost", 0.2, "with inputs in channels_last: 1; without: 1",
    ),
    "memory": (
        [*BUSY, {"ph": "i", "name": "[memory]", "ts": 5, "pid": 1, "tid": 1,
                 "args": {"Device Type": 1, "Device Id": 0, "Total Allocated": 1 << 30, "Total Reserved": 2 << 30}}],
        "batch-size", None, "at most 2.0 GiB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_what_a_trace_shows_comes_first(what: str, clean: Path) -> None:
    events, kind, share, figure = SEEN[what]
    pieces = advice(clean, [step(0, 0, 100), *events], "musa" if what == "layout" else "npu")
    assert pieces, what
    assert pieces[0]["kind"] == kind
    assert pieces[0]["evidence"] == "trace"
    assert figure in pieces[0]["figure"]
    assert pieces[0]["share"] == (None if share is None else pytest.approx(share, abs=0.12))


def test_a_clean_trace_of_a_clean_program_gives_none(clean: Path) -> None:
    assert advice(clean, [step(0, 0, 100), *BUSY]) == []
    assert (
        advice(
            clean,
            [
                step(0, 0, 100),
                *convolution(1, NHWC, 1),
                *launched("aten::addmm", 15, 30, 65, 2, **linear(dtype="c10::Half")),
            ],
            target="musa",
        )
        == []
    )


@pytest.mark.parametrize(("waits", "told"), [(23, []), (40, ["slow-data"])])
def test_on_a_cpu_workers_that_keep_up_are_waited_for_too(clean: Path, waits: int, told: list[str]) -> None:
    loading = LOADING.replace("Single", "Multi")
    rest = host("cpu_op", "aten::addmm", waits, 100 - waits, **linear(dtype="c10::BFloat16"))
    pieces = advice(clean, [step(0, 0, 100), host("user_annotation", loading, 0, waits), rest])
    assert [piece["kind"] for piece in pieces] == told


@pytest.mark.parametrize(
    ("what", "kind"), [("item", "host-wait"), ("no workers", "loader-workers"), ("AdamW", "fused-optimizer"),
                       ("pageable", "pinned-memory"), ("float32", "mixed-precision")],
)  # fmt: skip
def test_what_the_trace_contradicts_is_left_out(what: str, kind: str, tmp_path: Path) -> None:
    text, target, _, _ = worse(what)
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    assert kind not in [piece["kind"] for piece in advice(tmp_path, [step(0, 0, 100), *BUSY], target)]


def test_the_largest_share_comes_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(worse("no workers")[0], encoding="utf-8")
    events = [
        step(0, 0, 200),
        host("user_annotation", LOADING, 0, 90),
        *launched("aten::addmm", 92, 100, 60, 1, **linear()),
    ]
    pieces = advice(tmp_path, events)
    shares = [piece["share"] for piece in pieces if piece["share"] is not None]
    assert pieces[0]["kind"] == "loader-workers"
    assert shares == sorted(shares, reverse=True)


def test_a_rehearsed_trace_gives_counts_and_no_times(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(worse("item")[0], encoding="utf-8")
    mark = "torchferry fall back: aten::mode#train.py:29"
    events = [
        step(0, 0, 100),
        host("user_annotation", LOADING, 0, 60),
        host("cpu_op", "aten::mm", 61, 30, **linear(dtype="c10::BFloat16")),
        host("cpu_op", "aten::_local_scalar_dense", 92, 1),
        host("user_annotation", mark, 95, 1),
    ]
    trace = written(
        tmp_path / "trace.json", kineto(events, torchferry={"rehearsal": "npu@2.13.0", "program": "train.py"})
    )
    document = json.loads(run(tmp_path, trace, "-f", "json").output)
    assert document["measured"] is False
    pieces = {piece["kind"]: piece for piece in document["advice"]}
    assert set(pieces) == {"host-wait", "cpu-fallback"}
    assert all(piece["share"] is None for piece in pieces.values())
    assert pieces["cpu-fallback"]["places"][0]["line"] == 29
    assert "the trace was rehearsed: only its calls, dtypes and layouts are used" in run(tmp_path, trace).output


def test_a_trace_of_another_program_is_refused(clean: Path) -> None:
    other = written(clean / "other.json", kineto([step(0, 0, 100), *BUSY], torchferry={"program": "finetune.py"}))
    refused = run(clean, other)
    assert refused.exit_code != 0
    assert isinstance(refused.exception, TorchferryError)
    assert "the trace is of finetune.py" in str(refused.exception.message)
    assert run(clean, other, "--force").exit_code == 0
    own = written(clean / "own.json", kineto([step(0, 0, 100), *BUSY], torchferry={"program": "train.py"}))
    assert run(clean, own).exit_code == 0
    module = host("user_annotation", "nn.Module: Unheard_0", 0, 99)
    unnamed = written(clean / "unnamed.json", kineto([step(0, 0, 100), module, *BUSY]))
    assert "modules of the trace are Unheard, and this code has none" in run(clean, unnamed).output


def test_a_trace_without_steps_or_a_broken_one_is_said_to_be_so(clean: Path) -> None:
    without = written(clean / "without.json", kineto(BUSY))
    assert "the trace marks no steps" in run(clean, without).output
    broken = clean / "broken.json"
    text = json.dumps(kineto([step(0, 0, 100), *BUSY]))
    broken.write_text(text[: text.rindex("}, {")], encoding="utf-8")
    assert "INCOMPLETE" in run(clean, broken).output
    nothing = written(clean / "nothing.json", {"traceEvents": []})
    assert run(clean, nothing).exit_code != 0
