"""Nothing is written outside of what was asked: every command that writes, in a project that lies among others."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.installed.made import install
from torchferry.cli import cli
from torchferry.core.config import find, project_root
from torchferry.core.enclosing_folders import enclosing_folders
from torchferry.core.errors import TorchferryError
from torchferry.migration.journal import APPLYING
from torchferry.migration.transaction import Write, apply, exclusive

PYTHON = b"import torch\nimport foolib\n\nx = torch.ones(2).cuda()\ntorch.cuda.synchronize()\n"
KERNEL = b"#include <cuda_runtime.h>\nvoid f() { cudaDeviceSynchronize(); }\n"
SETUP = b"""from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(name="x", ext_modules=[CUDAExtension("x", ["csrc/a.cu"])], cmdclass={"build_ext": BuildExtension})
"""
ACCEPT = b'schema = 1\n[runs.target]\ncommand = ["python", "train.py"]\n'


def files(root: Path, contents: dict[str, bytes]) -> Path:
    for name, data in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def migrated(root: Path, *names: str, state: str = "done") -> None:
    """Migrate files of a folder, whose journal then lies in it; `applying` is a run that was interrupted."""
    writes = [Write(name, (root / name).read_bytes(), b"import torch  # migrated\n") for name in names]
    with exclusive(root) as tree:
        journal = apply(tree, writes, "npu")
        if state == APPLYING:
            with tree.place.folder(journal.number) as folder:
                journal.with_state(folder, APPLYING, tree.signing)


class World:
    """A plain folder with a git repository in it, which holds another: all of them migrated but the innermost.

    Attributes:
        base: The plain folder.
        inner: The innermost repository, in which the commands run.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        outer = base / "outer"
        self.inner = outer / "inner"
        sibling = outer / "sibling"
        for folder in (base, outer, self.inner, sibling):
            files(folder, {"train.py": PYTHON, "old.py": PYTHON, "csrc/a.cu": KERNEL, "setup.py": SETUP})
        files(self.inner, {"torchferry.accept.toml": ACCEPT, "sub/more.py": PYTHON, "LICENSE": b"MIT License\n"})
        files(self.inner, {"functions.yaml": b"- func: relu\n"})
        for folder in (outer, self.inner, sibling):
            subprocess.run(["git", "init", "-q", folder], check=True)
        git = ["git", "-C", str(self.inner), "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)
        for folder in (base, outer, sibling):
            migrated(folder, "train.py")
        migrated(outer, "old.py", state=APPLYING)
        (self.inner / "out_link.py").symlink_to(sibling / "train.py")
        (self.inner / "away").symlink_to(sibling)
        (self.inner / "report.json").symlink_to(sibling / "report.json")
        files(sibling, {"report.json": b"mine", "hard.py": PYTHON})
        os.link(sibling / "hard.py", self.inner / "hard.py")
        site = base / "site-packages"
        site.mkdir()
        install(
            site,
            "foolib",
            {"foolib/__init__.py": "import torch\n\n\ndef f():\n    return torch.ones(1).cuda()\n"},
            "1.0",
        )

    def snapshot(self, *left_out: Path) -> dict[str, Any]:
        """Return all that lies outside of some folders: contents, modes, times, links, and the names in folders."""
        found: dict[str, Any] = {}
        for folder, folders, names in os.walk(self.base):
            folders[:] = [name for name in folders if Path(folder, name) not in left_out]
            for name in (*folders, *names):
                path = Path(folder, name)
                if path in left_out:
                    continue
                status = path.lstat()
                data: object = None
                if path.is_symlink():
                    data = os.readlink(path)
                elif path.is_file():
                    data = (path.read_bytes(), status.st_mtime_ns)
                found[str(path)] = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), data)
        return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "base")
    monkeypatch.chdir(made.inner)
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    return made


def torchferry(*arguments: object) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all that it prints."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="torchferry")
    if done.exception is None or isinstance(done.exception, SystemExit):
        return done.exit_code, done.output
    assert isinstance(done.exception, TorchferryError), (arguments, done.exception)
    return 2, done.output + "\n".join(done.exception.lines())


Row = tuple[str, list[tuple[int, str]], list[str]]

