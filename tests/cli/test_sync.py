"""`torchferry sync`: upstream's changes arrive migrated, a person's stay, and nothing is lost or made up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.test_since import git
from torchferry.cli import cli
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.migration.upstream import RECORD, FileOutcome, merged_files, record_of, recorded_commit

TRAIN = """import torch

RATE = 0.1


def main():
    model = torch.nn.Linear(2, 2).cuda()
    print(model)


def tail():
    return 1


main()
"""
UTIL = 'import torch\n\n\ndef device():\n    return torch.device("cuda")\n\n\ndef count():\n    return 1\n'
FIRST = {
    "train.py": TRAIN,
    "util.py": UTIL,
    "same.py": UTIL + "# the same\n",
    "notes.txt": "a\n",
    "gone.py": "x = 1\n",
    "data.bin": "a\0b",
}


def ferry(*words: object, lang: str = "en") -> Result:
    return CliRunner().invoke(cli, [*map(str, words)], env={"TORCHFERRY_LANG": lang})


def files(folder: Path) -> dict[str, bytes]:
    found = (
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and not {".git", ".torchferry"} & {*path.parts}
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def edit(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_bytes().decode()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path.write_bytes(text.encode())


def commit(folder: Path, name: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a migrated project on a branch of its own; upstream has the tags v1, from which it was made, and v2."""
    folder = tmp_path / "project"
    folder.mkdir()
    for path, text in FIRST.items():
        (folder / path).write_bytes(text.encode())
    git(folder, "init", "-q", "-b", "upstream")
    commit(folder, "one")
    git(folder, "tag", "v1")
    edit(folder / "train.py", ("    print(model)", "    torch.cuda.synchronize()\n    print(model)"))
    git(folder, "mv", "util.py", "helpers.py")
    git(folder, "mv", "same.py", "renamed.py")
    edit(folder / "helpers.py", ("return 1", "return 2"))
    (folder / "new.py").write_text("import torch\n\n\ndef new(x):\n    return x.cuda()\n")
    (folder / "tool.sh").write_text("#!/bin/sh\necho\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / "gone.py").unlink()
    (folder / "data.bin").write_bytes(b"a\0c")
    (folder / "link.py").symlink_to("train.py")
    (folder / "notes.txt").chmod(0o755)
    commit(folder, "two")
    git(folder, "tag", "v2")
    git(folder, "checkout", "-q", "-b", "port", "v1")
    assert ferry("migrate", folder, "-t", "npu", "-q").exit_code == 0
    commit(folder, "port")
    return folder


def test_it_is_what_migrating_the_later_state_gives_and_undo_takes_it_back(project: Path, tmp_path: Path) -> None:
    before = files(project)
    done = ferry("sync", "v2", project, "-t", "npu")
    assert done.exit_code == 1, done.output  # two files are left for a person to remove
    assert "gone.py: upstream has removed it: remove it" in done.output
    assert "helpers.py: as upstream has it, migrated; it was util.py" in done.output
    for path in ("link.py", "notes.txt"):
        assert f"{path}: upstream has changed a link, a submodule or permissions" in done.output
    assert not (project / "link.py").is_symlink()
    assert "nothing new" in done.output or "new for Huawei Ascend" in done.output
    direct = tmp_path / "direct" / "project"
    git(tmp_path, "clone", "-q", str(project), str(direct))
    git(direct, "checkout", "-q", "v2")
    assert ferry("migrate", direct, "-t", "npu", "-q").exit_code == 0
    after = files(project)
    assert recorded_commit(after.pop(RECORD)) == (project / ".git/refs/tags/v2").read_text().strip()
    assert {path: after[path] for path in files(direct)} == files(direct)
    assert {*after} - {*files(direct)} == {"gone.py", "same.py", "util.py"}
    assert os.access(project / "tool.sh", os.X_OK)
    again = ferry("sync", "v2", project, "-t", "npu", "--allow-dirty")
    assert (again.exit_code, again.output) == (0, again.output)
    assert "the project is at v2" in again.output
    assert ferry("undo", project).exit_code == 0
    assert files(project) == before


def test_what_people_changed_stays(project: Path) -> None:
    edit(project / "train.py", ("return 1", "return 5"))
    edit(project / "util.py", ("import torch\n", "import torch  # ours\n"))
    commit(project, "ours")
    patch = ferry("sync", "v2", project, "-t", "npu", "--diff")
    assert patch.exit_code == 1
    assert "+    torch.npu.synchronize()" in patch.output
    assert not (project / RECORD).exists()
    assert ferry("sync", "v2", project, "-t", "npu").exit_code == 1
    text = (project / "train.py").read_text()
    assert "return 5" in text
    assert "torch.npu.synchronize()" in text
    helpers = (project / "helpers.py").read_text()
    assert "# ours" in helpers
    assert "return 2" in helpers
    assert 'torch.device("npu")' in helpers


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_both_texts_stand_where_both_changed_the_same_lines(project: Path, ends: str) -> None:
    edit(project / "train.py", ("    print(model)", "    print('ours', model)"))
    text = (project / "train.py").read_bytes().replace(b"\n", ends.encode())
    (project / "train.py").write_bytes(text)
    commit(project, "ours")
    done = ferry("sync", "v2", project, "-t", "npu")
    assert done.exit_code == 1
    assert "train.py: both changed the same lines: one place" in done.output
    assert "train.py" in done.output.rpartition("FIL103")[0]
    merged = (project / "train.py").read_bytes().decode()
    assert merged.count(ends) == merged.count("\n")
    for part in ("<<<<<<< present", "print('ours', model)", "torch.npu.synchronize()", ">>>>>>> migrated"):
        assert part in merged


def test_what_was_removed_here_does_not_come_back_and_what_was_changed_here_does_not_go(project: Path) -> None:
    (project / "train.py").unlink()
    edit(project / "gone.py", ("x = 1", "x = 2"))
    (project / "data.bin").write_bytes(b"ours\0")
    (project / "new.py").write_text("# ours\n")
    commit(project, "ours")
    done = ferry("sync", "v2", project, "-t", "npu")
    assert done.exit_code == 1
    assert not (project / "train.py").exists()
    assert (project / "gone.py").read_text() == "x = 2\n"
    assert (project / "data.bin").read_bytes() == b"ours\0"
    assert "# ours" in (project / "new.py").read_text()
    for path, words in (("train.py", "left as it is"), ("gone.py", "left as it is"), ("data.bin", "both changed")):
        assert f"{path}: {words}" in done.output


def _alone(project: Path) -> None:
    git(project, "checkout", "-q", "--orphan", "alone")
    commit(project, "alone")


def test_line_ends_that_upstream_changed_are_no_conflict(project: Path) -> None:
    git(project, "checkout", "-q", "v2")
    windows = (project / "train.py").read_bytes().replace(b"\n", b"\r\n")
    (project / "train.py").write_bytes(windows)
    commit(project, "windows")
    git(project, "tag", "v3")
    git(project, "checkout", "-q", "port")
    edit(project / "train.py", ("return 1", "return 5"))
    commit(project, "ours")
    done = ferry("sync", "v3", project, "-t", "npu")
    assert "train.py: merged with what was changed here" in done.output
    text = (project / "train.py").read_bytes()
    assert b"\r" not in text
    assert b"torch.npu.synchronize()" in text
    assert b"return 5" in text


def test_what_upstream_changed_and_we_too_is_no_change(project: Path) -> None:
    edit(project / "train.py", ("    print(model)", "    torch.npu.synchronize()\n    print(model)"), ("1", "7"))
    commit(project, "ours")
    before = (project / "train.py").read_bytes()
    assert "train.py" not in ferry("sync", "v2", project, "-t", "npu").output
    assert (project / "train.py").read_bytes() == before


def _folder(project: Path) -> None:
    (project / "train.py").unlink()
    (project / "train.py").mkdir()


REFUSED: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "unknown": (lambda p: None, "v9", "git knows no commit `v9`"),
    "an option of git's": (lambda p: None, "--output=x", "git knows no commit `--output=x`"),
    "not committed": (lambda p: edit(p / "train.py", ("return 1", "return 3")), "v2", "not committed"),
    "a record with a conflict": (lambda p: (p / RECORD).write_text("<<<<<<<"), "v2", "does not name a commit"),
    "a record of elsewhere": (lambda p: (p / RECORD).write_bytes(record_of("0" * 40, "v0")), "v2", "with --from"),
    "a folder in place of a file": (_folder, "v2", "cannot read"),
    "a history of its own": (_alone, "v2", "name it with --from"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_changes_nothing(project: Path, name: str) -> None:
    change, revision, words = REFUSED[name]
    change(project)
    before = files(project)
    done = ferry("sync", "-t", "npu", "--", revision, project)
    assert isinstance(done.exception, TorchferryError), done.output
    assert words in f"{done.exception.message.render('en')} {done.exception.advice}"
    assert files(project) == before
    if name == "a history of its own":
        assert ferry("sync", "v2", project, "-t", "npu", "--from", "v1").exit_code == 1
        assert "synchronize" in (project / "train.py").read_text()


def test_outside_of_git(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TRAIN)
    assert isinstance(ferry("sync", "v2", tmp_path, "-t", "npu", "--isolated").exception, UsageError)


CONTENT = st.sampled_from([b"a\n", b"b\n", b"c\n"])
STATE = st.dictionaries(st.sampled_from(["p", "q"]), CONTENT)


@given(STATE, STATE, STATE)
def test_nothing_of_ours_is_lost_without_a_word(
    earlier: dict[str, bytes], present: dict[str, bytes], later: dict[str, bytes]
) -> None:
    outcomes = {file.path: file for file in merged_files(earlier, present, later, {}, lambda *_: (b"merged", 1))}
    for path in {*earlier, *present, *later}:
        base, ours, theirs = (each.get(path) for each in (earlier, present, later))
        file = outcomes.get(path)
        if file is None:  # upstream has not changed it, or it is there already
            assert base == theirs or ours == theirs
        elif file.outcome is FileOutcome.TAKEN:
            assert (ours, file.after) == (base, theirs)
        elif file.outcome is FileOutcome.ADDED:
            assert (base, ours, file.after) == (None, None, theirs)
        elif file.outcome is FileOutcome.REMOVED:
            assert (theirs, file.after) == (None, None)
            assert ours == base
        elif file.outcome is FileOutcome.KEPT:
            assert file.after is None
            assert None in (ours, theirs)
        else:
            assert file.outcome is FileOutcome.CONFLICT
            assert len({base, ours, theirs}) == 3
