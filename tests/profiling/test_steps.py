"""Which work belongs to which step, and what a trace does not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.profiling.traces import DEVICE, HOST, host, kineto, launched, step, two_steps, work, written
from torchferry.cli import cli
from torchferry.profiling.comparison import open_run
from torchferry.profiling.reading import read
from torchferry.profiling.summary import Summary, summarise


def summary_of(events: Any, folder: Path, **header: Any) -> Summary:
    return summarise(read(written(folder / "t.json", kineto(events, **header))))


def shown(path: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["profile", "show", str(path), *options])
    return done.exit_code, done.output


def far_ahead(count: int = 3) -> list[Any]:
    """Return steps whose host needs 20 and whose device needs 100; it begins when 150 of earlier work are done."""
    events: list[Any] = []
    for number in range(count):
        events += [step(number, 20 * number, 20)]
        events += launched("aten::mm", 20 * number + 2, 150 + 100 * number, 100, number + 1)
    return events


def test_work_that_was_queued_before_the_recording_is_in_no_step(tmp_path: Path) -> None:
    before = [work("kernel", "earlier", 10 * at, 10, 900 + at) for at in range(15)]
    summary = summary_of([*before, *far_ahead()], tmp_path)
    assert summary.step_times == [100_000] * 3
    assert [each.parts[0] for each in summary.steps] == [100_000] * 3
    assert summary.leading == (15, 150_000)
    assert summary.unlinked == (0, 0)
    assert {row.name for row in summary.rows("kernel")} == {"kernel_of_aten::mm"}
    assert "" not in {row.name for row in summary.rows("operator")}
    assert "15 kernels or copies were queued before the recording began (0.150 ms)" in shown(tmp_path / "t.json")[1]


ON_ANOTHER_STREAM = {
    "a copy of a stream that has work of the steps too": (
        [
            work("gpu_memcpy", "Memcpy HtoD", 0, 30, 901, 9),
            host("cuda_runtime", "cudaMemcpyAsync", 6, 2, correlation=70),
            work("gpu_memcpy", "Memcpy HtoD", 35, 5, 70, 9),
        ],
        1,
    ),
    "a stream of which no start was recorded is not known to lead": ([work("kernel", "k", 0, 5, 901, 9)], 0),
    "a start that was lost in the middle of a stream is not earlier": (
        [work("kernel", "lost", 255, 5, 0)],
        0,
    ),
}


@pytest.mark.parametrize("what", ON_ANOTHER_STREAM)
def test_only_what_stands_before_all_recorded_work_of_its_stream_leads(what: str, tmp_path: Path) -> None:
    events, leading = ON_ANOTHER_STREAM[what]
    summary = summary_of([*events, *far_ahead()], tmp_path)
    assert summary.leading[0] == leading
    assert sum(sum(each.parts) for each in summary.steps) == sum(summary.step_times)


def test_a_trace_without_marks_leaves_the_queue_aside_too(tmp_path: Path) -> None:
    events = [event for event in far_ahead() if not event["name"].startswith("ProfilerStep")]
    summary = summary_of([work("kernel", "earlier", 0, 150, 900), *events], tmp_path)
    assert (summary.marked, summary.leading, summary.step_times) == (False, (1, 150_000), [300_000])


def cycle(begin: float, steps: int, *, ended: bool) -> dict[str, Any]:
    """Return a trace of a rank as a loop leaves it whose last `step()` begins one more step."""
    events: list[Any] = []
    for number in range(steps):
        at = begin + 100.0 * number
        events += [step(number, at, 99), host("cpu_op", "aten::mm", at + 10, 50)]
    if ended:
        last = begin + 100.0 * steps
        events += [step(steps, last, 5), host("python_function", "train.py(1): <module>", last + 1, 2)]
    return kineto(events, distributedInfo={"rank": 0, "world_size": 1})


@pytest.mark.parametrize(
    ("steps", "counted", "earlier", "cut_short", "says"),
    [
        ((2, 2, 0), 2, 1, 1, "1 later trace is not counted"),
        ((2, 1), 1, 1, 0, "1 step at the end is not counted"),
        ((2, 0, 0), 2, 0, 2, "2 later traces are not counted"),
        ((0, 2), 2, 1, 0, "1 earlier trace in the folder is not counted"),
    ],
)
def test_a_cycle_that_the_loop_left_at_once_does_not_count(
    steps: tuple[int, ...], counted: int, earlier: int, cut_short: int, says: str, tmp_path: Path
) -> None:
    for number, count in enumerate(steps):
        written(tmp_path / f"worker0.{number}.pt.trace.json", cycle(1000.0 * number, count, ended=True))
    run = open_run(tmp_path)
    assert (len(run.first.steps), run.earlier, run.cut_short) == (counted, earlier, cut_short)
    code, text = shown(tmp_path)
    assert says in text
    assert "aten::mm" in text
    assert code == 0


def test_a_cycle_without_any_work_is_said_and_is_no_success(tmp_path: Path) -> None:
    code, text = shown(written(tmp_path / "t.json", cycle(0, 0, ended=True)))
    assert code == 1
    assert "the program did nothing in these steps" in text


def test_a_step_that_the_device_overtook_is_said(tmp_path: Path) -> None:
    events = [step(0, 0, 10), *launched("aten::mm", 1, 10, 500, 1), step(1, 10, 10), step(2, 20, 10)]
    events += launched("aten::mm", 21, 510, 50, 2)
    summary = summary_of(events, tmp_path)
    assert (len(summary.steps), summary.hidden) == (2, 1)
    assert "1 step has no time of its own" in shown(tmp_path / "t.json")[1]


def unknown(category: str, process: int, count: int = 3) -> list[Any]:
    event = {"ph": "X", "cat": category, "name": "work", "pid": process, "tid": 801, "dur": 5}
    return [{**event, "ts": 10 + 10 * number} for number in range(count)]


CPU = [step(0, 0, 100), host("cpu_op", "aten::mm", 10, 50)]
LAUNCHES = [*CPU, host("cuda_runtime", "cudaLaunchKernel", 20, 2, correlation=5)]
NAMELESS: dict[str, Any] = {"deviceProperties": []}


@pytest.mark.parametrize(
    ("events", "header", "code", "says", "never"),
    [
        (CPU, NAMELESS, 0, "one process, CPU only", "understood"),
        ([*CPU, *unknown("xtia_events", 9)], NAMELESS, 1, "a device that is not understood (xtia_events)", "CPU only"),
        ([*CPU, *unknown("xtia_events", 9)], {}, 1, "Card of Tests, of whose work nothing is measured", "CPU only"),
        ([*CPU, *unknown("gc", HOST)], NAMELESS, 0, "3 events of category `gc` are not understood", "a device that"),
        (LAUNCHES, NAMELESS, 1, "1 call starts work of a device, and the trace has nothing of it", "CPU only"),
        ([*two_steps(), *unknown("more", 9)], {}, 0, "3 events of category `more` are not understood", "CPU only"),
        (two_steps(), {}, 0, "Card of Tests, 2 steps", "INCOMPLETE"),
    ],
)
def test_a_device_that_is_not_measured_is_never_the_cpu(
    events: list[Any], header: dict[str, Any], code: int, says: str, never: str, tmp_path: Path
) -> None:
    ended, text = shown(written(tmp_path / "t.json", kineto(events, **header)))
    assert (ended, says in text, never in text) == (code, True, False)


def test_a_trace_that_was_cut_before_its_kernels_is_said_and_is_no_success(tmp_path: Path) -> None:
    events = two_steps()
    hosts = [event for event in events if event["pid"] != DEVICE]
    whole = json.dumps({"traceEvents": [*hosts, *(event for event in events if event["pid"] == DEVICE)]})
    path = tmp_path / "t.json"
    path.write_text(whole[: whole.index('"cat": "kernel"') - 3])
    code, text = shown(path)
    assert code == 1
    assert "INCOMPLETE" in text
    assert "CPU only" not in text
    assert "4 calls start work of a device" in text
    for form in ("json", "html", "csv"):
        assert shown(path, "-f", form)[0] == 1
    path.write_text(whole)
    assert shown(path)[0] == 0
