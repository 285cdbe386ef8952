"""Where the time of a step goes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profiling.test_reading import NPU_ROWS
from tests.profiling.traces import AUTOGRAD, host, kineto, launched, step, two_steps, work, written
from torchferry.profiling import flame
from torchferry.profiling.intervals import cut, difference, intersection, length, union
from torchferry.profiling.reading import read
from torchferry.profiling.steps import PARTS
from torchferry.profiling.summary import BY, DISPATCHED, Summary, summarise

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def points(intervals: list[tuple[int, int]]) -> set[int]:
    return {point for start, end in intervals for point in range(start, end)}


@given(first=SPANS, second=SPANS, window=st.tuples(st.integers(0, 30), st.integers(30, 60)))
def test_sets_of_times_behave_as_sets(
    first: list[tuple[int, int]], second: list[tuple[int, int]], window: tuple[int, int]
) -> None:
    left, right = union(first), union(second)
    assert points(left) == points(first)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(left))
    assert length(left) == len(points(first))
    assert points(intersection(left, right)) == points(first) & points(second)
    assert points(difference(left, right)) == points(first) - points(second)
    assert points(cut(left, window)) == points(first) & set(range(*window))


def summary_of(events: Any, folder: Path, **header: Any) -> Summary:
    return summarise(read(written(folder / "t.json", kineto(events, **header))))


def test_the_parts_of_a_step_are_those_that_were_put_in(tmp_path: Path) -> None:
    summary = summary_of(two_steps(), tmp_path)
    assert [step.name for step in summary.steps] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert summary.step_times == [100_000, 100_000]
    for each in summary.steps:
        # kernels from 20 to 50, a collective from 40 to 60, a copy from 70 to 75, the loader from 0 to 10
        assert dict(zip(PARTS, each.parts, strict=True)) == {
            "compute": 30_000,
            "communication": 10_000,
            "copies": 5_000,
            "data": 10_000,
            "idle": 45_000,
        }
    rows = {row.name: row for row in summary.rows("operator")}
    assert rows["aten::addmm"].device_self == 60_000
    assert rows["aten::addmm"].calls == 2
    assert rows["c10d::allreduce_"].device_self == 40_000
    assert summary.waits[0][:3] == ("cudaStreamSynchronize", "aten::copy_", 2)
    assert summary.copies[0][1:] == (2, 10_000, 8192)
    assert summary.unlinked == (0, 0)
    assert {row.name for row in summary.rows("kernel")} >= {"kernel_of_aten::addmm"}


def test_a_host_far_ahead_does_not_shift_time_between_steps(tmp_path: Path) -> None:
    events = []
    for number in range(4):  # the host makes a step in 20, the device needs 100
        events += [step(number, 20 * number, 20)]
        events += launched("aten::mm", 20 * number + 2, 10 + 100 * number, 100, number + 1)
    assert summary_of(events, tmp_path).step_times == [110_000, 100_000, 100_000, 100_000]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset"]),
            st.integers(0, 90),
            st.integers(0, 40),
            st.booleans(),
        ),
        max_size=15,
    )
)
def test_the_parts_always_sum_to_the_step(spans: list[tuple[str, int, int, bool]]) -> None:
    import tempfile

    events = [step(0, 0, 50), step(1, 50, 50), host("cpu_op", "aten::mm", 0, 5)]
    for category, start, duration, is_collective in spans:
        name = "ncclDevKernel" if is_collective else "k"
        events.append(work(category, name, start, duration, 0))
    with tempfile.TemporaryDirectory() as folder:
        summary = summary_of(events, Path(folder))
    for each in summary.steps:
        assert sum(each.parts) == each.time
        assert min(each.parts) >= 0


def test_a_trace_of_the_cpu_counts_operators_once(tmp_path: Path) -> None:
    events = [
        step(0, 0, 100),
        host("cpu_op", "aten::linear", 10, 40),
        host("cpu_op", "aten::addmm", 15, 30),
        host("cpu_op", "aten::addmm", 16, 20),  # dispatched again
        host("cpu_op", "aten::_to_cpu", 17, 2),
        host("cpu_op", "aten::mm", 60, 20, thread=AUTOGRAD),
        host("cpu_op", "aten::_local_scalar_dense", 90, 1),
    ]
    summary = summary_of(events, tmp_path)
    assert not summary.on_device
    assert summary.steps[0].parts == (61_000, 0, 0, 0, 39_000)
    rows = {row.name: row for row in summary.rows("operator")}
    assert (rows["aten::addmm"].calls, rows["aten::addmm"].host, rows["aten::addmm"].host_self) == (1, 30_000, 28_000)
    assert rows["aten::linear"].host_self == 10_000
    assert summary.fallbacks == (("aten::addmm", 1),)
    assert summary.numbers_read == 1


def test_modules_hold_their_operators_and_those_of_their_backward(tmp_path: Path) -> None:
    sequence = {"Sequence number": 5}
    events = [
        step(0, 0, 100),
        host("user_annotation", "nn.Module: Net_0", 1, 40),
        host("python_function", "nn.Module: Linear_0", 2, 30),
        *launched("aten::addmm", 5, 20, 10, 1, **sequence, **{"Fwd thread id": 0}),
        host(
            "cpu_op",
            "autograd::engine::evaluate_function: AddmmBackward0",
            50,
            30,
            AUTOGRAD,
            **sequence,
            **{"Fwd thread id": 1},
        ),
        host("cpu_op", "aten::mm", 55, 20, AUTOGRAD),
        host("cuda_runtime", "cudaLaunchKernel", 60, 2, AUTOGRAD, correlation=2),
        work("kernel", "k", 65, 7, 2),
        *launched("aten::add_", 85, 95, 3, 3),
    ]
    rows = {row.name: row.device_self for row in summary_of(events, tmp_path).rows("module")}
    assert rows == {"Net_0.Linear_0": 17_000, "": 3_000}


def test_stacks_are_of_the_program_and_the_backward_has_its_forwards(tmp_path: Path) -> None:
    sequence = {"Sequence number": 5}
    frames = ["train.py(9): <module>", "train.py(5): step", "torch/nn/functional.py(1): linear", "<built-in linear>"]
    events = [
        step(0, 0, 100),
        *(host("python_function", name, 1 + depth, 40 - 2 * depth) for depth, name in enumerate(frames)),
        *launched("aten::addmm", 10, 20, 10, 1, **sequence, **{"Fwd thread id": 0}),
        host("cpu_op", "AddmmBackward0", 50, 30, AUTOGRAD, **sequence, **{"Fwd thread id": 1}),
        host("cuda_runtime", "cudaLaunchKernel", 60, 2, AUTOGRAD, correlation=2),
        work("kernel", "k", 65, 7, 2),
        *launched("aten::add_", 85, 95, 3, 3),
    ]
    rows = {row.name: row.device_self for row in summary_of(events, tmp_path).rows("stack")}
    assert rows == {"train.py(5): step < train.py(9): <module>": 17_000, "": 3_000}


def test_arrows_link_work_and_what_a_plugin_calls_counts_for_torchs_operator(tmp_path: Path) -> None:
    summary = summarise(read(written(tmp_path / "trace_view.json", NPU_ROWS)))
    assert not summary.marked
    assert {row.name: row.device_self for row in summary.rows("operator")}["aclnnMm"] == 50_250
    assert {row.name: row.device_self for row in summary.rows(DISPATCHED)}["aten::mm"] == 50_250
    assert summary.unlinked == (2, 8_000)
    assert summary.waits[0].name == "AscendCL@aclrtSynchronizeStream"


def test_without_records_all_tables_stay(tmp_path: Path) -> None:
    summary = summary_of(two_steps(), tmp_path)
    light = summary.without_records()
    assert not light.trace.calls
    assert all(light.rows(by) == summary.rows(by) for by in (*BY, DISPATCHED))


def test_a_flame_graph_shows_names_as_text(tmp_path: Path) -> None:
    events = [
        step(0, 0, 100),
        *launched("<script>alert(1)</script>", 5, 20, 10, 1),
        *launched("aten::mm", 30, 50, 40, 2),
    ]
    drawn = flame.draw(summary_of(events, tmp_path), "en")
    assert "<script>" not in drawn
    assert "aten::mm: 0.040 ms on the device, 80.0 %" in drawn
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_frame_too_narrow_for_its_name_has_no_text_and_a_thinner_one_is_left_out(tmp_path: Path) -> None:
    """A graph of a large model has thousands of frames: empty texts would be most of its file."""
    events = [
        step(0, 0, 10_100),
        *launched("aten::mm", 5, 20, 9_940, 1),
        *launched("aten::narrow", 9_970, 9_980, 50, 2),
        *launched("aten::thin", 10_040, 10_050, 10, 3),
    ]
    drawn = flame.draw(summary_of(events, tmp_path), "en")
    assert re.findall(r"<title>(\S+):", drawn) == ["aten::mm", "aten::narrow"]
    assert re.findall(r"<text[^>]*>([^<]*)", drawn)[1:] == ["aten::mm"]


@pytest.mark.parametrize(("shift", "told"), [(0, False), (-90, True)])
def test_clocks_that_do_not_agree_are_told(shift: float, told: bool, tmp_path: Path) -> None:
    events = [step(0, 0, 200), *launched("aten::mm", 100, 110 + shift, 10, 1)]
    assert (summary_of(events, tmp_path).early > 0) is told