ROWS: dict[str, Row] = {
    "undo": (
        ".",
        [
            (2, "undo"),
            (2, "undo --all"),
            (2, "undo sub"),
            (2, "undo train.py"),
        ],
        [],
    ),
    "migrate": (
        ".",
        [
            (1, "migrate . -t npu"),
            (1, "migrate . -t npu --allow-dirty"),
            (0, "undo sub"),
            (0, "migrate sub -t npu --allow-dirty"),
            (2, "undo ."),
            (0, "undo sub/more.py"),
        ],
        [],
    ),
    "styles": (
        ".",
        [
            (1, "migrate . -t npu --style portable"),
            (0, "undo"),
            (0, "migrate train.py old.py -t npu --style shim --allow-dirty"),
            (0, "undo old.py"),
            (1, "migrate . -t npu --suffix _npu --allow-dirty"),
            (0, "undo train.py"),
            (1, "migrate . -t npu --kit --allow-dirty"),
            (0, "undo"),
        ],
        [],
    ),
    "copies": (
        ".",
        [
            (1, "migrate . -t npu --out out"),
            (1, "migrate . -t npu --out ../copy"),
            (1, "migrate . -t npu --patch a.patch"),
            (2, "migrate . -t npu --patch report.json"),
            (0, "migrate out_link.py -t npu --allow-dirty"),
            (1, "migrate away -t npu --check"),
        ],
        ["../copy"],
    ),
    "overlay": (
        ".",
        [
            (0, "migrate . -t npu --overlay ferry --python ../../site-packages"),
            (0, "undo ferry"),
            (2, "migrate . -t npu --overlay away/ferry --python ../../site-packages"),
        ],
        [],
    ),
    "port": (
        ".",
        [
            (0, "port csrc -t musa"),
            (0, "undo csrc"),
            (0, "port csrc -t musa"),
            (0, "undo csrc_musa"),
            (0, "port csrc -t musa --in-place"),
            (0, "undo csrc/a.mu"),
            (2, "port csrc -t musa --out ../ported --review report.json"),
            (0, "port csrc -t musa --out ../ported --names n.toml"),
            (0, "undo ../ported"),
            (0, "port csrc -t musa --build setup.py"),
            (2, "port csrc -t musa"),
            (0, "undo setup.py"),
            (2, "port csrc -t musa --build ../setup.py"),
            (1, "port away/csrc -t musa --check"),
        ],
        ["../ported", "../.torchferry/lock", "../.torchferry"],
    ),
    "port whole": (
        ".",
        [
            (2, "port . -t musa"),
            (0, "port . -t musa --out ../inner_musa"),
            (2, "undo ."),
            (0, "undo ../inner_musa"),
        ],
        ["../inner_musa"],
    ),
    "outputs": (
        ".",
        [
            (0, "handover . --for generic -t npu --program train.py -o handed"),
            (0, "handover . --for generic -t npu --program train.py -o ../handed"),
            (2, "handover . --for generic -t npu --program train.py -o away"),
            (0, "accept -t npu --only syntax -o evidence"),
            (2, "accept -t npu --only syntax -o away"),
            (2, "accept init --file report.json"),
            (0, "device vendor sub"),
            (0, "setup-test . -t npu -o setup_test.py"),
            (0, "ops new -t musa 'acme::scale(Tensor x, float by) -> Tensor' --out scale"),
            (0, "deploy dockerfile -t npu --set image=registry/cann:1 -o docker"),
            (2, "scan . -t npu -f json -o report.json"),
        ],
        ["../handed"],
    ),
    "in a folder of a repository": (
        "../part",
        [
            (2, "undo"),
            (1, "migrate . -t npu"),
            (0, "undo train.py"),
            (0, "migrate train.py -t npu"),
            (0, "undo"),
            (2, "port csrc -t musa --out there"),
            (2, "undo there"),
        ],
        ["../.torchferry/lock"],
    ),
    "in a plain folder": (
        "../../part",
        [
            (2, "undo"),
            (1, "migrate . -t npu"),
            (0, "undo train.py"),
            (0, "port csrc -t musa"),
            (2, "undo csrc"),
        ],
        [],
    ),
}
"""Where the commands run, what they are with their exit codes, and what outside of that folder they may change."""


