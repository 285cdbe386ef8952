"""A tree is not to be trusted: what it brings along moves nobody's files, and starts nothing."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.process import torchferry
from tests.migration.test_transaction import WRITES, contents
from tests.migration.trees import BEFORE, build, snapshot
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.migration import transaction
from torchferry.migration.copy import write_copy
from torchferry.migration.git import uncommitted
from torchferry.migration.journal import DONE, digest, journals, refuse_path
from torchferry.migration.plan import plan
from torchferry.migration.refused import ConflictError, UnknownJournalError
from torchferry.migration.transaction import Write, apply, exclusive, undo
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.git import git
from torchferry.source.tree import list_files


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    (folder / "photos").mkdir(parents=True)
    (folder / "after").mkdir()
    for name in ("photos/1.jpg", "thesis.txt", "before.bin", "after/000000", "manifest.json"):
        (folder / name).write_bytes(b"mine")
    return folder


def migrated(root: Path) -> Path:
    build(root)
    with exclusive(root) as tree:
        apply(tree, WRITES, "npu")
    return root / ".torchferry" / "journal" / "0001"


def manifest_with(journal: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest as somebody could who has no key."""
    document = json.loads((journal / "manifest.json").read_bytes())
    change(document)
    (journal / "manifest.json").write_text(json.dumps(document), encoding="utf-8")


# --- links ---


@pytest.mark.parametrize(
    "place",
    [
        "",
        "journal",
        "journal/new",
        "journal/0001",
        "journal/0001.gone",
        "journal/0001/after",
        "journal/0001/old",
        "lock",
    ],
)
def test_a_link_below_the_control_folder_leads_nowhere(tmp_path: Path, victim: Path, place: str) -> None:
    root = tmp_path / "project"
    migrated(root)
    link = root / ".torchferry" / place
    if link.is_dir():
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    os.symlink(victim, link)
    before, mine = snapshot(victim), snapshot(root)
    for command in (("undo",), ("migrate", "-t", "npu"), ("scan", "-t", "npu", "--exit-zero")):
        done = torchferry(command[0], root, *command[1:])
        assert "Traceback" not in done.stderr
        assert f"`{link}` was not made by torchferry: it is a link" in done.stderr
        if command[0] == "scan":
            assert (done.returncode, bool(done.stdout)) == (0, True), "it writes nothing, and goes on"
        else:
            assert (done.returncode, done.stdout) == (2, ""), done.stdout
            assert "move it away and try again" in done.stderr
        assert (snapshot(victim), snapshot(root)) == (before, mine)


@pytest.mark.parametrize("way", [os.symlink, os.link])
def test_a_lock_or_ignore_file_that_is_another_file_is_not_written(
    tmp_path: Path, victim: Path, way: Callable[[Path, Path], None]
) -> None:
    for name in ("lock", ".gitignore"):
        root = tmp_path / name
        build(root)
        (root / ".torchferry").mkdir()
        way(victim / "thesis.txt", root / ".torchferry" / name)
        done = torchferry("migrate", root, "-t", "npu")
        assert "Traceback" not in done.stderr
        assert (done.returncode == 2) == (name == "lock" or way is os.symlink), done.stderr
        assert (victim / "thesis.txt").read_bytes() == b"mine"
        assert (root / ".torchferry" / name).exists()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the path of a socket is short
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


@pytest.mark.parametrize("make", [fifo, folder, unix_socket])
def test_a_lock_of_another_kind_is_said_and_not_waited_for(tmp_path: Path, make: Callable[[Path], None]) -> None:
    build(tmp_path)
    (tmp_path / ".torchferry").mkdir()
    make(tmp_path / ".torchferry" / "lock")
    with pytest.raises(TorchferryError, match="was not made by torchferry"), exclusive(tmp_path):
        pytest.fail("held")


