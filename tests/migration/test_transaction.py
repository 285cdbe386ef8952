"""All or nothing, whatever happens in between; and every byte comes back."""

from __future__ import annotations

import errno
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.migration.trees import BEFORE, build, snapshot
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration import transaction
from torchferry.migration.journal import DONE, journals
from torchferry.migration.refused import ConflictError
from torchferry.migration.transaction import Write, apply, exclusive, undo

WRITES = [
    Write("pkg/model.py", BEFORE["pkg/model.py"], b"new model\n"),
    Write("pkg/new.py", None, b"made by the migration\n", 0o600),
    Write("run.sh", BEFORE["run.sh"], b""),
    Write("train.py", BEFORE["train.py"], b"new train\n" * 5000),
]


def after(before: dict[str, tuple[bytes, int, int]]) -> dict[str, bytes]:
    return {path: entry[0] for path, entry in before.items()} | {write.path: write.after for write in WRITES}


def contents(root: Path) -> dict[str, bytes]:
    return {path: entry[0] for path, entry in snapshot(root).items()}


def test_applied_and_undone_to_the_byte_mode_and_time(tmp_path: Path) -> None:
    build(tmp_path)
    before = snapshot(tmp_path)
    with exclusive(tmp_path) as tree:
        journal = apply(tree, WRITES, "npu")
    assert journal.state == DONE
    assert contents(tmp_path) == after(before)
    assert {path: entry[1] for path, entry in snapshot(tmp_path).items() if path in before} == {
        path: entry[1] for path, entry in before.items()
    }
    with exclusive(tmp_path) as tree:
        undo(tree, tree.journals()[-1])
    assert snapshot(tmp_path) == before
    assert not (tmp_path / ".torchferry").exists()


def test_a_file_is_written_once(tmp_path: Path) -> None:
    """A journal with a path twice could not be taken back, so none is written."""
    build(tmp_path)
    before = snapshot(tmp_path)
    twice = [Write("pkg/new.py", None, b"one\n"), Write("pkg/new.py", None, b"two\n")]
    with exclusive(tmp_path) as tree, pytest.raises(ValueError, match="written twice"):
        apply(tree, twice, "npu")
    assert snapshot(tmp_path) == before


STEPS = ("replace", "fsync", "unlink", "write", "mkdir", "fchmod", "rmdir", "link", "ftruncate", "utime")
"""What changes something on the disk; opening a new file does too. A process can be killed before each."""


