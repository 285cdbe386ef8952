"""The benchmark of verdicts: its labels agree with themselves, and what a report says is laid beside them rightly."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.verdicts.checkout import AbsentError, materialise
from benchmarks.verdicts.labels import ROLES, TARGETS, VERDICTS, Need, Program, repositories
from benchmarks.verdicts.programs import PROGRAMS as REHEARSED
from benchmarks.verdicts.run import compare, first_word, read

REPOSITORIES = tuple(repositories())
PROGRAMS = [(repository, program) for repository in REPOSITORIES for program in repository.programs]


def test_the_labels_are_as_many_as_promised() -> None:
    assert len(REPOSITORIES) >= 30
    assert len({repository.kind for repository in REPOSITORIES}) >= 14
    assert [name for name, count in Counter(repository.name for repository in REPOSITORIES).items() if count > 1] == []
    assert all(re.fullmatch(r"[0-9a-f]{40}", repository.commit) for repository in REPOSITORIES)


def test_what_is_rehearsed_is_labelled() -> None:
    labelled = {(repository.name, program.path) for repository, program in PROGRAMS}
    assert [program for program in REHEARSED if (program.repository, program.path) not in labelled] == []
    assert len(REHEARSED) >= 8
    for program in REHEARSED:
        compile(program.data, program.path, "exec")
        assert ".py" in program.command


def test_labels_agree_with_themselves(subtests: pytest.Subtests) -> None:
    for repository, program in PROGRAMS:
        with subtests.test(f"{repository.name} {program.path} {program.started_with}"):
            _check_label(repository, program)


def _check_label(repository: Any, program: Program) -> None:
    same = [other for other in repository.programs if other.path == program.path]
    assert len({other.started_with for other in same}) == len(same)
    assert program.command
    assert program.reason
    assert program.started_with in program.command
    assert set(program.arguable) <= set(VERDICTS)
    if program.corrected:
        first = re.match(r"was (\w+)(?: on (\w+) too)?; \w", program.corrected)
        assert first is not None
        assert first[1] in VERDICTS
        changed = TARGETS if first[2] is None else (first[2],)
        assert all(program.first_verdict(target) != program.verdicts[target] for target in changed)
    for need in program.needs:
        assert need.role in ROLES
        assert set(need.targets) <= set(TARGETS)
        assert need.chain[0].split(":")[0] == program.path
        assert all(re.fullmatch(r"[^:\\]+(:[1-9]\d*)?", place) for place in need.chain)
        assert all(":" in place or place.endswith(".ipynb") for place in need.chain)
    for target in TARGETS:
        verdict = program.verdicts[target]
        roles = {need.role for need in program.needs if target in need.targets}
        assert verdict in VERDICTS
        assert (verdict == "blocked") == ("blocks" in roles)
        assert verdict != "without" or "optional" in roles
        assert verdict != "decisions" or "decision" in roles
        assert "decision" not in roles or verdict in ("decisions", "blocked", "not_judged")


LABEL = Program(
    path="train.py",
    command="python train.py",
    verdicts={"npu": "blocked", "musa": "fixes"},
    reason="it needs a kernel",
    arguable=("decisions",),
    needs=(Need("simple_knn", "blocks", ("train.py:3", "scene/model.py:20"), targets=("npu",)),),
)
NAMED = {"what": "simple-knn", "place": "scene/model.py:20", "chain": ["train.py:3", "scene/model.py:20"]}


def _report(verdict: str, *reasons: dict[str, Any]) -> dict[str, Any]:
    return {"schema_version": 2, "programs": [{"path": "train.py", "verdict": verdict, "reasons": list(reasons)}]}


@pytest.mark.parametrize(
    ("target", "report", "word", "named", "chained"),
    [
        ("npu", _report("blocked", NAMED), "right", 1, 1),
        ("npu", _report("blocked", {**NAMED, "what": "simple_knn._C"}), "right", 1, 1),
        ("npu", _report("blocked", {**NAMED, "what": "a CUDA extension"}), "right", 1, 1),
        ("npu", _report("blocked", {**NAMED, "chain": []}), "right", 1, 0),
        ("npu", _report("blocked", {**NAMED, "chain": ["other.py:1", "scene/model.py:20"]}), "right", 1, 0),
        ("npu", _report("blocked", {"what": "gsplat", "place": "a.py:1", "chain": ["train.py:1"]}), "right", 0, 0),
        ("npu", _report("decisions"), "arguable", 0, 0),
        ("npu", _report("fixes"), "wrong", 0, 0),
        ("npu", _report("not judged"), "not judged", 0, 0),
        ("npu", {"programs": []}, "wrong", 0, 0),
        ("npu", {}, "wrong", 0, 0),
        ("musa", _report("fixes"), "right", 0, 0),
        ("musa", _report("blocked", NAMED), "wrong", 0, 0),
    ],
)
def test_what_a_report_says_is_laid_beside_a_label(
    target: str, report: dict[str, Any], word: str, named: int, chained: int
) -> None:
    outcome = compare(LABEL, target, read(report).get("train.py"))
    assert (outcome.word, len(outcome.named), len(outcome.chained)) == (word, named, chained)


@pytest.mark.parametrize(
    ("said", "now", "first"),
    [("fixes", "right", "wrong"), ("blocked", "wrong", "right"), ("decisions", *["arguable"] * 2)],
)
def test_a_corrected_label_keeps_its_first_word(said: str, now: str, first: str) -> None:
    label = replace(LABEL, corrected="was blocked; the kernel is never called, which a run shows")
    program = read(_report(said))["train.py"]
    assert (compare(label, "musa", program).word, first_word(label, "musa", program)) == (now, first)
    assert first_word(LABEL, "musa", program) == compare(LABEL, "musa", program).word


@pytest.mark.parametrize(
    ("option", "word"),
    [("--load_8bit", "right"), ("with --load-8bit", "right"), ("--load", "wrong"), ("", "wrong")],
)
def test_a_label_with_an_option_asks_for_the_option(option: str, word: str) -> None:
    needs = (Need("bitsandbytes", "blocks", ("train.py:3",)),)
    label = replace(LABEL, started_with="--load_8bit", needs=needs)
    said = read(_report("fixes", {"what": "bitsandbytes", "options": [option], "optional": True}))["train.py"]
    assert compare(label, "npu", said).word == word


def test_an_option_that_changes_nothing_need_not_be_offered() -> None:
    label = replace(LABEL, started_with="--fast", verdicts={"npu": "fixes", "musa": "fixes"}, needs=())
    assert compare(label, "npu", read(_report("fixes"))["train.py"]).word == "right"
    assert compare(label, "npu", read(_report("blocked"))["train.py"]).word == "wrong"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, str]:
    """A folder with one clone, a commit of it, and a later one."""
    folder = tmp_path / "repositories"
    tree = folder / "owner+name"
    (tree / "data").mkdir(parents=True)
    (tree / "data" / "train.py").write_bytes(b"import torch\r\n\x00\n")
    (tree / ".gitignore").write_text("data/\n", encoding="utf-8")
    _git(tree, "init", "--quiet")
    _git(tree, "add", "--force", "--all")
    _git(tree, "commit", "--quiet", "--message", "one")
    commit = _git(tree, "rev-parse", "HEAD")
    (tree / "later.py").write_text("", encoding="utf-8")
    _git(tree, "add", "later.py")
    _git(tree, "commit", "--quiet", "--message", "two")
    return folder, commit


@pytest.mark.parametrize("bare", [False, True])
def test_a_clone_gives_the_files_of_the_commit(clone: tuple[Path, str], tmp_path: Path, bare: bool) -> None:
    folder, commit = clone
    if bare:
        (tmp_path / "bare").mkdir()
        _git(tmp_path, "clone", "--quiet", "--bare", str(folder / "owner+name"), str(tmp_path / "bare" / "name"))
        folder = tmp_path / "bare"
    tree = materialise(folder, "owner/name", commit, tmp_path / "tree")
    assert (tree / "data" / "train.py").read_bytes() == b"import torch\r\n\x00\n"
    assert not (tree / "later.py").exists()
    assert _git(tree, "ls-files") == ".gitignore\ndata/train.py"
    assert _git(tree, "rev-parse", "HEAD") == commit


def test_a_content_that_the_clone_lacks_is_left_out(clone: tuple[Path, str], tmp_path: Path) -> None:
    folder, commit = clone
    digest = _git(folder / "owner+name", "rev-parse", f"{commit}:data/train.py")
    (folder / "owner+name" / ".git" / "objects" / digest[:2] / digest[2:]).unlink()
    tree = materialise(folder, "owner/name", commit, tmp_path / "tree")
    assert (tree / ".gitignore").exists()
    assert not (tree / "data" / "train.py").exists()


def test_an_archive_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    assert materialise(tmp_path, "owner/name", "0" * 40, tmp_path / "tree") == tmp_path / "name"


def test_what_is_not_there_is_said(clone: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = clone
    with pytest.raises(AbsentError, match="not in the folder"):
        materialise(folder, "owner/other", "0" * 40, tmp_path / "tree")
    with pytest.raises(AbsentError, match="no commit 000000000000"):
        materialise(folder, "owner/name", "0" * 40, tmp_path / "tree")