@pytest.mark.parametrize("make", [fifo, folder])
def test_a_file_that_became_another_kind_is_a_conflict(tmp_path: Path, make: Callable[[Path], None]) -> None:
    migrated(tmp_path)
    (tmp_path / "run.sh").unlink()
    make(tmp_path / "run.sh")
    with exclusive(tmp_path) as tree, pytest.raises(ConflictError, match=r"run\.sh"):
        undo(tree, tree.journals()[-1])


def test_a_folder_that_becomes_a_link_during_a_migration_is_not_followed(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "project"
    build(root)
    (victim / "model.py").write_bytes(BEFORE["pkg/model.py"])
    before, checked = snapshot(victim), transaction._prepare

    def swapped(*arguments: Any) -> Any:
        journal = checked(*arguments)
        (root / "pkg").rename(root / "elsewhere")
        os.symlink(victim, root / "pkg")
        return journal

    with exclusive(root) as tree:
        monkeypatch.setattr(transaction, "_prepare", swapped)
        with pytest.raises(TorchferryError, match="reached through"):
            apply(tree, WRITES, "npu")
    assert snapshot(victim) == before


def test_a_root_that_is_swapped_is_left_and_the_open_one_written(tmp_path: Path, victim: Path) -> None:
    root = tmp_path / "project"
    build(root)
    before = snapshot(victim)
    with exclusive(root) as tree:
        root.rename(tmp_path / "moved")
        os.symlink(victim, root)
        apply(tree, WRITES, "npu")
    assert snapshot(victim) == before
    assert (tmp_path / "moved" / "train.py").read_bytes() == WRITES[-1].after


def test_only_what_a_journal_consists_of_is_removed(tmp_path: Path) -> None:
    journal = migrated(tmp_path)
    place = journal.parent
    for path in (place / "new" / "notes.txt", place / "0007.gone" / "after" / "notes.txt", place / "mine" / "x"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"mine")
    (place / "new" / "before.bin").write_bytes(b"of a run that was killed")
    with exclusive(tmp_path) as tree:
        undo(tree, tree.journals()[-1])
    left = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    assert left == ["0007.gone/after/notes.txt", "mine/x", "new/notes.txt"]


def test_a_copy_removes_and_follows_nothing_that_is_there(tmp_path: Path, victim: Path) -> None:
    root = tmp_path / "project"
    build(root)
    (tmp_path / ".out.torchferry").mkdir()
    (tmp_path / ".out.torchferry" / "thesis.txt").write_bytes(b"mine")
    os.symlink(victim, root / "data")
    before = snapshot(victim)
    with pytest.raises(TorchferryError, match="cannot write the copy"):
        write_copy(root, tmp_path / "out", [Write("data/thesis.txt", b"mine", b"theirs")])
    write_copy(root, tmp_path / "out", [WRITES[-1]])
    assert (tmp_path / ".out.torchferry" / "thesis.txt").read_bytes() == b"mine"
    assert snapshot(victim) == before
    assert (tmp_path / "out" / "train.py").read_bytes() == WRITES[-1].after


# --- journals of others ---


CONTROL = (".git/config", "pkg/.GIT/hooks/pre-commit", ".gi\u200dt/config", "git~1/config", ".git./config", ".hg/hgrc")
OUTSIDE = ("../x.py", "/etc/x.py", "a/../../x.py", "a//x.py", "./x.py", "x\0.py", "")


@pytest.mark.parametrize("path", [*CONTROL, ".svn/x", ".jj/repo/config.toml", ".Torchferry/journal/0001/x", *OUTSIDE])
def test_no_journal_and_no_migration_names_such_a_path(path: str) -> None:
    with pytest.raises(TorchferryError):
        refuse_path(path, say("the migration"))


def test_ordinary_paths_are_no_control_folders() -> None:
    for path in (".github/workflows/ci.yml", ".gitlab-ci.yml", "git/x.py", "pkg/.gitignore/x.py", "é.py"):
        refuse_path(path, say("the migration"))


def forged(root: Path, path: str, mode: int, state: str) -> None:
    """Write a journal that would give a file other contents, as an attacker does."""
    old = b"[core]\n\tfsmonitor = touch /tmp/pwned\n"
    folder = root / ".torchferry" / "journal" / "0001"
    (folder / "after").mkdir(parents=True)
    (folder / "before.bin").write_bytes(old)
    now = digest((root / path).read_bytes())
    change = {"path": path, "before": digest(old), "after": now, "offset": 0, "size": len(old)}
    document = {"schema": 1, "state": state, "target": "npu", "torchferry": "0.1.0", "created": "2025-01-01T00:00:00Z"}
    document["changes"] = [{**change, "mode": mode, "mtime_ns": 0}]
    (folder / "manifest.json").write_text(json.dumps(document), encoding="utf-8")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("migrate", "-t", "npu"),
    ("migrate", "-t", "npu", "--suffix", "_npu"),
    ("undo",),
    ("undo", "--all"),
    ("scan", "-t", "npu", "--exit-zero"),
)


