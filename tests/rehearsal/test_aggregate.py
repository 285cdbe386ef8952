"""Putting together what several processes saw, and saying it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from torchferry.rehearsal.aggregate import Aggregate, EventSum, UncaughtError, collect
from torchferry.rehearsal.config import Rehearsal, prepare
from torchferry.rehearsal.summary import document, lines, verdict


def row(kind: str, line: int, times: int, amount: int = 1, file: str = "train.py") -> dict[str, object]:
    return {"kind": kind, "subject": "s", "detail": "", "file": file, "line": line, "times": times, "amount": amount}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first = {
        "pid": 1,
        "device": "x",
        "memory": [{"peak_allocated": 100}, {"peak_allocated": 5}],
        "operators": {"aten::mm": 3},
        "unverified_operators": ["aten::new"],
        "events": [row("synchronisation", 4, 2), row("to-device", 9, 1, 64)],
    }
    second = {
        "pid": 2,
        "device": "x",
        "memory": [{"peak_allocated": 70}, {"peak_allocated": 80}],
        "operators": {"aten::mm": 4, "aten::add": 1},
        "events": [row("synchronisation", 4, 5), row("missing-api", 7, 1)],
    }
    (tmp_path / "process-1.json").write_text(json.dumps(first))
    (tmp_path / "process-2.json").write_text(json.dumps(second))
    (tmp_path / "first-1.jsonl").write_text(json.dumps(row("synchronisation", 4, 1)) + "\n")
    crashed = [{"device": True}, row("out-of-memory", 8, 1)]
    (tmp_path / "first-3.jsonl").write_text("".join(json.dumps(each) + "\n" for each in crashed) + '{"kind": "half')
    (tmp_path / "process-4.json").write_text("{ cut off")
    return tmp_path


def test_sums_over_processes(folder: Path) -> None:
    aggregate = collect(folder)
    assert (aggregate.processes, aggregate.on_device, aggregate.crashed) == (4, 3, 1)
    assert aggregate.peaks == (100, 80)
    assert aggregate.operators == {"aten::mm": 7, "aten::add": 1}
    assert aggregate.unverified == ("aten::new",)
    assert aggregate.events == (
        EventSum("missing-api", "s", "", "train.py", 7, 1, 1),
        EventSum("out-of-memory", "s", "", "train.py", 8, 1, 1),
        EventSum("synchronisation", "s", "", "train.py", 4, 7, 2),
        EventSum("to-device", "s", "", "train.py", 9, 1, 64),
    )
    assert [event.line for event in aggregate.failures] == [7, 8]


def rehearsal() -> Rehearsal:
    return prepare("npu", "", 2, None, ())


NOTHING = Aggregate(0, 0, 0, (), {}, (), ())
CLEAN = Aggregate(1, 1, 0, (2**20,), {"aten::mm": 1}, (), ())
LEFT = EventSum("host-work", "model `Net`", "", "a.py", 12, 30, 3_000_000)
HALF_LEFT = Aggregate(1, 1, 0, (2**20,), {"aten::mm": 1}, (), (LEFT,), 3_000_000)
MOSTLY_LEFT = Aggregate(1, 1, 0, (2**20,), {"aten::mm": 1}, (), (LEFT,), 1_000_000)
CRASHED = Aggregate(1, 1, 1, (2**20,), {"aten::mm": 1}, (), (LEFT,), 0)
BAD = Aggregate(1, 1, 0, (), {}, (), (EventSum("missing-api", "torch.x.y", "", "a.py", 3, 2, 2),))


@pytest.mark.parametrize(
    ("aggregate", "code", "wanted"),
    [
        (NOTHING, 0, "NOTHING WAS REHEARSED"),
        (Aggregate(1, 0, 0, (), {}, (), ()), 0, "NOTHING RAN"),
        (Aggregate(1, 0, 0, (), {}, (), (), refused=True), 2, "NOTHING WAS REHEARSED: it could not begin"),
        (CLEAN, 0, "nothing was seen"),
        (CLEAN, 3, "THE COMMAND FAILED with exit code 3"),
        (HALF_LEFT, 0, "nothing was seen"),
        (MOSTLY_LEFT, 0, "THE LARGER PART RAN ON THE CPU"),
        (CRASHED, 0, "nothing was seen"),
        (BAD, 0, "WOULD FAIL on the card; findings: 1, places: 1"),
        (BAD, 1, "WOULD FAIL on the card; findings: 1, places: 1"),
    ],
)
def test_the_verdict_comes_first(aggregate: Aggregate, code: int, wanted: str) -> None:
    assert verdict(rehearsal(), aggregate, code).render("en").startswith(wanted)
    assert next(lines(rehearsal(), aggregate, "en", code)).startswith(wanted)


def test_a_command_that_fails_by_itself_is_explained_where_a_table_knows_the_message() -> None:
    def text_of(said: str) -> list[str]:
        error = UncaughtError("RuntimeError", "a.py", 3, text=said)
        return list(lines(rehearsal(), replace(CLEAN, errors=(error,)), "en", 1))

    known = text_of("The server socket has failed to listen on any local network address. port: 29500, EADDRINUSE")
    assert known[1].startswith("  cause: ")
    assert any(line.startswith("  -> ") for line in known)
    assert not any("cause:" in line for line in text_of("the data is not there"))
    secret = document(
        rehearsal(), replace(CLEAN, errors=(UncaughtError("E", text=f"token={'ghp_' + 'x1Y2' * 9}"),)), 1, []
    )
    assert "x1Y2x1Y2" not in secret


def test_the_verdict_of_a_tool_is_no_failure_of_the_program() -> None:
    text = list(lines(rehearsal(), CLEAN, "en", 1, ("torchferry nan",)))
    assert text[:2] == [
        "nothing was seen that would fail on the card",
        "  the command ended with exit code 1: torchferry nan found something, see above",
    ]
    assert verdict(rehearsal(), CLEAN, 3, ("torchferry nan",)).render("en").startswith("THE COMMAND FAILED")
    assert json.loads(document(rehearsal(), CLEAN, 1, [], ("torchferry nan",)))["found_by"] == ["torchferry nan"]


def test_the_summary_names_the_place_and_what_to_do() -> None:
    text = "\n".join(lines(rehearsal(), BAD, "en"))
    assert "a.py:3  torch.x.y  x2" in text
    assert "torchferry api" in text
    chinese = "\n".join(lines(rehearsal(), BAD, "zh"))
    assert "a.py:3  torch.x.y  x2" in chinese
    assert "插件没有的名称" in chinese


def test_work_on_the_cpu_is_said_with_its_share_and_its_line() -> None:
    text = list(lines(rehearsal(), MOSTLY_LEFT, "en"))
    assert text[1].startswith("  x work of the model on the CPU: 75.0 % of the arithmetic")
    assert text[2:4] == [
        "      a.py:12  model `Net`  x30, 3.0 MFLOP",
        "    move the model and its inputs with `.to(device)`",
    ]
    assert any(
        line.startswith("  ! work of the model on the CPU: 50.0 %") for line in lines(rehearsal(), HALF_LEFT, "en")
    )
    assert json.loads(document(rehearsal(), MOSTLY_LEFT, 0, []))["work"] == {"device": 1_000_000, "cpu": 3_000_000}


def test_many_places_are_cut_in_the_text_and_whole_in_json() -> None:
    events = tuple(EventSum("synchronisation", "s", "", "a.py", n, 1, 1) for n in range(1, 31))
    aggregate = Aggregate(1, 1, 0, (), {}, (), events)
    text = "\n".join(lines(rehearsal(), aggregate, "en"))
    assert "and 18 more places" in text
    parsed = json.loads(document(rehearsal(), aggregate, 0, ["python", "a.py"]))
    assert len(parsed["events"]) == 30
    assert parsed["rehearsal"] is True
    assert parsed["command"] == ["python", "a.py"]
    assert parsed["would_fail"] == 0