@pytest.mark.parametrize("row", ROWS)
def test_nothing_is_written_outside_of_what_was_asked(world: World, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    where, commands, more = ROWS[row]
    folder = Path(os.path.normpath(world.inner / where))
    if where != ".":
        files(folder, {"train.py": PYTHON, "csrc/a.cu": KERNEL})
        monkeypatch.chdir(folder)
    permitted = (folder, *(Path(os.path.normpath(folder / path)) for path in more))
    before = world.snapshot(*permitted)
    for code, line in commands:
        done = torchferry(*shlex.split(line))
        assert done[0] == code, f"{line}: {done}"
        assert world.snapshot(*permitted) == before, f"{line}: {done}"


@pytest.mark.parametrize("row", [name for name, row in ROWS.items() if row[0] == "."])
def test_nothing_is_written_outside_of_the_roots(world: World, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    """As a server runs the commands: for a folder of the project, and for none."""
    for allowed in ([str(world.inner / "sub")], []):
        monkeypatch.setenv("TORCHFERRY_WRITE_ROOTS", json.dumps(allowed))
        before = world.snapshot(*map(Path, allowed))
        for _, line in ROWS[row][1]:
            done = torchferry(*shlex.split(line))
            assert world.snapshot(*map(Path, allowed)) == before, f"{line}: {done}"


def test_roots_that_are_no_list_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, {"train.py": PYTHON})
    for wrong in ("/tmp", '"/tmp"', '["relative"]', "[1]", "[" * 10_000):
        monkeypatch.setenv("TORCHFERRY_WRITE_ROOTS", wrong)
        code, said = torchferry("migrate", tmp_path, "-t", "npu")
        assert (code, "TORCHFERRY_WRITE_ROOTS" in said) == (2, True), said
    assert (tmp_path / "train.py").read_bytes() == PYTHON


def test_an_undo_names_the_folder_above_before_it_restores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, {"sub/a.py": PYTHON, "b.py": PYTHON, "c.py": PYTHON, "torchferry.toml": b""})
    migrated(tmp_path, "sub/a.py", "b.py", "c.py")
    (tmp_path / "b.py").write_bytes(b"edited")
    code, said = torchferry("undo", tmp_path / "sub")
    assert code == 2
    assert f"recorded in {tmp_path}, above" in said
    assert "2 files outside of" in said
    assert "b.py, c.py" in said
    assert "nothing was touched" in said
    (tmp_path / "b.py").write_bytes(b"import torch  # migrated\n")
    assert torchferry("undo", tmp_path / "sub" / "a.py")[0] == 0
    assert {name: (tmp_path / name).read_bytes() for name in ("sub/a.py", "b.py", "c.py")} == dict.fromkeys(
        ("sub/a.py", "b.py", "c.py"), PYTHON
    )


def test_what_was_interrupted_elsewhere_is_named_and_left(tmp_path: Path) -> None:
    """A folder above was interrupted in this tree, or the same folder in files that are not asked for."""
    files(tmp_path, {"sub/a.py": PYTHON, "b.py": PYTHON, "torchferry.toml": b""})
    migrated(tmp_path, "sub/a.py", state=APPLYING)
    for arguments in (("migrate", tmp_path / "sub", "-t", "npu"), ("migrate", tmp_path / "b.py", "-t", "npu")):
        code, said = torchferry(*arguments)
        assert (code, f"torchferry undo {tmp_path}`" in said) == (2, True), said
        assert (tmp_path / "sub/a.py").read_bytes() == b"import torch  # migrated\n"
        assert (tmp_path / "b.py").read_bytes() == PYTHON
    code, said = torchferry("undo", tmp_path / "sub")
    assert (code, "undid the interrupted migration" in said) == (0, True), said
    assert (tmp_path / "sub/a.py").read_bytes() == PYTHON