def ended_by(number: signal.Signals, root: Path, deadline: int, what: str) -> int:
    """Apply or undo in a child that gets a signal at a step; return how it ended."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = count(1)

    def counted(function: Any, changes: Any = lambda *_: True) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if changes(*args) and next(steps) == deadline:  # files are made durable by several threads
                os.kill(os.getpid(), number)
            return function(*args, **kwargs)

        return wrapper

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    code = 1
    try:
        signal.signal(signal.SIGTERM, interrupted)  # as the command line does
        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        os.open = counted(os.open, lambda path, flags, *_: flags & os.O_CREAT)
        with exclusive(root) as tree:
            if what == "apply":
                apply(tree, WRITES, "npu")
            else:
                undo(tree, tree.journals()[-1])
        code = 0
    finally:
        os._exit(code)


@pytest.mark.parametrize("what", ["apply", "undo"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "interrupted"])
def test_ended_at_any_moment_the_tree_is_as_before_or_as_after(
    tmp_path: Path, what: str, number: signal.Signals
) -> None:
    """One that is interrupted needs no other command for it."""
    states = set()
    for deadline in range(1, 400):
        root = tmp_path / str(deadline)
        build(root)
        before = snapshot(root)
        if what == "undo":
            with exclusive(root) as tree:
                apply(tree, WRITES, "npu")
        status = ended_by(number, root, deadline, what)
        if number == signal.SIGKILL:
            with exclusive(root):  # the next command takes back what is half done
                pass
        now = contents(root)
        assert now in (after(before), contents_of(before)), f"ended at step {deadline} of {what}"
        assert transaction.interrupted(root) == []
        assert not list(root.rglob(".torchferry-*")), "a temporary file is left"
        states.add(now == after(before))
        with exclusive(root) as tree:
            for journal in tree.journals():
                undo(tree, journal)
        assert not (root / ".torchferry").exists(), f"ended at step {deadline} of {what}"
        assert snapshot(root) == before
        if status == 0:
            break
        assert status == (1 if number == signal.SIGTERM else -signal.SIGKILL)
    else:
        pytest.fail("the run never came to its end")
    assert deadline > 20, "there were steps to be ended at"
    assert states == {True, False}


def contents_of(shot: dict[str, tuple[bytes, int, int]]) -> dict[str, bytes]:
    return {path: entry[0] for path, entry in shot.items()}


@pytest.mark.parametrize("step", range(1, 40))
def test_a_full_disk_takes_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    build(tmp_path)
    before = snapshot(tmp_path)
    steps = count(1)

    def full(name: str) -> object:
        function = getattr(os, name)

        def wrapper(*args: object, **kwargs: object) -> object:
            if next(steps) == step:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
            return function(*args, **kwargs)

        return wrapper

    with exclusive(tmp_path) as tree:
        with monkeypatch.context() as patched:
            for name in ("replace", "fsync", "fchmod"):
                patched.setattr(os, name, full(name))
            try:
                apply(tree, WRITES, "npu")
                said = ""
            except TorchferryError as error:
                said = error.message.render("en")
        failed = bool(said)
        assert not failed or "No space left" in said
        if failed:
            assert contents(tmp_path) == contents_of(before)
            assert [journal for journal in journals(tmp_path) if journal.state == DONE] == []
    with exclusive(tmp_path):
        assert contents(tmp_path) == (contents_of(before) if failed else after(before))


def test_undo_refuses_when_files_have_changed_since(tmp_path: Path) -> None:
    build(tmp_path)
    with exclusive(tmp_path) as tree:
        apply(tree, WRITES, "npu")
        (tmp_path / "run.sh").write_bytes(b"edited by hand")
        now = snapshot(tmp_path)
        with pytest.raises(ConflictError) as caught:
            undo(tree, tree.journals()[-1])
    assert caught.value.paths == ["run.sh"]
    assert caught.value.message.render("en") == "1 file has changed since torchferry wrote it: run.sh"
    assert caught.value.advice is not None
    assert caught.value.advice.render("en").startswith("save those changes elsewhere and restore the files")
    assert snapshot(tmp_path) == now, "nothing was touched"


def test_a_file_changed_since_the_scan_is_not_written(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "train.py").write_bytes(b"somebody was faster")
    before = snapshot(tmp_path)
    with exclusive(tmp_path) as tree, pytest.raises(ConflictError) as caught:
        apply(tree, WRITES, "npu")
    assert caught.value.message.render("en") == "1 file has changed since torchferry read it: train.py"
    assert caught.value.advice is not None
    assert caught.value.advice.render("en") == "run the command again; nothing was changed"
    assert snapshot(tmp_path) == before
    assert journals(tmp_path) == []


def test_what_could_not_be_restored_after_a_conflict_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: object) -> None:
        raise ConflictError(["train.py"], read=True)

    def unrestorable(*_: object) -> None:
        raise TorchferryError(say("the disk is gone"))

    build(tmp_path)
    monkeypatch.setattr("torchferry.migration.transaction._move_into_place", conflict)
    with exclusive(tmp_path) as tree:
        monkeypatch.setattr("torchferry.migration.transaction._restore", unrestorable)
        with pytest.raises(TorchferryError) as caught:
            apply(tree, WRITES, "npu")
    assert caught.value.message.render("en") == (
        "1 file has changed since torchferry read it: train.py; restoring failed too: the disk is gone"
    )
    assert caught.value.advice is not None
    assert "`torchferry undo" in caught.value.advice.render("en")


def test_a_link_out_of_the_tree_is_not_written_through(tmp_path: Path) -> None:
    root = tmp_path / "root"
    build(root)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_bytes(b"mine")
    os.symlink(outside, root / "link")
    with exclusive(root) as tree, pytest.raises(TorchferryError, match="reached through"):
        apply(tree, [Write("link/x.py", b"mine", b"theirs")], "npu")
    assert (outside / "x.py").read_bytes() == b"mine"


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", "a/../../x.py", ".torchferry/x.py", "a//x.py"])
def test_a_forged_journal_cannot_write_outside(tmp_path: Path, path: str) -> None:
    build(tmp_path)
    with exclusive(tmp_path) as tree:
        journal = apply(tree, WRITES, "npu")
    manifest = journal.folder / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace("run.sh", path), encoding="utf-8")
    with pytest.raises(TorchferryError, match=r"outside the tree|belongs to a version control system"):
        journals(tmp_path)


def test_a_damaged_journal_is_not_believed(tmp_path: Path) -> None:
    build(tmp_path)
    with exclusive(tmp_path) as tree:
        journal = apply(tree, WRITES, "npu")
        now = contents(tmp_path)
        data = bytearray((journal.folder / "before.bin").read_bytes())
        data[3] ^= 1
        (journal.folder / "before.bin").write_bytes(data)
        with pytest.raises(TorchferryError, match="damaged"):
            undo(tree, tree.journals()[-1])
        assert contents(tmp_path) == now


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    build(tmp_path)
    with exclusive(tmp_path), pytest.raises(TorchferryError, match=f"process {os.getpid()}"), exclusive(tmp_path):
        pytest.fail("held twice")


def test_the_control_folder_may_not_be_a_link(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    os.symlink(elsewhere, root / ".torchferry")
    with pytest.raises(TorchferryError, match=r"was not made by torchferry"), exclusive(root):
        pass
    assert list(elsewhere.iterdir()) == []


def test_another_file_system_inside_of_the_tree_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path)
    before, replace = snapshot(tmp_path), os.replace

    def across(source: str, target: str, **folders: int) -> None:
        if source.isdigit() and not target.isdigit() and not target.endswith(".gone"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        replace(source, target, **folders)

    monkeypatch.setattr(os, "replace", across)
    (tmp_path / ".train.py.torchferry").write_bytes(b"mine")
    with exclusive(tmp_path) as tree:
        apply(tree, WRITES, "npu")
        assert contents(tmp_path) == after(before) | {".train.py.torchferry": b"mine"}
        undo(tree, tree.journals()[-1])
    assert {path: entry for path, entry in snapshot(tmp_path).items() if path in before} == before
    assert sorted(os.listdir(tmp_path)) == sorted({*(path.split("/")[0] for path in before), ".train.py.torchferry"})
