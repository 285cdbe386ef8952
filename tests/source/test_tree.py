"""Which files belong to a project: what git says is the oracle."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.files import read_head
from torchferry.source import tree
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.tree import list_files

FILES = (
    "train.py", "a.log.py", "build/x.py", "src/build/y.py", "src/keep.py", "src/gen/z.py", "src/gen/keep.py",
    "docs/a.md", "docs/deep/b.md", "data/one.json", "data/two.json", "data/sub/three.json", "#odd.py", "!bang.py",
    "sp ace.py", "foo/bar/baz.py", "foo/x/baz.py", "foo/baz.py", "[ab].py", "q.pyi", "deep/a/b/c/d.yaml",
)  # fmt: skip

GITIGNORES = (
    {"": "*.log.py\nbuild/\n"},
    {"": "/build\nsrc/gen/*\n!src/gen/keep.py\n"},
    {"": "data/*.json\n!data/two.json\ndocs/**/b.md\n"},
    {"": "\\#odd.py\n\\!bang.py\nsp ace.py   \nfoo/**/baz.py\n"},
    {"": "foo/*/baz.py\n[[]ab].py\n?.pyi\n**/c\n"},
    {"": "*\n!*/\n!*.py\n"},
    {"": "src/\n!src/keep.py\n", "src": "!keep.py\n"},
    {"": "", "src": "gen\n/keep.py\n", "data": "*\n!sub\n"},
    {"": "# comment\n\n   \n*.md \\ \nfoo/\n!foo/\nfoo/x\n"},
)


def build(root: Path, ignores: dict[str, str]) -> None:
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    for folder, text in ignores.items():
        (root / folder / ".gitignore").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("ignores", GITIGNORES)
def test_gitignore_is_read_as_git_reads_it(tmp_path: Path, ignores: dict[str, str]) -> None:
    build(tmp_path, ignores)
    ours = {entry.path for entry in list_files(tmp_path).entries}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    shown = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-standard"],
        capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    by_git = {path for path in shown.split("\0") if path and kind_of(path) is not None}
    assert ours == by_git
    assert {entry.path for entry in list_files(tmp_path).entries} == by_git, "with a repository around it"


def test_links_are_not_followed_and_circles_end(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.py").write_text("x = 1", encoding="utf-8")
    (root / "a.py").write_text("", encoding="utf-8")
    os.symlink(root, root / "loop")
    os.symlink(tmp_path / "outside.py", root / "b.py")
    os.symlink(root / "nowhere", root / "broken.py")
    os.symlink(root / "a.py", root / "c.py")
    listing = list_files(root)
    assert [entry.path for entry in listing.entries] == ["a.py"]
    assert [skip.path for skip in listing.skipped] == ["b.py"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    names = [b"new\nline.py", b"latin-\xe9.py", "中文.py".encode()]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_text("", encoding="utf-8")
    assert sorted(os.fsencode(entry.path) for entry in list_files(tmp_path).entries) == sorted(names)


def test_environments_and_caches_are_not_entered(tmp_path: Path) -> None:
    for path in ("env1/pyvenv.cfg", "env1/lib/x.py", "node_modules/y.py", ".git2/z.py", "__pycache__/w.py", "ok/v.py"):
        full = tmp_path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text("", encoding="utf-8")
    assert {entry.path for entry in list_files(tmp_path).entries} == {".git2/z.py", "ok/v.py"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("train.py", Kind.PYTHON),
        ("a/Dockerfile", Kind.DOCKERFILE),
        ("a/Dockerfile-cpu", Kind.DOCKERFILE),
        ("docker/gpu.Dockerfile", Kind.DOCKERFILE),
        ("docker-compose.gpu.yml", Kind.COMPOSE),
        ("requirements-dev.txt", Kind.REQUIREMENTS),
        ("requirements/train.txt", Kind.REQUIREMENTS),
        ("environment.yaml", Kind.CONDA),
        ("Makefile", Kind.MAKEFILE),
        ("data.txt", None),
        ("model.pt", None),
        ("LICENSE", None),
        (".py", Kind.PYTHON),
        ("Train.PY", Kind.PYTHON),
    ],
)
def test_kinds(path: str, kind: Kind | None) -> None:
    assert kind_of(path) is kind


def test_scripts_without_a_suffix_are_read(tmp_path: Path) -> None:
    texts = {
        "bin/train": "#!/usr/bin/env bash\n",
        "run": "#!/bin/sh\n",
        "tool": "#!/usr/bin/env -S python3 -u\n",
        "old": "#!/usr/bin/python2.7\n",
        "jit": "#!/opt/pypy3/bin/pypy3\n",
        "LICENSE": "MIT\n",
        "x": "#!/bin/fish\n",
        "y": "#!/opt/python-tools/bin/perl\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert {(entry.path, entry.kind) for entry in list_files(tmp_path).entries} == {
        ("bin/train", Kind.SHELL),
        ("run", Kind.SHELL),
        ("tool", Kind.PYTHON),
        ("old", Kind.PYTHON),
        ("jit", Kind.PYTHON),
    }


def bare(root: Path, *paths: str) -> None:
    """Write files without a suffix: scripts where their names say so."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("#!/bin/sh\n" if path.endswith("run") else "data\n", encoding="utf-8")