@pytest.mark.parametrize("state", ["applying", "undoing"])
def test_a_journal_that_came_with_the_tree_is_shown_and_not_acted_on(tmp_path: Path, state: str) -> None:
    build(tmp_path)
    forged(tmp_path, "run.sh", 0o104777, state)
    before = snapshot(tmp_path)
    for name, *options in COMMANDS:
        done = torchferry(name, tmp_path, *options)
        assert snapshot(tmp_path) == before
        assert "is not known as yours (it has no signature)" in done.stderr
        assert "Traceback" not in done.stderr
        if name != "scan":
            assert done.returncode == 2
            assert "It would write 1 (run.sh) and remove no file" in done.stderr
            assert "--trust-journal" in done.stderr
    done = torchferry("undo", tmp_path, "--trust-journal")
    assert "undid the interrupted migration to npu" in done.stdout
    assert (tmp_path / "run.sh").read_bytes().startswith(b"[core]")
    assert (tmp_path / "run.sh").stat().st_mode & 0o7777 == 0o777, "no bit that gives rights to who starts it"


@pytest.mark.parametrize("options", [(), ("--trust-journal",)])
def test_nothing_is_put_into_git(tmp_path: Path, options: tuple[str, ...]) -> None:
    build(tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    forged(tmp_path, ".git/config", 0o644, "applying")
    before = snapshot(tmp_path)
    for name, *more in (("undo", *options), *COMMANDS):
        done = torchferry(name, tmp_path, *more)
        assert (done.returncode, snapshot(tmp_path)) == (0 if name == "scan" else 2, before)
        assert "belongs to a version control system" in done.stderr


def test_a_journal_that_git_tracks_is_never_acted_on(tmp_path: Path) -> None:
    migrated(tmp_path)
    command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run([*command, "add", "-f", "."], check=True)
    subprocess.run([*command, "commit", "-qm", "x"], check=True)
    before = contents(tmp_path)
    for options in ((), ("--trust-journal",)):
        done = torchferry("undo", tmp_path, *options)
        assert done.returncode == 2
        assert "git tracks" in done.stderr
        assert "git rm -r --cached .torchferry" in done.stderr
        assert contents(tmp_path) == before


def test_a_journal_is_known_where_it_was_made_by_who_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, moved, copied = tmp_path / "project", tmp_path / "moved", tmp_path / "copied"
    journal = migrated(root)
    [known] = journals(root)
    assert known.is_known
    shutil.copytree(root, copied)
    assert not journals(copied)[0].is_known
    root.rename(moved)
    assert journals(moved)[0].is_known, "the same folder under another name"
    moved.rename(root)
    manifest = (journal / "manifest.json").read_bytes()
    for change in (
        lambda document: document.update(state="applying"),
        lambda document: document["changes"][0].update(mode=0o777),
        lambda document: document.pop("signatures"),
        lambda document: document.update(signatures=dict.fromkeys(document["signatures"], "é")),
    ):
        manifest_with(journal, change)
        assert not journals(root)[0].is_known
        (journal / "manifest.json").write_bytes(manifest)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
    assert not journals(root)[0].is_known


def test_a_key_that_others_can_read_or_that_came_with_the_tree_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "project"
    migrated(root)
    key = tmp_path / "state" / "torchferry" / "journal.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert journals(root)[0].is_known
    key.chmod(0o644)
    assert not journals(root)[0].is_known
    key.chmod(0o600)
    shutil.move(tmp_path / "state", root / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    assert "is part of the tree" in str(journals(root)[0].problem)


def test_without_a_state_folder_a_migration_says_what_undo_will_need(tmp_path: Path) -> None:
    build(tmp_path)
    before = snapshot(tmp_path)
    none = {"XDG_STATE_HOME": "/dev/null"}
    done = torchferry("migrate", tmp_path, "-t", "npu", env=none)
    assert "could not be signed: your key in /dev/null/torchferry cannot be used: Not a directory" in done.stderr
    assert torchferry("undo", tmp_path, env=none).returncode == 2
    assert snapshot(tmp_path) != before
    assert torchferry("undo", tmp_path, "--trust-journal", env=none).returncode == 0
    assert snapshot(tmp_path) == before
    assert not (tmp_path / ".torchferry").exists()


def test_a_forged_journal_does_not_excuse_uncommitted_changes(tmp_path: Path) -> None:
    build(tmp_path)
    command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run([*command, "add", "."], check=True)
    subprocess.run([*command, "commit", "-qm", "x"], check=True)
    (tmp_path / "train.py").write_bytes(BEFORE["train.py"] + b"# mine\n")
    forged(tmp_path, "train.py", 0o644, DONE)
    done = torchferry("migrate", tmp_path, "-t", "npu")
    assert done.returncode == 2
    assert "changes that are not committed, such as train.py" in done.stderr


# --- manifests ---


def sparse(journal: Path) -> None:
    os.truncate(journal / "manifest.json", 1 << 40)


def deep(journal: Path) -> None:
    (journal / "manifest.json").write_text('{"schema": 1, "changes": ' + "[" * 200_000, encoding="utf-8")


def piped(journal: Path) -> None:
    (journal / "manifest.json").unlink()
    os.mkfifo(journal / "manifest.json")


def changed(**values: object) -> Callable[[Path], None]:
    return lambda journal: manifest_with(journal, lambda document: document["changes"][0].update(values))


def document(**values: object) -> Callable[[Path], None]:
    return lambda journal: manifest_with(journal, lambda found: found.update(values))


MANIFESTS: dict[str, Callable[[Path], object]] = {
    "a terabyte": sparse,
    "deep": deep,
    "no JSON": lambda journal: (journal / "manifest.json").write_bytes(b"\xff{"),
    "a list": lambda journal: (journal / "manifest.json").write_bytes(b"[]"),
    "missing": lambda journal: (journal / "manifest.json").unlink(),
    "a pipe": piped,
    "a change too many": lambda journal: manifest_with(journal, lambda found: found["changes"].append({})),
    "a path twice": lambda journal: manifest_with(journal, lambda found: found["changes"].append(found["changes"][0])),
    "a size": changed(size=10**30),
    "a negative offset": changed(offset=-1),
    "a time": changed(mtime_ns=10**30),
    "a mode that is true": changed(mode=True),
    "a digest": changed(before="00"),
    "a path that is no name": changed(path="\ud800"),
    "an id": document(id="../x"),
    "a state": document(state="new"),
    "a target": document(target=["npu"]),
    "another schema": document(schema=2),
}


@pytest.mark.parametrize("damage", MANIFESTS.values(), ids=MANIFESTS)
def test_an_absurd_manifest_is_said_and_nothing_is_lost(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    journal = migrated(tmp_path)
    damage(journal)
    before = snapshot(tmp_path)
    old = (journal / "before.bin").read_bytes()
    with pytest.raises(TorchferryError, match=r"journal 0001|was not made by torchferry"):
        journals(tmp_path)
    with pytest.raises(TorchferryError), exclusive(tmp_path):
        pytest.fail("held")
    assert snapshot(tmp_path) == before
    assert (journal / "before.bin").read_bytes() == old


def test_a_size_that_before_bin_does_not_have_is_damage(tmp_path: Path) -> None:
    journal = migrated(tmp_path)
    changed(size=1 << 60)(journal)
    before = snapshot(tmp_path)
    with exclusive(tmp_path) as tree, pytest.raises(TorchferryError, match="damaged"):
        undo(tree, tree.journals()[-1], trust=True)
    assert snapshot(tmp_path) == before


# --- a full disk ---


def test_a_full_disk_during_undo_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    untouched = failures = 0
    for step in range(1, 60):
        root = tmp_path / str(step)
        build(root)
        before = snapshot(root)
        with exclusive(root) as tree:
            apply(tree, WRITES, "npu")
        migrated_tree = snapshot(root)
        count = 0

        def full(function: Callable[..., Any], step: int = step) -> Callable[..., Any]:
            def wrapper(*arguments: Any, **options: Any) -> Any:
                nonlocal count
                count += 1
                if count >= step:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
                return function(*arguments, **options)

            return wrapper

        with monkeypatch.context() as patched:
            for name in ("write", "fsync", "fchmod", "mkdir"):  # what needs room
                patched.setattr(os, name, full(getattr(os, name)))
            said = ""
            try:
                with exclusive(root) as tree:
                    undo(tree, tree.journals()[-1])
            except TorchferryError as error:
                said = error.message.render("en")
        failures += bool(said)
        assert not said or "No space left on device" in said
        if "nothing was touched" in said:
            untouched += 1
            assert snapshot(root) == migrated_tree
        with exclusive(root) as tree:
            for journal in tree.journals():
                undo(tree, journal)
        assert snapshot(root) == before
        if count < step:
            break
    else:
        pytest.fail("the undo never came to its end")
    assert untouched > 5
    assert failures > untouched


def test_what_the_disk_refuses_is_said_by_the_command(tmp_path: Path) -> None:
    migrated(tmp_path)
    shutil.rmtree(tmp_path / ".torchferry" / "journal" / "0001" / "after")
    (tmp_path / ".torchferry" / "journal" / "0001" / "old" / "foreign").mkdir(parents=True)
    before = snapshot(tmp_path)
    done = torchferry("undo", tmp_path)
    assert done.returncode == 2
    assert "cannot restore" in done.stderr
    assert "Traceback" not in done.stderr
    assert snapshot(tmp_path) == before


# --- git ---


def test_no_program_of_a_repository_is_started(tmp_path: Path) -> None:
    root, started = tmp_path / "project", tmp_path / "started"
    build(root)
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {started}\ncat\n", encoding="utf-8")
    evil.chmod(0o755)
    (root / ".gitattributes").write_text("* filter=evil\n", encoding="utf-8")
    command = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run([*command, "add", "."], check=True)
    subprocess.run([*command, "commit", "-qm", "x"], check=True)
    shutil.copy(evil, root / ".git" / "hooks" / "post-index-change")
    (root / ".git" / "more").write_text(f'[filter "evil"]\n\tclean = {evil}\n\trequired = true\n', encoding="utf-8")
    for name, value in (("include.path", "more"), ("core.fsmonitor", str(evil)), ("core.hooksPath", ".git/hooks")):
        subprocess.run([*command, "config", name, value], check=True)
    sub = root / "sub"
    shutil.copytree(root, sub, ignore=shutil.ignore_patterns("sub"))
    (root / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n', encoding="utf-8")
    inside = git(sub, "rev-parse", "HEAD") or ""
    subprocess.run(
        [
            *command,
            "-c",
            "core.fsmonitor=false",
            "update-index",
            "--add",
            "--cacheinfo",
            f"160000,{inside.strip()},sub",
        ],
        check=True,
    )
    started.unlink(missing_ok=True)
    for folder in (root, sub):
        (folder / "train.py").write_bytes(b"changed\n")
    assert {"train.py", "sub/train.py"} <= set(uncommitted(root))
    assert torchferry("scan", root, "-t", "npu").returncode == 1
    assert not started.exists()


def test_no_program_of_a_submodule_is_started(tmp_path: Path) -> None:
    """git looks into a submodule by itself, with the filters that this one configures."""
    inner, root, started = tmp_path / "inner", tmp_path / "project", tmp_path / "started"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {started}\ncat\n", encoding="utf-8")
    evil.chmod(0o755)
    user = ["-c", "protocol.file.allow=always", "-c", "user.name=x", "-c", "user.email=x@x"]
    for folder, files in (
        (inner, {".gitattributes": "* filter=evil\n", "m.py": "print(1)\n"}),
        (root, {"train.py": "import torch\nprint('loss', 1)\n", "LICENSE": "Apache\n"}),
    ):
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", folder], check=True)
        if folder is root:
            subprocess.run(["git", "-C", root, *user, "submodule", "--quiet", "add", inner, "sub"], check=True)
        subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
        subprocess.run(["git", "-C", folder, *user, "commit", "-qm", "x"], check=True)
    subprocess.run(["git", "-C", root / "sub", "config", "filter.evil.clean", evil], check=True)
    os.utime(root / "sub" / "m.py", (1, 1))  # not as its index has it, so git compares contents
    wanted = ("--for", "generic", "-t", "npu", "--model", "X", "--program", "train.py", "-o", tmp_path / "handed-over")
    done = torchferry("handover", "prepare", root, *wanted)
    assert done.returncode == 0, done.stderr
    assert git(root, "status", "--porcelain", reads_contents=True) == ""
    assert not started.exists()
    subprocess.run(["git", "-C", root, "status", "--porcelain"], check=True, capture_output=True)
    assert started.exists(), "git itself starts it"


def test_where_git_cannot_say_what_is_committed_nothing_is_written(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / ".git").mkdir()
    before = snapshot(tmp_path)
    done = torchferry("migrate", tmp_path, "-t", "npu")
    assert done.returncode == 2
    assert "git cannot tell which files" in done.stderr
    assert snapshot(tmp_path) == before
    assert torchferry("migrate", tmp_path, "-t", "npu", "--allow-dirty").returncode != 2


# --- nothing is left ---


def test_nothing_of_torchferry_is_left_behind(tmp_path: Path) -> None:
    build(tmp_path)
    assert torchferry("migrate", tmp_path, "-t", "npu", "--select", "ATT").returncode in (0, 1)
    assert not (tmp_path / ".torchferry").exists(), "nothing was written"
    torchferry("migrate", tmp_path, "-t", "npu")
    assert (tmp_path / ".torchferry" / ".gitignore").read_bytes() == b"*\n"
    assert torchferry("undo", tmp_path).returncode == 0
    assert not (tmp_path / ".torchferry").exists()


def test_an_unknown_journal_is_refused_before_another_is_taken_back(tmp_path: Path) -> None:
    journal = migrated(tmp_path)
    with exclusive(tmp_path) as tree:
        apply(tree, [Write("run.sh", b"", b"again")], "npu")
    manifest_with(journal, lambda found: found.pop("signatures"))
    before = snapshot(tmp_path)
    assert torchferry("undo", tmp_path, "--all").returncode == 2
    assert snapshot(tmp_path) == before
    with exclusive(tmp_path) as tree, pytest.raises(UnknownJournalError):
        undo(tree, tree.journals()[0])


def test_a_file_that_vanishes_before_it_is_written_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\nx = torch.zeros(3).cuda()\n")
    request = Request(tmp_path, list_files(tmp_path), Target.named("npu"), rules(), rewrite=True, jobs=1)
    analysis = analyse(request)
    (tmp_path / "a.py").unlink()
    writes = plan(tmp_path, analysis).writes
    with exclusive(tmp_path) as tree, pytest.raises(ConflictError, match="has changed"):
        apply(tree, writes, "npu")
