"""Names that are no files, and files without end, stand where files are read: no command waits or fills the memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.processes import HANGS
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular
from torchferry.source import git
from torchferry.source.tree import list_files

CUDA = "import torch\nx = torch.zeros(3).cuda()\n"
SPARSE = 1 << 40  # takes no room on the disk, and none of these tests reads it


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SPARSE)


def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text(CUDA)
    return root


def limited(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run torchferry with little memory, and not for ever."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    return subprocess.run(
        [sys.executable, "-m", "torchferry", *map(str, arguments)],
        cwd=cwd, preexec_fn=limit, capture_output=True, text=True, check=False, timeout=HANGS,
    )  # fmt: skip


@pytest.mark.parametrize("make", [pipe, endless, sparse])
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (".gitignore", ("scan", "."), "cannot be read"),
        ("b.py", ("scan", "b.py", "a.py"), "cannot be read"),
        ("b.py", ("migrate", "b.py", "a.py", "--check"), "cannot be read"),
        ("own.toml", ("scan", ".", "--config", "own.toml"), "cannot be read"),
        ("seen.json", ("scan", ".", "--seen", "seen.json"), "seen.json"),
    ],
)
def test_it_is_said_and_the_rest_is_done(
    tmp_path: Path, make: Callable[[Path], None], name: str, arguments: tuple[str, ...], said: str
) -> None:
    root = project(tmp_path)
    make(root / name)
    done = limited(*arguments, "-t", "npu", "-j", "1", cwd=root)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    if name in (".gitignore", "b.py"):
        assert done.returncode == 1
        assert "one safe fix" in done.stdout or ".cuda()" in done.stdout


def test_a_file_of_settings_without_end_is_said(tmp_path: Path) -> None:
    root = project(tmp_path)
    sparse(root / "pyproject.toml")
    done = limited("scan", ".", "-t", "npu", "-j", "1", cwd=root)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pyproject.toml cannot be read" in done.stderr


def test_an_ignore_file_of_the_control_folder_is_not_read_whole(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / ".torchferry").mkdir()
    sparse(root / ".torchferry" / ".gitignore")
    done = limited("migrate", ".", "-t", "npu", "-j", "1", cwd=root)
    assert done.returncode == 0, done.stderr
    assert (root / ".torchferry" / ".gitignore").stat().st_size == SPARSE


def test_a_copy_leaves_out_what_is_no_file(tmp_path: Path) -> None:
    root = project(tmp_path)
    pipe(root / "b.py")
    (root / "c.py").write_text("x = 1\n")
    done = torchferry("migrate", ".", "-t", "npu", "--out", tmp_path / "out", cwd=root)
    assert done.returncode == 0, done.stderr
    assert "not copied, since they are pipes, sockets or devices: b.py" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.py", "c.py"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path)
    subprocess.run(["git", "init", "-q", root], check=True)
    pipe(root / ".gitignore")
    monkeypatch.setattr(git, "SECONDS", 1)
    listing = list_files(root)
    assert [entry.path for entry in listing.entries] == ["a.py"]
    assert [skip.path for skip in listing.skipped] == [".gitignore"]
    with pytest.raises(TorchferryError, match="did not end within 1 s"):
        git.git(root, "ls-files", "--others", "--exclude-standard")


def test_a_file_that_grows_is_read_to_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    assert read_regular(file, 10) == b"x" * 10
    with pytest.raises(OSError, match="more than 9 bytes"):
        read_regular(file, 9)
    with pytest.raises(OSError, match="is not a regular file"):
        read_regular(tmp_path)
