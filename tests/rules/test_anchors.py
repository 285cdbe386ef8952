"""What a place is known by stays when other lines change, and is another for another place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchferry.backends.portable import PortableTarget
from torchferry.backends.registry import choose
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message
from torchferry.rules.decisions import _PlacesByRule
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

PROGRAM = """
import torch


class Trainer:
    def fit(self, model):
        model.cuda()
        if torch.cuda.get_device_capability()[0] >= 7:
            model.half()
        return model.to("cuda")

    def test(self, model):
        return model.to("cuda"), model.to("cuda")


major, minor = torch.cuda.get_device_capability()
"""


DECISION = "major, minor = torch.cuda.get_device_capability()\n"


def found(
    text: str,
    name: str = "npu",
    ignore: tuple[str, ...] = (),
    rewrite: bool = False,
    kind: Kind = Kind.PYTHON,
    portable: tuple[str, ...] = (),
) -> list[Finding]:
    choice = choose(name)
    target = (PortableTarget if portable else Target)(choice.backend, choice.version, *portable)
    engine = Engine(Path("/"), target, rules(), selection=Selection(ignore=("IMP101", *ignore)))
    result = engine.examine(
        Entry("a.ipynb" if kind is Kind.NOTEBOOK else "a.py", kind), data=text.encode(), rewrite=rewrite
    )
    assert result.failure is None, result.failure
    return list(result.remaining if rewrite else result.findings)


def keys(findings: list[Finding]) -> list[object]:
    return [finding.key for finding in findings]


BEFORE = keys(found(PROGRAM))


def test_each_finding_has_a_key_of_its_own() -> None:
    assert len(set(BEFORE)) == len(BEFORE) > 6
    symbols = {finding.anchor.symbol for finding in found(PROGRAM)}
    assert {"", "Trainer.fit", "Trainer.test"} <= symbols


SAME = {
    "lines above": "import os\n\n\n# a comment\n" + PROGRAM,
    "lines between": PROGRAM.replace("    def test", "    x = 1\n\n    def test"),
    "spaces and breaks": PROGRAM.replace("get_device_capability()[0] >= 7", "get_device_capability()[0]   >=  7"),
    "other ends of lines": PROGRAM.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("change", SAME)
def test_a_place_keeps_its_key(change: str) -> None:
    assert keys(found(SAME[change])) == BEFORE


def test_an_ordinal_does_not_depend_on_what_is_silenced() -> None:
    two = 'import torch\nx = torch.zeros(1, device="cuda")  # torchferry: ignore\ny = torch.zeros(1, device="cuda")\n'
    assert [finding.anchor.ordinal for finding in found(two)] == [2]
    assert set(keys(found(PROGRAM, ignore=("DEV101",)))) < set(BEFORE)


@pytest.mark.parametrize("name", ["npu", "musa", "gcu", "sdaa", "ptex"])
def test_a_decision_keeps_its_key_when_the_file_is_migrated(name: str) -> None:
    before = {finding.key: finding for finding in found(PROGRAM, name) if finding.grade is Grade.MANUAL}
    after = [finding for finding in found(PROGRAM, name, rewrite=True) if finding.grade is Grade.MANUAL]
    assert after
    for finding in after:
        assert finding.origin == before[finding.key].location


@pytest.mark.parametrize("name", ["npu", "ptex"])
def test_a_second_scan_knows_a_decision_in_portable_code_by_its_key(name: str) -> None:
    portable = PROGRAM.replace("torch.cuda.", "device_utils.").replace("import torch\n", "import torch, device_utils\n")
    before, after = (
        {finding.key for finding in found(text, name, portable=("device_utils",)) if finding.code.startswith("CUD11")}
        for text in (PROGRAM, portable)
    )
    assert len(before) == (2 if name == "npu" else 3)
    assert after == before


def test_a_place_keeps_its_ordinal_when_an_equal_one_before_it_was_fixed() -> None:
    twice = 'import torch\nx = torch.zeros(1, device="cuda")\n# cuda\ny = torch.zeros(1, device="cuda")\n'
    fixed = twice.replace('"cuda")', '"npu")', 1)
    (_, second), (only,) = found(twice), found(fixed)
    assert only.anchor == second.anchor
    assert second.anchor.ordinal == 2


def test_ordinals_of_very_many_different_places_are_counted_by_findings() -> None:
    text = "import torch\n" + "".join(f'x{i} = torch.zeros({i}).to("cuda:{i}")\n' for i in range(400)) * 2
    anchors = [finding.anchor for finding in found(text)]
    assert len(set(anchors)) == len(anchors) >= 800


REWRITTEN = {
    "names of which some stay, beside each other": (
        "musa", "from torch.cuda import Stream, utilization, nvtx\n", "IMP102", (),
    ),
    "a name of the plugin's own modules": (
        "ptex", "import torch\nm = torch.nn.DataParallel(net, device_ids=[0])\n", "DST105", (),
    ),
    "a device that is asked for": (
        "npu", "import torch.distributed as dist\ndist.init_process_group('gloo')\ndist.all_reduce(x.cuda())\n",
        "DST109", ("device_utils",),
    ),
    "a variable whose name is asked for": (
        "npu", 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\nos.environ["CUDA_VISIBLE_DEVICES"] = "1,0"\n',
        "ENV101", ("device_utils",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("title", REWRITTEN)
def test_a_decision_keeps_its_key_beside_what_is_rewritten(title: str) -> None:
    name, text, code, portable = REWRITTEN[title]

    def decisions(findings: list[Finding]) -> dict[object, str]:
        return {each.key: each.snippet for each in findings if each.grade is Grade.MANUAL and each.code == code}

    before = decisions(found(text, name, portable=portable))
    assert before
    assert decisions(found(text, name, portable=portable, rewrite=True)).keys() == before.keys()


def test_a_command_of_a_notebook_is_known_by_its_text() -> None:
    cells = ["!CUDA_VISIBLE_DEVICES=1,0 python a.py\n", "%env PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"]
    by_text = {each.snippet: each.anchor.text for each in found(notebook_of(cells), kind=Kind.NOTEBOOK)}
    assert len(set(by_text.values())) == len(by_text) == 2
    shell = found("CUDA_VISIBLE_DEVICES=1,0 python a.py\n", kind=Kind.SHELL)
    assert by_text["CUDA_VISIBLE_DEVICES"] == shell[0].anchor.text


def notebook_of(cells: list[str]) -> str:
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell}
                for cell in cells
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


def test_a_file_that_a_cell_writes_has_keys_and_places_of_its_own() -> None:
    cells = ["import torch\n" + DECISION, "%%writefile train.py\nimport torch\n" + DECISION]
    notebook = notebook_of(cells)
    before = found(notebook, kind=Kind.NOTEBOOK)
    assert len({finding.key for finding in before}) == len(before) >= 4
    decisions = {finding.key: finding.location for finding in before if finding.grade is Grade.MANUAL}
    after = [each for each in found(notebook, kind=Kind.NOTEBOOK, rewrite=True) if each.grade is Grade.MANUAL]
    assert {finding.key: finding.origin for finding in after} == decisions
    assert {finding.location.cell for finding in after} == {1, 2}


CELLS = [
    "%%writefile a.py",
    "%%writefile 1:a.py",
    "%%writefile a.py:1:f.py",
    "%%script python3",
    "%%script python -u",
    "",
]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CELLS), st.booleans()), min_size=2, max_size=6))
def test_each_finding_of_a_notebook_has_a_key_of_its_own(cells: list[tuple[str, bool]]) -> None:
    body = "import torch\n" + DECISION
    indented = "def f():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    sources = [f"{head}\n{indented if in_function else body}" for head, in_function in cells]
    code = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    findings = found(json.dumps({"cells": code, "metadata": {}, "nbformat": 4}), kind=Kind.NOTEBOOK)
    assert len({finding.key for finding in findings}) == len(findings) >= len(cells)


class _Looked(tuple[int, int]):
    """A place that counts how often somebody looks where it is."""

    times = 0

    def __getitem__(self, index: Any) -> Any:
        _Looked.times += 1
        return super().__getitem__(index)


def test_a_long_place_does_not_make_each_search_look_at_all_the_short_ones() -> None:
    def looked(count: int) -> int:
        _Looked.times = 0
        spans = [_Looked((10 * number, 10 * number + 3)) for number in range(count)]
        found_there = [
            (Finding("DEV101", Location("a.py", 1, 1, 1, 1), Message("a decision"), Grade.MANUAL), span)
            for span in (_Looked((0, 10 * count)), *spans)
        ]
        places = _PlacesByRule(found_there)
        for number in range(count):
            assert places.take("DEV101", (10 * number, 10 * number + 3), and_notes=False) == number + 1
        return _Looked.times

    assert looked(800) <= 2.2 * looked(400)


def test_two_findings_at_one_token_are_two() -> None:
    line = "import torch\nprint(torch.cuda.amp.autocast, torch.cuda.amp.autocast)\n"
    assert len({finding.key for finding in found(line)}) == len(found(line)) >= 2


def test_a_minified_file_has_as_many_keys_as_findings() -> None:
    line = "import torch;" + ";".join(f'x{n % 7}=torch.zeros(1,device="cuda")' for n in range(400))
    findings = found(line)
    assert len({finding.key for finding in findings}) == len(findings) == 400


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["x = 1", "# a comment", "", "print('cuda')", "def f(): pass"]), max_size=6))
def test_lines_above_change_no_key(lines: list[str]) -> None:
    assert set(BEFORE) <= set(keys(found("\n".join(lines) + "\n" + PROGRAM)))