def test_a_search_upward_ends_with_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    files(home, {"torchferry.toml": b"target = 'npu'\n", ".git/x": b"", "plain/src/a.py": b""})
    files(home / "own", {"pyproject.toml": b"[tool.torchferry]\n", "src/pkg/a.py": b""})
    files(
        home / "repo", {".git/x": b"", "torchferry.toml": b"", "src/a.py": b"", "module/.git": b"gitdir: ../.git/x\n"}
    )
    files(home / "repo", {"module/src/a.py": b"", "part/torchferry.toml": b"", "part/src/a.py": b""})
    files(home / "open", {"torchferry.toml": b"", "src/a.py": b""})
    (home / "open").chmod(0o777)
    (home / "link").symlink_to(home / "repo" / "src")
    rows = {  # where a search begins: the top of the project, and the settings
        ".": (home, home / "torchferry.toml"),
        "plain/src": (None, None),
        "own/src/pkg": (home / "own", home / "own/pyproject.toml"),
        "repo/src": (home / "repo", home / "repo/torchferry.toml"),
        "repo/module/src": (home / "repo/module", None),
        "repo/part/src": (home / "repo/part", home / "repo/part/torchferry.toml"),
        "open/src": (None, None),
        "open": (home / "open", home / "open/torchferry.toml"),
        "link": (home / "repo", home / "repo/torchferry.toml"),
    }
    assert {place: (project_root(home / place), find(home / place)) for place in rows} == rows
    assert list(enclosing_folders(home / "repo/module/src")) == [home / "repo/module/src", home / "repo/module"]
    assert list(enclosing_folders(home / "absent/x")) == [home / "absent/x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_folder_or_file_of_another_user_is_no_project(tmp_path: Path) -> None:
    for name, owner in (("mine", None), ("theirs", "folder"), ("planted", "file")):
        place = files(tmp_path / name, {"torchferry.toml": b"", "src/a.py": b""})
        if owner is not None:
            os.chown(place if owner == "folder" else place / "torchferry.toml", 12_345, -1)
    found = [project_root(tmp_path / name / "src") for name in ("mine", "theirs", "planted")]
    assert found == [tmp_path / "mine", None, None]


MORE = b"import torch\n\ntorch.cuda.manual_seed(1)\nname = torch.cuda.get_device_name(0)\n"

MAINTAINED = {
    "the file with the portable names": ("--style portable", ["device_utils.py"]),
    "the kit": ("--kit", ["README_NPU.md", "NPU_MIGRATION_GUIDE.md"]),
    "the kit beside": ("--kit --suffix _npu", ["README_NPU.md", "NPU_MIGRATION_GUIDE.md"]),
    "a portable kit": ("--kit --style portable", ["README_NPU.md"]),
}
"""How one file is migrated after another, and files of the project that the second migration writes anew."""


@pytest.mark.parametrize("row", MAINTAINED)
def test_a_migration_of_one_file_keeps_up_what_torchferry_made(tmp_path: Path, row: str) -> None:
    options, names = MAINTAINED[row]
    contents = {"torchferry.toml": b"", "requirements.txt": b"torch==2.1.0\n", "one.py": PYTHON, "two.py": MORE}
    project = files(tmp_path / "project", {**contents, "third.py": MORE})
    first, second = (["migrate", project / path, "-t", "npu", *options.split()] for path in ("one.py", "two.py"))
    assert torchferry(*first)[0] == 0
    between = {path: path.read_bytes() for path in project.rglob("*.*") if path.is_file()}
    assert torchferry(*second)[0] == 0
    now = {path: path.read_bytes() for path in between}
    changed = {path.name for path, data in now.items() if data != between[path]}
    assert changed >= set(names)
    assert "third.py" not in changed
    for path in ("two.py", "one.py"):  # what was asked is also what takes it back
        done = torchferry("undo", project / path)
        assert done[0] == 0, done
    left = {path.relative_to(project).as_posix(): path.read_bytes() for path in project.rglob("*.*") if path.is_file()}
    assert left == {**contents, "third.py": MORE}


def test_a_file_of_the_user_is_no_file_that_torchferry_maintains(tmp_path: Path) -> None:
    project = files(tmp_path / "project", {"torchferry.toml": b"", "one.py": PYTHON, "two.py": MORE})
    assert torchferry("migrate", project / "one.py", "-t", "npu", "--style", "portable")[0] == 0
    edited = (project / "device_utils.py").read_bytes() + b"# mine\n"
    (project / "device_utils.py").write_bytes(edited)
    code, said = torchferry("migrate", project / "two.py", "-t", "npu", "--style", "portable")
    assert code == 2
    assert "was edited" in said
    assert (project / "device_utils.py").read_bytes() == edited
    assert (project / "two.py").read_bytes() == MORE


SAVED = b"# saved by an editor\n"

SAVES = {
    "in place, before": ("migrate . -t npu", "torchferry.cli.migrate.plan", "two.py"),
    "in place, while the journal is written": (
        "migrate . -t npu",
        "torchferry.migration.transaction._prepare",
        "two.py",
    ),
    "in place, after the first file": ("migrate . -t npu", "torchferry.migration.transaction._move", "two.py"),
    "beside": ("migrate . -t npu --suffix _npu", "torchferry.cli.migrate.plan", "two.py"),
    "beside, with a kit": ("migrate . -t npu --suffix _npu --kit", "torchferry.cli.migrate.plan", "two.py"),
    "a copy": ("migrate . -t npu --out out", "torchferry.cli.migrate.plan", "two.py"),
    "a port": ("port csrc -t musa", "torchferry.kernels.output._record_folder", "csrc/a.cu"),
    "a port in place": ("port csrc -t musa --in-place", "torchferry.kernels.output._record_folder", "csrc/b.cpp"),
}
"""A command, the function after whose first call an editor saves, and the file."""


def tree_of(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and ".torchferry" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def save_after_first_call(monkeypatch: pytest.MonkeyPatch, name: str, path: Path) -> list[bool]:
    """Replace a file by a rename, as editors do, when a function has first returned; say so in the list."""
    place, _, function = name.rpartition(".")
    module = importlib.import_module(place)
    real = getattr(module, function)
    saved: list[bool] = []

    def hooked(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if not saved:
            saved.append(True)
            path.with_name("new~").write_bytes(SAVED)
            path.with_name("new~").replace(path)
        return result

    monkeypatch.setattr(module, function, hooked)
    return saved


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contents = {"torchferry.toml": b"", "one.py": PYTHON, "two.py": MORE, "csrc/a.cu": KERNEL, "csrc/b.cpp": KERNEL}
    made = files(tmp_path / "project", contents)
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize("row", SAVES)
def test_what_an_editor_saves_meanwhile_is_never_overwritten(
    small: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    line, function, name = SAVES[row]
    saved = save_after_first_call(monkeypatch, function, small / name)
    before = tree_of(small)
    code, said = torchferry(*line.split())
    assert saved
    assert code == 2, said
    assert name.rpartition("/")[2] in said
    assert tree_of(small) == {**before, name: SAVED}, said
    monkeypatch.undo()
    monkeypatch.chdir(small)
    assert torchferry(*line.split())[0] in (0, 1)  # nothing that was left is in the way
    assert tree_of(small)[name] == SAVED


@pytest.mark.parametrize("function", ["_write_all_old", "_move"])
def test_what_an_editor_saves_during_an_undo_stays(small: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    before = tree_of(small)
    assert torchferry("migrate", ".", "-t", "npu")[0] in (0, 1)
    migrated_two = (small / "two.py").read_bytes()
    assert migrated_two != MORE
    save_after_first_call(monkeypatch, f"torchferry.migration.transaction.{function}", small / "two.py")
    code, said = torchferry("undo")
    assert code == 2
    assert "two.py" in said
    assert (small / "two.py").read_bytes() == SAVED
    assert torchferry("undo")[0] == 2
    assert (small / "two.py").read_bytes() == SAVED
    (small / "two.py").write_bytes(migrated_two)
    assert torchferry("undo")[0] == 0
    assert tree_of(small) == before


MIGRATE = "migrate . -t npu"
PORT = "port csrc -t musa"
HAND = "handover . --for generic -t npu --program one.py --out ../handed"
APPLIES = "torchferry.migration.transaction._prepare"

AT_ONCE = {
    "migrate and migrate": (None, MIGRATE, APPLIES, MIGRATE, "undo"),
    "migrate and undo": (None, MIGRATE, APPLIES, "undo", "undo"),
    "undo and migrate": (MIGRATE, "undo", "torchferry.migration.transaction._write_all_old", MIGRATE, None),
    "port and undo": (None, PORT, APPLIES, "undo", "undo csrc"),
    "port and port": (None, PORT, APPLIES, PORT, "undo csrc"),
    "handover and handover": (None, HAND, "torchferry.handover.writing._sign", HAND, None),
}
"""What comes first; a command, and the function in the middle of it during which another process runs a second command;
what takes the first one back.
"""


@pytest.mark.parametrize("row", AT_ONCE)
def test_two_commands_at_once_on_one_tree(small: Path, monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    first, line, function, other, back = AT_ONCE[row]
    files(small, {"LICENSE": b"MIT License\n"})
    original = tree_of(small)
    expected = None if line == HAND else original
    if first is not None:
        assert torchferry(*first.split())[0] in (0, 1)
    elif back is not None:
        assert torchferry(*line.split())[0] in (0, 1)
        expected = tree_of(small)
        assert torchferry(*back.split())[0] == 0
    place, _, name = function.rpartition(".")
    module = importlib.import_module(place)
    real = getattr(module, name)
    said: list[subprocess.CompletedProcess[str]] = []

    def hooked(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        command = [sys.executable, "-m", "torchferry", *other.split()]
        said.append(subprocess.run(command, capture_output=True, text=True, check=False))
        return result

    monkeypatch.setattr(module, name, hooked)
    code, text = torchferry(*line.split())
    assert code in (0, 1), text
    (done,) = said
    if expected is None:  # each writes a whole output, and the last one stays
        assert done.returncode == 0, done.stderr
        monkeypatch.undo()
        monkeypatch.chdir(small)
        assert torchferry(*line.split())[0] == 0, "it is no longer known as an unedited handover"
        assert {path.name for path in small.parent.iterdir() if "handed" in path.name} == {"handed"}
    else:
        assert (done.returncode, "another torchferry (process" in done.stderr) == (2, True), done
        assert tree_of(small) == expected
    if back is not None:
        assert torchferry(*back.split())[0] == 0
    assert tree_of(small) == original