def told(root: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the scripts without a suffix that are listed, and what is said of files that were not asked."""
    listing = list_files(root)
    unasked = [(skip.path, skip.reason.render("en")) for skip in listing.unasked]
    return [entry.path for entry in listing.entries if entry.kind is Kind.SHELL], unasked


def test_a_script_behind_many_files_of_data_is_listed(tmp_path: Path) -> None:
    bare(tmp_path, *(f"data/{number}" for number in range(1000)), "tools/run")
    assert told(tmp_path) == (["tools/run"], [])


def test_files_without_a_suffix_beyond_the_limit_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_MOST_BARE", 10)
    data = [f"data/{number:02}" for number in range(9)]
    bare(tmp_path, *data, "data/run", "tools/run", "run")
    several = "too many files without a suffix: {} were not examined; they may be scripts"
    one = "too many files without a suffix: 1 was not examined; it may be a script"
    assert told(tmp_path) == (["run", "tools/run"], [("data", several.format(2))])
    (tmp_path / "data" / "00").unlink()
    assert told(tmp_path) == (["run", "tools/run"], [("data", one)])
    (tmp_path / "data" / "01").unlink()
    assert told(tmp_path) == (["data/run", "run", "tools/run"], [])
    monkeypatch.setattr(tree, "_MOST_BARE", 1)
    monkeypatch.setattr(tree, "_MOST_UNASKED", 1)
    assert told(tmp_path) == (["run"], [(".", several.format(9))])
    bare(tmp_path, *(f"more/{number}/a" for number in range(3)))
    for path in ("run", "tools/run", *(f"data/{number:02}" for number in range(2, 9)), "data/run"):
        (tmp_path / path).unlink()
    assert told(tmp_path) == ([], [("more", several.format(2))])
    (tmp_path / "native.cpp").write_text("", encoding="utf-8")
    assert told(tmp_path) == ([], [])


def test_files_without_a_suffix_that_cannot_be_read_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare(tmp_path, "private/a", "private/run", "tools/run")

    def denied(path: str, limit: int) -> bytes:
        if "private" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return read_head(path, limit)

    monkeypatch.setattr(tree, "read_head", denied)
    said = "2 files without a suffix cannot be read; they may be scripts"
    assert told(tmp_path) == (["tools/run"], [("private", said)])


@given(
    st.lists(st.tuples(st.sampled_from(["", "a/", "a/b/", "c/"]), st.integers(0, 9)), unique=True), st.integers(0, 8)
)
def test_each_file_without_a_suffix_is_asked_or_counted(paths: list[tuple[str, int]], limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        bare(Path(folder), *(f"{prefix}{number}run" for prefix, number in paths))
        patch.setattr(tree, "_MOST_BARE", limit)
        patch.setattr(tree, "_MOST_UNASKED", 2)
        scripts, unasked = told(Path(folder))
    counts = [int(number) for _, reason in unasked for number in re.findall(r": (\d+) w", reason)]
    assert len(scripts) + sum(counts) == len(paths)
    assert len(scripts) == min(limit, len(paths))
