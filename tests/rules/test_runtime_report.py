"""The report of a run: what is read, what is refused, and that files which changed are left out."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from torchferry.backends import registry as backends
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.file_result import Selection
from torchferry.rules.registry import rules
from torchferry.rules.runtime import report as reading
from torchferry.rules.runtime.report import read_runtime_report
from torchferry.source.tree import list_files

HASH = "0" * 64
GOOD = {
    "schema": "1.0",
    "root": "/elsewhere",
    "files": {"a.py": HASH},
    "sites": [{"path": "a.py", "line": 3, "name": "torch.Tensor.cuda", "times": 2}],
}
SITE = GOOD["sites"][0]  # type: ignore[index]

WRONG: list[tuple[str, Any]] = [
    ("it is not JSON", b"{"),
    ("it is not JSON", b"\xff\xfe\x00"),
    ("nested too deeply", b"[" * 200_000),
    ("it is not JSON", b'{"schema": ' + b"1" * 5000 + b"}"),
    ("not a JSON object", []),
    ("`schema`", GOOD | {"schema": 1}),
    ("its schema is 2.0", GOOD | {"schema": "2.0"}),
    ("`root`", GOOD | {"root": None}),
    ("is not a folder", GOOD | {"root": "a\0b"}),
    ("`files`", GOOD | {"files": []}),
    ("the hash of `a.py`", GOOD | {"files": {"a.py": "abc"}}),
    ("the hash of `a.py`", GOOD | {"files": {"a.py": 3}}),
    ("`/etc/passwd` is not a path below", GOOD | {"files": {"/etc/passwd": HASH}}),
    ("`../a.py` is not a path below", GOOD | {"files": {"../a.py": HASH}}),
    ("`x/../../a.py` is not a path below", GOOD | {"files": {"x/../../a.py": HASH}}),
    (r"`..\a.py` is not a path below", GOOD | {"files": {r"..\a.py": HASH}}),
    ("`C:/a.py` is not a path below", GOOD | {"files": {"C:/a.py": HASH}}),
    ("`sites`", GOOD | {"sites": {}}),
    ("site 0 is not a JSON object", GOOD | {"sites": [3]}),
    ("site 0 has no `path`", GOOD | {"sites": [SITE | {"path": ["a.py"]}]}),
    ("has lines but no hash", GOOD | {"sites": [SITE | {"path": "b.py"}]}),
    ("site 0 has no `line`", GOOD | {"sites": [SITE | {"line": 0}]}),
    ("site 0 has no `line`", GOOD | {"sites": [SITE | {"line": True}]}),
    ("site 1 has no `line`", GOOD | {"sites": [SITE, SITE | {"line": "3"}]}),
    ("site 0 has no `times`", GOOD | {"sites": [SITE | {"times": -1}]}),
    ("site 0 has no `times`", GOOD | {"sites": [SITE | {"times": 1.5}]}),
    ("does not fit into 64 bits", GOOD | {"sites": [SITE | {"times": 10**30}]}),
    ("site 0 has no `name`", GOOD | {"sites": [SITE | {"name": "x\x1b[2J"}]}),
    ("site 0 has no `name`", GOOD | {"sites": [SITE | {"name": "a" * 300}]}),
    ("site 0 has no `name`", GOOD | {"sites": [{"path": "a.py", "line": 3, "times": 1}]}),
]


@pytest.mark.parametrize(("said", "content"), WRONG, ids=[f"{n}-{said[:30]}" for n, (said, _) in enumerate(WRONG)])
def test_what_is_no_report_is_refused_with_the_reason(said: str, content: Any, tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(TorchferryError) as error:
        read_runtime_report(file, tmp_path)
    assert said in " ".join(error.value.lines())
    assert "torchferry run --report" in error.value.lines()[1]


def test_a_report_that_is_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "seen.json"
    file.write_text(json.dumps(GOOD))
    monkeypatch.setattr(reading, "LARGEST", 50)
    with pytest.raises(TorchferryError, match="more than 50 bytes"):
        read_runtime_report(file, tmp_path)


@pytest.mark.parametrize("name", ["nowhere.json", "."])
def test_a_report_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(TorchferryError, match="cannot be read"):
        read_runtime_report(tmp_path / name, tmp_path)


@pytest.mark.parametrize(
    ("started", "project", "path", "inside"),
    [
        (".", ".", "a/b.py", "a/b.py"),
        (".", "a", "a/b.py", "b.py"),
        (".", "c", "a/b.py", None),
        ("a", ".", "b.py", "a/b.py"),
        ("/another/machine", "a", "b.py", "b.py"),
    ],
)
def test_paths_count_from_where_the_run_was_started(
    started: str, project: str, path: str, inside: str | None, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "c").mkdir()
    site = {"path": path, "line": 1, "name": "cuda", "times": 1}
    file = tmp_path / "seen.json"
    document = {"schema": "1.3", "root": str(tmp_path / started), "files": {path: HASH}, "sites": [site, site]}
    file.write_text(json.dumps(document))
    found = read_runtime_report(file, tmp_path / project)
    assert list(found.lines) == ([] if inside is None else [inside])
    assert [one.times for lines in found.lines.values() for one in lines] == ([] if inside is None else [2])
    assert found.elsewhere == (2 if inside is None else 0)
    assert list(found.hashes) == list(found.lines)


def looked_at(root: Path, files: dict[str, str], lines: list[tuple[str, int]], selection: Selection) -> Analysis:
    """Examine `root` beside a run that saw a device at `lines` of `files`, which are the texts that ran."""
    document = {
        "schema": "1.0",
        "root": str(root),
        "files": {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()},
        "sites": [{"path": path, "line": line, "name": "cuda", "times": 1} for path, line in lines],
    }
    file = root.parent / "seen.json"
    file.write_text(json.dumps(document))
    choice = backends.choose("npu")
    target = Target(choice.backend, choice.version)
    request = Request(
        root, list_files(root), target, rules(), selection=selection, seen=read_runtime_report(file, root)
    )
    analysis = analyse(request)
    assert analysis.failures == []
    return analysis


BLIND = "import torch\nimport settings\ntorch.zeros(1, device=settings.DEVICE)\n"
FOUND = 'import torch\nd = "cuda"\ntorch.zeros(1, device=d)\n'


@pytest.mark.parametrize(
    ("ran", "here", "found", "remark"),
    [
        (BLIND, BLIND, True, ""),
        (BLIND, BLIND + "\n", False, "changed since the run"),
        (BLIND, None, False, "does not exist here"),
        (FOUND, FOUND, False, ""),
    ],
)
def test_a_file_that_changed_is_named_and_left_out(
    ran: str, here: str | None, found: bool, remark: str, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    if here is not None:
        (root / "a.py").write_text(here)
    analysis = looked_at(root, {"a.py": ran}, [("a.py", 3)], Selection())
    assert [finding.location.line for finding in analysis.findings if finding.code == "RUN101"] == [3] * found
    assert [str(message) for message in analysis.run_remarks if remark in str(message)] == list(
        map(str, analysis.run_remarks)
    )
    assert len(analysis.run_remarks) == bool(remark)


@pytest.mark.parametrize(
    ("selection", "blind"),
    [
        (Selection(select=("RUN",)), True),
        (Selection(select=("AMP",)), False),
        (Selection(ignore=("RUN",)), False),
        (Selection(ignore=("DEV",)), True),
    ],
)
def test_a_finding_that_is_not_shown_is_a_finding(selection: Selection, blind: bool, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    texts = {"blind.py": BLIND, "found.py": FOUND}
    for path, text in texts.items():
        (root / path).write_text(text)
    analysis = looked_at(root, texts, [("blind.py", 3), ("found.py", 3)], selection)
    assert [f.location.path for f in analysis.findings if f.code == "RUN101"] == ["blind.py"] * blind


def test_files_that_are_not_examined_are_counted(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "program").write_text(BLIND)
    (root / ".gitignore").write_text("made.py\n")
    (root / "made.py").write_text(BLIND)
    analysis = looked_at(root, {"program": BLIND, "made.py": BLIND}, [("program", 3), ("made.py", 3)], Selection())
    assert analysis.findings == []
    assert [str(message) for message in analysis.run_remarks] == [
        "The run went through 2 files that are not examined, such as made.py; its lines are left out."
    ]


def test_a_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.py").write_text(BLIND)
    os.symlink(tmp_path / "outside.py", root / "a.py")
    analysis = looked_at(root, {"a.py": BLIND}, [("a.py", 3)], Selection())
    assert [f.code for f in analysis.findings] == ["FIL105"]
    assert ["a.py ran but does not exist here" in str(message) for message in analysis.run_remarks] == [True]


def test_a_line_behind_the_end_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text(BLIND)
    with pytest.raises(TorchferryError, match=r"names line 99 of a\.py, whose last line is 4"):
        looked_at(root, {"a.py": BLIND}, [("a.py", 99)], Selection())


def test_a_file_that_does_not_parse_is_told_by_its_lines(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    text = BLIND + "not Python\n"
    (root / "a.py").write_text(text)
    analysis = looked_at(root, {"a.py": text}, [("a.py", 3)], Selection())
    assert [f.location.line for f in analysis.findings if f.code == "RUN101"] == [3]
