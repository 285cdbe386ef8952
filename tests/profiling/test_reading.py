"""Traces as they are, and as they should not be."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiling.traces import host, kineto, linear, step, two_steps, work, written
from torchferry.core.errors import TorchferryError
from torchferry.profiling import event_stream
from torchferry.profiling.event_stream import EventStream
from torchferry.profiling.reading import locate, read
from torchferry.profiling.records import COMMUNICATION, COMPUTE, COPY, MODULE, OPERATOR
from torchferry.profiling.values import nanoseconds

NPU_ROWS: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Python"}},
    {"ph": "M", "name": "process_name", "pid": 800, "tid": 0, "args": {"name": "Ascend Hardware"}},
    {"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "args": {"name": "CANN"}},
    {"ph": "M", "name": "process_name", "pid": 950, "tid": 0, "args": {"name": "Overlap Analysis"}},
    {"ph": "X", "name": "aten::mm", "pid": 1, "tid": 5, "ts": "1704161511420306.491", "dur": 13.08, "cat": "cpu_op"},
    {"ph": "X", "name": "aclnnMm", "pid": 1, "tid": 5, "ts": "1704161511420308.000", "dur": 5.0, "cat": "cpu_op"},
    {
        "ph": "X",
        "name": "AscendCL@aclrtSynchronizeStream",
        "pid": 900,
        "tid": 5,
        "ts": "1704161511420400.1",
        "dur": 9.5,
    },
    {"ph": "X", "name": "aclnnMm_MatMulV2", "pid": 800, "tid": 3, "ts": "1704161511420350.204", "dur": 50.25},
    {"ph": "X", "name": "hcom_allReduce__1", "pid": 800, "tid": 4, "ts": "1704161511420405.000", "dur": 7.0},
    {"ph": "X", "name": "MEMCPY_ASYNC", "pid": 800, "tid": 3, "ts": "1704161511420420.000", "dur": 1.0},
    {"ph": "X", "name": "Computing", "pid": 950, "tid": 0, "ts": "1704161511420350.204", "dur": 50.25},
    {"ph": "s", "name": "torch_to_npu", "id": 9, "pid": 1, "tid": 5, "ts": "1704161511420309.5", "cat": "async_npu"},
    {
        "ph": "f",
        "name": "torch_to_npu",
        "id": 9,
        "pid": 800,
        "tid": 3,
        "ts": "1704161511420350.204",
        "cat": "async_npu",
    },
]
"""The layout of torch_npu.profiler, in which the name of a process says what its rows are, of torch_npu 2.13.0."""


def test_categories_become_records_and_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    events = [
        *two_steps(),
        host("python_function", "nn.Module: Linear_0", 11, 20),
        host("cpu_op", "aten::add", 200, 1, **{"Sequence number": 7, "Fwd thread id": 1}),
        host("privateuse1_runtime", "acmeLaunch", 210, 1, correlation=99),
        host("mystery", "?", 1, 1),
        {
            "ph": "i",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 5,
            "args": {"Device Type": 1, "Device Id": 0, "Total Allocated": 10, "Total Reserved": 20},
        },
        {"ph": "X", "cat": "cpu_op", "name": "no time"},
        {"ph": "X", "cat": "cpu_op", "name": "backwards", "ts": 5, "dur": -1},
    ]
    trace = read(
        written(
            tmp_path / "t.json",
            kineto(
                events, distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl"}, host_name="h", torch_version=2
            ),
        )
    )
    assert (trace.rank, trace.world_size, trace.host_name) == (3, 8, "h")
    assert trace.device_names == ("Card of Tests",)
    assert [each.kind for each in trace.work] == [COMPUTE, COMMUNICATION, COPY] * 2
    assert trace.work[2].size == 4096
    assert [call.name for call in trace.calls if call.kind == MODULE] == ["Linear_0"]
    assert next(call for call in trace.calls if call.name == "aten::add")[6:8] == (7, 1)
    assert next(call for call in trace.calls if call.name == "aten::addmm").detail == "16x8 8x4 | float"
    assert trace.unknown == {"mystery": 1}
    assert trace.memory == [(5000, 0, 10, 20)]
    assert [fault.render("en") for fault in trace.faults] == ["1 event has no time", "1 event ends before it begins"]


def test_rows_without_a_category_are_what_their_process_says(tmp_path: Path) -> None:
    trace = read(written(tmp_path / "trace_view.json", NPU_ROWS))
    assert trace.form == "npu"
    assert [each.kind for each in trace.work] == [COMPUTE, COMMUNICATION, COPY]
    assert trace.work[0].start == 1704161511420350204
    assert trace.work[0].end - trace.work[0].start == 50250
    assert trace.origins == {0: (trace.calls[0].thread, 1704161511420309500)}
    assert trace.skipped == {"Overlap Analysis": 1}
    assert trace.unknown == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (12, 12000),
        (1.5, 1500),
        ("1704161511420306.491", 1704161511420306491),
        ("7", 7000),
        ("-0.5", -500),
        ("7.12345", 7123),
        ("1e5", None),
        ("", None),
        (True, None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        ([1], None),
        (10**30, None),
        (-(10**30), None),
        (1e30, None),
        ("9" * 20, None),
        (9_223_372_036_854_775, 9_223_372_036_854_775_000),
        (9_223_372_036_854_776, None),
    ],
)
def test_times_are_whole_nanoseconds(value: object, expected: int | None) -> None:
    assert nanoseconds(value) == expected


@settings(max_examples=40, deadline=None)
@given(chunk=st.integers(1, 200), indent=st.sampled_from([None, 1]), listed=st.booleans())
def test_a_trace_reads_the_same_in_chunks_of_any_size(
    chunk: int, indent: int | None, listed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    events = [*two_steps(), host("cpu_op", 'a "quoted" \\ näme', 1e3, 1.25)]
    document = events if listed else kineto(events, note={"traceEvents": [1]})
    path = tmp_path_factory.mktemp("chunks") / "t.json"
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_stream, "_CHUNK", chunk)
        stream = EventStream(path)
        assert list(stream) == events
    assert stream.fault is None
    assert stream.size == path.stat().st_size
    if not listed:
        assert stream.header["note"] == {"traceEvents": [1]}


INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "tensors": (
        {"Input Dims": [[4, 4], [2, 4], []], "Input type": ["float", "double", "Scalar"]},
        "4x4 2x4 | double,float",
    ),
    "an optional tensor": ({"Input Dims": [[3], []], "Input type": ["float", ""]}, "3 | float"),
    "a list of tensors": ({"Input Dims": [[[4, 4], [2, 4]], []], "Input type": ["TensorList", "Scalar"]}, "[4x4 2x4]"),
    "its dtypes": (
        {"Input Dims": [[[4, 4], [2]], [3]], "Input type": [["float", "int"], "half"]},
        "[4x4 2] 3 | float,half,int",
    ),
    "dtypes of a list alone": ({"Input Dims": [[4, 4]], "Input type": [["float"]]}, "4x4 | float"),
    "text": ({"Input Dims": "4,4;2", "Input type": ["float"]}, "4,4;2 | float"),
    "no tensor": ({"Input Dims": [[], []], "Input type": ["Scalar", ""]}, ""),
}
"""What profilers write of the inputs of an operator, and what is read from it."""


@pytest.mark.parametrize(("arguments", "detail"), INPUTS.values(), ids=INPUTS)
def test_shapes_and_dtypes_of_inputs_are_read(arguments: dict[str, Any], detail: str, tmp_path: Path) -> None:
    trace = read(written(tmp_path / "t.json", kineto([host("cpu_op", "aten::cat", 1, 5, **arguments)])))
    assert trace.calls[0].detail == detail
    assert trace.faults == []


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "Input type": ({"Input Dims": [[4]], "Input type": [{"a": 1}]}, "[...]"),
    "Input Dims": ({"Input Dims": [[[[4]]]]}, "[...]"),
    "Sequence number": ({"Sequence number": [1]}, "[...]"),
    "Fwd thread id": ({"Fwd thread id": 10**30}, "1000000000000000000000000000000"[:30]),
}


@pytest.mark.parametrize(("name", "damage"), DAMAGED.items(), ids=DAMAGED)
def test_a_field_that_no_profiler_writes_is_told_and_the_event_measured(
    name: str, damage: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    trace = read(written(tmp_path / "t.json", kineto([host("cpu_op", "aten::mm", 1, 5, **damage[0])])))
    assert [(call.name, call.end - call.start) for call in trace.calls] == [("aten::mm", 5000)]
    (fault,) = trace.faults
    assert fault.render("en").startswith(f"1 event has a `{name}` that no profiler writes, such as {damage[1]}")


@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", [10**30, 1e30, 9_223_372_036_854_775, [1], float("nan")])
def test_times_beyond_64_bits_are_no_times(field: str, value: object, tmp_path: Path) -> None:
    events = [host("cpu_op", "aten::mm", 1, 5), {**host("cpu_op", "aten::mm", 7, 5), field: value}]
    trace = read(written(tmp_path / "t.json", kineto(events)))
    assert [(call.start, call.end) for call in trace.calls] == [(1000, 6000)]
    assert trace.faults[0].render("en") == "1 event has no time"


def test_a_trace_that_was_cut_off_keeps_what_is_whole_and_says_so(tmp_path: Path) -> None:
    whole = json.dumps(kineto(two_steps())).encode()
    packed = gzip.compress(whole)
    path = tmp_path / "t.json"
    for content in (whole[: len(whole) // 2], packed[: len(packed) // 2], whole.replace(b"aten::copy_", b'"', 1)):
        path.write_bytes(content)
        trace = read(path)
        assert trace.calls
        assert trace.faults[0].render("en").startswith("the trace is incomplete: ")
    path.write_bytes(packed)
    assert read(path).faults == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"ts,dur\n1,2\n", "begins with neither a list nor an object"),
        (b"{}", "it has no `traceEvents`"),
        (b'{"traceEvents": 7}', "it has no `traceEvents`"),
        (b'{"a" 1}', "it is not valid JSON at character"),
        (b'{"a": nope, "traceEvents": []}', "it is not valid JSON: Expecting value"),
        (b"BZh9more", "its compression is not supported"),
        (b'[{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": -1}]', "1 event ends before it begins"),
        (b"(\xb5/\xfdmore", "its compression is not supported"),
        (b'{"traceEvents": []}', "holds nothing that can be measured"),
        (b'[{"ph": "X", "cat": "gc", "name": "x", "ts": 1, "dur": 1}]', "its categories are: gc"),
        (b'{"schemaVersion"', "is cut off before anything that can be measured: it is cut off after byte 16; copy"),
        (b'[{"ph": "M", "a": 2.', "is cut off before anything that can be measured"),
        (gzip.compress(b"[]", mtime=0)[:9], "is cut off before anything that can be measured: its compressed data"),
        (b"[" + b"[" * 100_000, "holds nothing that can be measured"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(TorchferryError) as error:
        read(path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("starts", "told"),
    [
        ((0, 100, 200, 210, 310), ""),
        ((0, 100, 300, 200, 110), "2 operators do not begin after those"),
        ((0, -500, 200, 210, 310), "step 1 does not begin after step 0"),
        ((0, 100, 210_000, 110, 310_000), "1 operator does not begin after the one"),
    ],
)
def test_a_clock_of_the_host_that_was_set_back_is_told(starts: tuple[float, ...], told: str, tmp_path: Path) -> None:
    operators = zip(starts[2:], (4, 5, 6), strict=True)
    numbered = [host("cpu_op", "aten::mm", start, 5, **{"Sequence number": number}) for start, number in operators]
    restarted = [host("cpu_op", "aten::mm", at, 5, 9, **{"Sequence number": number}) for at, number in ((1, 7), (9, 0))]
    trace = read(written(tmp_path / "t.json", [step(0, starts[0], 50), step(1, starts[1], 50), *numbered, *restarted]))
    assert [fault.render("en")[: len(told)] for fault in trace.faults] == ([told] if told else [])


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TorchferryError, match="not a regular file"):
        read(tmp_path / "pipe")


def test_a_folder_holds_a_trace_for_each_rank(tmp_path: Path) -> None:
    document = kineto([step(0, 0, 10), host("cpu_op", "aten::mm", 1, 2, **linear()), work("kernel", "k", 3, 1, 1)])
    for name in ("worker10/worker10.7.0", "worker2/worker2.7.10", "worker2/worker2.7.9"):
        written(tmp_path / "runs" / f"{name}.pt.trace.json", document)
    written(tmp_path / "runs" / "notes.json", {})
    names = [path.name for path in locate(tmp_path / "runs")]
    assert names == ["worker2.7.9.pt.trace.json", "worker2.7.10.pt.trace.json", "worker10.7.0.pt.trace.json"]
    assert read(locate(tmp_path / "runs")[-1]).rank == 10
    npu = written(tmp_path / "npu" / "x_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", NPU_ROWS)
    written(tmp_path / "npu" / "x_ascend_pt" / "profiler_info_5.json", {})
    assert locate(tmp_path / "npu") == [npu]
    assert read(npu).rank == 5
    os.symlink(npu, tmp_path / "link.pt.trace.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TorchferryError, match="no trace in"):
        locate(tmp_path / "empty")


def test_operators_keep_their_kind(tmp_path: Path) -> None:
    trace = read(written(tmp_path / "t.json", two_steps()))
    assert {call.name for call in trace.calls if call.kind == OPERATOR} == {
        "aten::addmm",
        "c10d::allreduce_",
        "aten::copy_",
    }


@pytest.mark.parametrize(
    ("event", "named"),
    {
        "a browser": (
            {"ph": "X", "cat": "devtools.timeline", "name": "RunTask", "ts": 1, "dur": 2},
            "devtools.timeline",
        ),
        "another profiler": ({"ph": "X", "name": "MatMul", "ts": 1, "dur": 2, "pid": 3}, "/device:GPU:0"),
        "pairs of events": ({"ph": "B", "cat": "cpu_op", "name": "aten::mm", "ts": 1}, "-"),
    }.values(),
    ids=["a browser", "another profiler", "pairs of events"],
)
def test_traces_of_other_tools_are_refused_with_what_they_hold(
    event: dict[str, Any], named: str, tmp_path: Path
) -> None:
    process = {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "/device:GPU:0"}}
    path = written(tmp_path / "trace.json", {"displayTimeUnit": "ms", "traceEvents": [process, event]})
    with pytest.raises(TorchferryError) as caught:
        read(path)
    assert "holds nothing that can be measured" in str(caught.value.lines())
    assert f"its categories are: {named}" in str(caught.value.lines())


def test_times_as_numbers_and_as_text_stand_in_one_trace(tmp_path: Path) -> None:
    events = [
        host("cpu_op", "aten::mm", 10, 5),
        {**host("cpu_op", "aten::add", 0, 0), "ts": "1700000000000030.125", "dur": "1.5"},
    ]
    trace = read(written(tmp_path / "trace.json", kineto(events, displayTimeUnit="ns")))
    assert [(call.start, call.end - call.start) for call in trace.calls] == [
        (10_000, 5000),
        (1_700_000_000_000_030_125, 1500),
    ]


KERNELS = """Step Id,Device_id,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)
1,2,16,aclnnMm,MatMulV2,AI_CORE,"1736413971558972.912\t",185.504,1.0
1,2,N/A,hcom_allReduce__445_0,hcom_allReduce_,HCCL,1736413971559200.5,100,0
2,2,16,aclnnMm,MatMulV2,AI_CORE,1736413971560000,200,1
"""


def test_a_table_of_kernels_is_read_alone(tmp_path: Path) -> None:
    folder = tmp_path / "rank_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    folder.mkdir(parents=True)
    (folder.parent / "profiler_info_3.json").write_text("{}", encoding="utf-8")
    path = folder / "kernel_details.csv"
    path.write_text("\ufeff" + KERNELS, encoding="utf-8")
    assert locate(folder) == [path]
    trace = read(path)
    assert trace.rank == 3
    assert [(work.kind, work.device, work.stream) for work in trace.work] == [
        (COMPUTE, 2, 16),
        (COMMUNICATION, 2, -1),
        (COMPUTE, 2, 16),
    ]
    assert trace.work[0].start == 1_736_413_971_558_972_912
    assert trace.work[0].end - trace.work[0].start == 185_504
    assert [(call.name, call.end - call.start) for call in trace.calls] == [
        ("ProfilerStep#1", 327_588),
        ("ProfilerStep#2", 200_000),
    ]
    assert trace.faults == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the columns Name, Start Time(us), Duration(us)"),
        ("Name,Start Time(us)\na,1\n", "lacks the columns Duration(us)"),
        (KERNELS.partition("\n")[0] + "\n", "holds nothing that can be measured"),
        (KERNELS + "1,2", "the table is incomplete: line 5"),
        (KERNELS + "3,2,16,x,x,x,N/A,N/A,0\n", "1 row has no time"),
        (KERNELS + "3,2,16," + "x" * 200_000 + ",x,x,1,1,0\n", "the table is incomplete: field larger"),
    ],
    ids=["empty", "a column", "no rows", "cut off", "no time", "a long cell"],
)
def test_what_is_wrong_with_a_table_of_kernels_is_said(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text(text, encoding="utf-8")
    try:
        said = [fault.render("en") for fault in read(path).faults]
    except TorchferryError as error:
        said = [error.message.render("en")]
    assert any(message in each for each in said), said


def test_a_trace_and_the_table_beside_it_agree_or_the_difference_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "trace_view.json", NPU_ROWS)
    (kernel, *_) = read(path).work
    table = tmp_path / "kernel_details.csv"
    head = "Name,Start Time(us),Duration(us)"
    table.write_text(f"{head}\n{kernel.name},1,{(kernel.end - kernel.start) / 1000}\n", encoding="utf-8")
    assert read(path).notes == []
    assert locate(tmp_path) == [path]
    table.write_text(f"{head}\n{kernel.name},1,7\n", encoding="utf-8")
    assert "has 1 with 0.007 ms, the trace has 1 with 0.050 ms" in read(path).notes[0].render("en")
    table.write_text(f"{head}\nother,1,7\n", encoding="utf-8")
    assert "names none of its kernels" in read(path).notes[0].render("en")
    table.write_text("x\n", encoding="utf-8")
    assert "was not compared" in read(path).notes[0].render("en")
