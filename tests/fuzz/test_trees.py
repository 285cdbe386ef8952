"""Whole trees with files that broke: every command ends with an exit code that the documents name, and no traceback."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.mutations import MUTATORS, WORDS
from tests.fuzz.own_file_readers import _evidence, _handovers
from tests.fuzz.run_readers import _seen, _traces
from tests.fuzz.table import SEEDS, run_command, written
from torchferry.core.errors import TorchferryError

TREES = 12
"""Trees; each is given to every command."""

FILES = {
    "train.py": "programs", "pkg/model.py": "python", "run.sh": "shell", "a.ipynb": "notebook", "c.yaml": "yaml",
    "conf.json": "json", "requirements.txt": "requirements", "pyproject.toml": "pyproject-of-project",
    "setup.py": "port-setup", "setup.cfg": "setup.cfg", "Dockerfile": "dockerfile", "README.md": "markdown",
    "csrc/a.cu": "kernel", "csrc/b.cpp": "cpp", "CMakeLists.txt": "cmake", "MANIFEST.in": "manifest",
    "Makefile": "makefile", ".gitignore": "gitignore", ".gitmodules": "gitmodules", "torchferry.toml": "settings",
    "docker-compose.yml": "compose", "environment.yml": "conda", "BUILD": "bazel", "meson.build": "meson",
}  # fmt: skip
"""The files of a small project, and the seeds that they begin as."""


def made(root: Path) -> None:
    for path, seed in FILES.items():
        written(root, path, (SEEDS / seed / "1").read_bytes())
    written(root, "t.pt.trace.json", _traces()[0])
    written(root, "seen.json", _seen()[0])
    written(root, "evidence/evidence.json", _evidence()[0])
    written(root, "handover/.torchferry-handover.json", _handovers()[0])


Break = Callable[[Path, Path, Random], object]


def cut_off(path: Path, other: Path, random: Random) -> None:
    path.write_bytes(path.read_bytes()[: random.randrange(200)])


def other_content(path: Path, other: Path, random: Random) -> None:
    path.write_bytes(other.read_bytes())


def other_encoding(path: Path, other: Path, random: Random) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    path.write_bytes(
        text.encode(random.choice(("utf-16", "utf-16-be", "utf-32", "cp500", "utf-8-sig", "gbk")), "replace")
    )


def zeros(path: Path, other: Path, random: Random) -> None:
    data = path.read_bytes()
    at = random.randrange(len(data) + 1)
    path.write_bytes(data[:at] + b"\0" * random.choice((1, 500)) + data[at:])


def changed(path: Path, other: Path, random: Random) -> None:
    path.write_bytes(random.choice(list(MUTATORS.values()))(path.read_bytes(), random))


def one_long_line(path: Path, other: Path, random: Random) -> None:
    path.write_bytes(
        (random.choice(WORDS).encode("utf-8", "replace") or b"x") * 300 + path.read_bytes().replace(b"\n", b" ")
    )


def linked(path: Path, other: Path, random: Random) -> None:
    path.unlink()
    path.symlink_to(random.choice((other, path, path.parent, Path("/dev/zero"), Path("nowhere"))))


def folder(path: Path, other: Path, random: Random) -> None:
    path.unlink()
    path.mkdir()


def unreadable_name(path: Path, other: Path, random: Random) -> None:
    name = random.choice((b"\xff\xfe", b"a\nb", b"\x1b[31m", "\u202ex".encode(), b"-rf", b"a'$(id)`b`", b" "))
    os.rename(path, os.path.join(os.fsencode(path.parent), name + os.fsencode(path.name)))


def other_case(path: Path, other: Path, random: Random) -> None:
    with contextlib.suppress(OSError):
        written(path.parent, path.name.swapcase(), path.read_bytes())


BREAKS: tuple[Break, ...] = (
    changed, changed, changed, cut_off, other_content, other_encoding, zeros, one_long_line, linked, folder,
    unreadable_name, other_case,
)  # fmt: skip


def broken(root: Path, random: Random) -> None:
    """Break some files of a tree."""
    for _ in range(random.randrange(2, 9)):
        files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink()]
        path, other = random.choice(files), random.choice(files)
        random.choice(BREAKS)(path, other, random)


COMMANDS: dict[str, tuple[object, ...]] = {
    "scan": ("scan", ".", "-t", "npu", "--jobs", "1"),
    "scan as SARIF": ("scan", ".", "-t", "musa", "-f", "sarif", "--jobs", "1", "--lang", "zh"),
    "scan as a page": ("scan", ".", "-t", "npu", "-f", "html", "-o", "x.html", "--seen", "seen.json"),
    "migrate": ("migrate", ".", "-t", "npu", "--diff", "--unsafe-fixes"),
    "migrate with a kit": ("migrate", ".", "-t", "npu", "--check", "--kit"),
    "port": ("port", "csrc", "-t", "musa", "--check"),
    "port the build": ("port", "csrc", "-t", "musa", "--check", "--build"),
    "profile": ("profile", "show", "t.pt.trace.json", "--by", "shape"),
    "advise": ("advise", ".", "-t", "npu"),
    "accept": ("accept", "--show"),
    "hand-over": ("handover", "check", "handover", "--for", "generic"),
    "doctor": ("doctor", "diff", "seen.json", "evidence/evidence.json"),
    "undo": ("undo", "."),
    "rules of a map": ("port", "csrc", "-t", "musa", "--check", "--map", "conf.json"),
}


@pytest.mark.parametrize("number", range(TREES))
def test_every_command_answers_for_a_broken_tree(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(number)
    root = tmp_path / "project"
    made(root)
    broken(root, random)
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    monkeypatch.chdir(root)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    for name in random.sample(sorted(COMMANDS), 5):
        errors = io.BytesIO()
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")),
            contextlib.redirect_stderr(io.TextIOWrapper(errors, encoding="utf-8", errors="backslashreplace")) as said,
            contextlib.suppress(TorchferryError),
        ):
            try:
                run_command(*COMMANDS[name])
            except TorchferryError:
                raise
            except Exception:
                pytest.fail(f"{name}: {traceback.format_exc()}")
        said.flush()
        assert b"Traceback" not in errors.getvalue(), f"{name}: {errors.getvalue().decode()}"
    written_there = {path.name for path in root.rglob("*") if path not in before}
    assert written_there <= {"x.html", ".torchferry", ".gitignore", "lock"}, written_there
    shutil.rmtree(tmp_path / "home", ignore_errors=True)


def repository(root: Path) -> Path:
    """Make a small tree that git knows."""
    written(root, "train.py", (SEEDS / "programs" / "1").read_bytes())
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*command, *words], cwd=root, check=True, capture_output=True)
    return root / ".git"


def replaced(text: str) -> Callable[[Path], None]:
    """Replace the folder of git by a file."""

    def change(git: Path) -> None:
        shutil.rmtree(git)
        git.write_text(text, encoding="utf-8")

    return change


def with_file(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda git: written(git, name, data)


def without_objects(git: Path) -> None:
    for path in (git / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"x" * 10)


def a_pipe(git: Path) -> None:
    shutil.rmtree(git)
    os.mkfifo(git)


def a_link_to_itself(git: Path) -> None:
    shutil.rmtree(git)
    git.symlink_to(git)


SETTINGS = b"[core]\n\trepositoryformatversion = 0\n"
REPOSITORIES: dict[str, Callable[[Path], object]] = {
    "the settings of another": replaced("gitdir: /etc\n"),
    "itself as its folder": replaced("gitdir: .git\n"),
    "a folder upwards": replaced("gitdir: ../../../../../..\n"),
    "a long line": replaced("gitdir: " + "a" * 100_000),
    "no text": replaced("\x00\ud7ff\x00"),
    "a pipe": a_pipe,
    "a link to itself": a_link_to_itself,
    "a broken index": with_file("index", b"DIRC" + b"\xff" * 200),
    "a broken head": with_file("HEAD", b"ref: ../../../etc/passwd\n"),
    "objects of nothing": without_objects,
    "objects elsewhere": with_file("objects/info/alternates", b"/\n../../..\n/dev/zero\n"),
    "settings that include themselves": with_file("config", SETTINGS + b"[include]\n\tpath = config\n"),
    "settings that include a device": with_file("config", SETTINGS + b"[include]\n\tpath = /dev/zero\n"),
    "patterns from a device": with_file(
        "config", SETTINGS + b"\texcludesFile = /dev/zero\n\tattributesFile = /dev/zero\n"
    ),
    "another tree": with_file("config", SETTINGS + b"\tworktree = /\n"),
    "a format of tomorrow": with_file("config", b"[core]\n\trepositoryformatversion = 99\n[extensions]\n\tx = y\n"),
    "broken settings": with_file("config", b"[core\n\t= = \x00"),
    "a submodule that is the tree": with_file("../.gitmodules", b'[submodule "a"]\n\tpath = .\n\turl = ./.\n' * 50),
    "a submodule elsewhere": with_file(
        "../.gitmodules", b'[submodule "a"]\n\tpath = ../../etc\n\turl = ext::sh -c id\n'
    ),
}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("change", REPOSITORIES.values(), ids=REPOSITORIES)
def test_a_repository_that_is_none_is_answered_and_left_alone(
    change: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    root = tmp_path / "project"
    change(repository(root))
    before = (root / "train.py").read_bytes()
    for words in (("scan", root, "-t", "npu", "--jobs", "1"), ("migrate", root, "-t", "npu", "--diff")):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.suppress(TorchferryError):
            assert run_command(*words) in (0, 1)
    assert (root / "train.py").read_bytes() == before
