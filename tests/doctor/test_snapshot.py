"""Snapshots: taken, compared, refused when they are none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.recorded import Case, context_of
from tests.vendors.npu.outputs import NPU_910B, NPU_SICK
from torchferry.core.errors import UsageError
from torchferry.doctor.engine import examine
from torchferry.doctor.registry import all_checks
from torchferry.doctor.report import Detail, issue_lines, text_lines
from torchferry.doctor.snapshot import compare, load, snapshot

ENVIRONMENT = {
    "PATH": "/usr/bin",
    "HOME": "/home/mia",
    "http_proxy": "http://mia:secret@10.9.8.7:3128",
    "HCCL_IF_IP": "1",
}


def taken(root: Path, output: str = NPU_910B) -> dict[str, Any]:
    case = Case("", "npu", (), machine={"outputs": {"npu-smi info": output}, "environment": ENVIRONMENT})
    return snapshot(examine(context_of(case, root), all_checks()), "en")


def test_a_snapshot_holds_the_state_and_no_secret(tmp_path: Path) -> None:
    found = taken(tmp_path)
    assert found["cards"]["1"] == {"name": "910B3", "health": "OK", "total": 65536, "used": 3337, "temperature": 54.0}
    assert found["driver"] == "23.0.7"
    assert found["environment"]["HCCL_IF_IP"] == "1"
    assert found["taken_at"].startswith("2027-01-15T08:00:00")
    assert "secret" not in json.dumps(found)


def test_two_snapshots_differ_in_what_lasts_and_in_what_passes(tmp_path: Path) -> None:
    one, other = taken(tmp_path / "a"), taken(tmp_path / "b", NPU_SICK)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(one), encoding="utf-8")
    differences = {item.name: item for item in compare(load(path), other)}
    assert (differences["cards.1.health"].first, differences["cards.1.health"].second) == ("OK", "Warning")
    assert not differences["cards.1.health"].passing
    assert not differences["status.card.health"].passing
    assert differences["cards.0.used"].passing
    assert compare(one, one) == []


HOSTILE = {
    "": "not JSON",
    "[1, 2": "not JSON",
    "[]": "not written by",
    '{"kind": "other"}': "not written by",
    '{"kind": "torchferry doctor snapshot", "schema": 99}': "schema is 99",
    '{"kind": "torchferry doctor snapshot", "schema": true}': "schema is True",
    '{"kind": "torchferry doctor snapshot", "schema": 2, "x": NaN}': "no number",
    '{"kind": "torchferry doctor snapshot", "schema": 2, "x": 1e999}': "does not fit into 64 bits",
    '{"kind": "torchferry doctor snapshot", "schema": 2, "schema": 2}': "twice",
    '{"kind": "torchferry doctor snapshot", "schema": 2, "x": ' + "[" * 50 + "]" * 50 + "}": "nested",
    "[" * 200_000: "not JSON",
    " " * (9 << 20): "bytes",
}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_snapshot_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        load(path)
    assert HOSTILE[text] in error.value.message.render("en")


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "gone", tmp_path / "x", tmp_path):
        with pytest.raises(UsageError):
            load(path)


def test_an_issue_block_names_no_user_host_or_address(tmp_path: Path) -> None:
    files = {"/home/mia/.config/pip/pip.conf": "[global]\nindex-url = http://mia:secret@mirror.example/simple\n"}
    case = Case(
        "", "npu", (), files, machine={"environment": ENVIRONMENT, "outputs": {"npu-smi info": "\x1b[2Jfoo ```"}}
    )
    context = context_of(case, tmp_path)
    diagnosis = examine(context, all_checks())
    text = "\n".join(issue_lines(diagnosis, "en"))
    for hidden in ("secret", "mia", "node1", "10.9.8.7", "\x1b"):
        assert hidden not in text, hidden
    assert text.count("```") == 2
    assert "| torch_npu | none |" in text


def test_output_of_a_tool_cannot_steer_the_terminal(tmp_path: Path) -> None:
    case = Case("", "npu", (), machine={"outputs": {"npu-smi info": "\x1b]0;title\x07 what\n"}})
    diagnosis = examine(context_of(case, tmp_path), all_checks())
    text = "\n".join(text_lines(diagnosis, "en", lambda line, kind: line, Detail.FULL))
    assert "\x1b" not in text
    assert "\\x1b]0;title" in text


def test_a_report_in_chinese_has_no_english_template(tmp_path: Path) -> None:
    case = Case("", "musa", (), {"/.dockerenv": ""}, machine={"rooms": {}})
    diagnosis = examine(context_of(case, tmp_path), all_checks())
    english = list(text_lines(diagnosis, "en", lambda line, kind: line, Detail.FULL))
    chinese = list(text_lines(replace(diagnosis), "zh", lambda line, kind: line, Detail.FULL))
    assert len(english) == len(chinese)
    assert any("容器内没有" in line for line in chinese)
