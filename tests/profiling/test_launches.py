"""Launches, queues, communication behind computing, and what a step waits for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiling.test_steps import summary_of
from tests.profiling.traces import AUTOGRAD, host, kineto, launched, step, two_steps, work, written
from torchferry.cli import cli
from torchferry.profiling.critical_path import LINKS, critical_path, typical_step
from torchferry.profiling.launches import FULL


def launch(start: float, length: float, correlation: int, thread: int = 4711) -> dict[str, Any]:
    return host("cuda_runtime", "cudaLaunchKernel", start, length, thread, correlation=correlation)


def test_launches_by_call(tmp_path: Path) -> None:
    events = [step(0, 0, 1000)]
    # (call, its length, begin of the kernel, its length): a usual one, a late one, a slow call, a short kernel
    for number, (at, length, begin, lasts) in enumerate(
        [(10, 4, 20, 9), (30, 4, 200, 9), (50, 60, 300, 90), (120, 4, 400, 1)]
    ):
        events += [launch(at, length, number + 1), work("kernel", "k", begin, lasts, number + 1)]
    (row,) = summary_of(events, tmp_path).launches
    assert (row.name, row.calls, row.late, row.slow, row.short) == ("cudaLaunchKernel", 4, 3, 1, 1)
    assert (row.host, row.device, row.delay, row.delay_most) == (4_000, 9_000, 178_000, 276_000)


def test_a_graph_is_one_launch(tmp_path: Path) -> None:
    events = [step(0, 0, 100), host("cuda_runtime", "cudaGraphLaunch", 5, 3, correlation=1)]
    events += [work("kernel", "k", 10 + 10 * number, 8, 1) for number in range(4)]
    summary = summary_of(events, tmp_path)
    assert [(row.name, row.calls, row.delay) for row in summary.launches] == [("cudaGraphLaunch", 1, 2_000)]
    assert summary.queues[0].most == 4


def test_the_queue_grows_with_calls_and_shrinks_with_begins(tmp_path: Path) -> None:
    events = [step(0, 0, 100)]
    events += [launch(number, 1, number + 1) for number in range(4)]
    events += [work("kernel", "k", 10 + 20 * number, 20, number + 1) for number in range(4)]
    (row,) = summary_of(events, tmp_path).queues
    assert (row.device, row.stream, row.works, row.most, row.median, row.mean, row.full) == (0, 7, 4, 4, 2, 2.0, 0)
    events = [step(0, 0, 9000)]
    events += [launch(number, 0.5, number + 1) for number in range(FULL)]
    events += [work("kernel", "k", 2000 + number, 1, number + 1) for number in range(FULL)]
    (row,) = summary_of(events, tmp_path).queues
    assert (row.most, row.full) == (FULL, (2000 - FULL + 1) * 1000)


def test_communication_behind_computing(tmp_path: Path) -> None:
    summary = summary_of(two_steps(), tmp_path)  # a collective from 40 to 60, a kernel from 20 to 50, in each
    assert (summary.overlap.communication, summary.overlap.hidden, summary.overlap.share) == (40_000, 20_000, 0.5)


def path_of(events: list[Any], folder: Path) -> dict[str, int]:
    summary = summary_of(events, folder)
    assert summary.path is not None
    assert sum(summary.path.parts) == summary.path.window[1] - summary.path.window[0]
    return {kind: time for kind, time in zip(LINKS, summary.path.parts, strict=True) if time}


SYNC = host("cuda_runtime", "cudaDeviceSynchronize", 30, 60, correlation=99)
PATHS: dict[str, tuple[list[Any], dict[str, int]]] = {
    "the host is slower than the device": (
        [step(0, 0, 100), *launched("aten::mm", 10, 17, 2, 1), *launched("aten::mm", 85, 92, 8, 2)],
        {"outside": 75, "operators": 12, "driver": 4, "launch": 1, "compute": 8},
    ),
    "the device is behind, and its works wait in a stream": (
        [step(0, 0, 30), *launched("aten::mm", 2, 10, 40, 1), *launched("aten::mm", 14, 52, 40, 2)],
        {"operators": 4, "driver": 2, "launch": 2, "compute": 80, "gap": 2, "outside": 2},
    ),
    "the host waits for the device": (
        [step(0, 0, 100), *launched("aten::mm", 10, 17, 70, 1), SYNC],
        {"outside": 20, "operators": 4, "driver": 5, "launch": 1, "compute": 70},
    ),
    "the backward is on another thread": (
        [
            step(0, 0, 100),
            host("cpu_op", "aten::linear", 10, 20),
            host("cpu_op", "aten::mm", 40, 40, AUTOGRAD),
            launch(70, 5, 1, AUTOGRAD),
            work("kernel", "k", 75, 25, 1),
        ],
        {"outside": 20, "operators": 50, "driver": 5, "compute": 25},
    ),
    "a stream waits for another": (
        [
            step(0, 0, 100),
            launch(0, 5, 1),
            host("cuda_runtime", "cudaStreamWaitEvent", 6, 1, correlation=3),
            launch(8, 2, 2),
            work("kernel", "ncclDevKernel_AllReduce", 10, 60, 1, 20),
            work("kernel", "k", 72, 28, 2),
        ],
        {"driver": 5, "launch": 5, "communication": 60, "gap": 2, "compute": 28},
    ),
}


@pytest.mark.parametrize("what", PATHS)
def test_what_a_step_waits_for(what: str, tmp_path: Path) -> None:
    events, expected = PATHS[what]
    assert path_of(events, tmp_path) == {kind: 1000 * time for kind, time in expected.items()}


SPANS = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30), st.integers(0, 30), st.integers(0, 2)), max_size=14)


@settings(max_examples=60, deadline=None)
@given(works=SPANS, calls=SPANS, waits=st.booleans())
def test_the_links_of_any_trace_sum_to_the_step(works: list[Any], calls: list[Any], waits: bool) -> None:
    events = [step(0, 0, 50), step(1, 50, 60)]
    for number, (at, length, delay, lane) in enumerate(works):
        events.append(launch(at, length % 7, number + 1, 4711 + lane % 2))
        events.append(work("kernel", f"k{lane}", at + delay - 5, length, number + 1, 7 + lane))
    for number, (at, length, _, lane) in enumerate(calls):
        name = ("aten::mm", "cudaStreamSynchronize", "cudaStreamWaitEvent")[lane if waits else 0]
        category = "cpu_op" if name.startswith("aten") else "cuda_runtime"
        events.append(host(category, name, at, length, 4711 + number % 2, correlation=500 + number))
    with tempfile.TemporaryDirectory() as folder:
        summary = summary_of(events, Path(folder))
        for each in summary.steps:
            path = critical_path(summary.trace, summary.links, summary.device, each)
            if path is not None:
                assert sum(path.parts) == each.time
                assert min(path.parts) >= 0
    assert typical_step(summary.steps) in summary.steps


def test_text_and_page_say_the_same_of_them(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", kineto(two_steps()))
    text, page = (
        CliRunner().invoke(cli, ["profile", "show", str(path), "-f", form, "--lang", "en"]).output
        for form in ("text", "html")
    )
    for words in (
        "calls that start work",
        "queues of the streams",
        "what ProfilerStep#0 waits for (critical path)",
        "50.0 % of the communication is hidden behind computing",
        "median ms",
        "% of a step",
        "what is shortened here shortens the step",
    ):
        assert words in text, words
        assert words in page, words
    assert "the device communicates and does not compute meanwhile" in page
    assert "one row for each stream of the device" in page
    chinese = CliRunner().invoke(cli, ["profile", "show", str(path), "--lang", "zh"]).output
    assert "关键路径" in chinese
