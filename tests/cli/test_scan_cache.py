"""The report of a scan is looked up where nothing has changed, and only there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.programs.small import Files, write
from torchferry.cli import scan
from torchferry.core import env
from torchferry.rules.analysis import analyse

KERNEL = "#include <cuda_runtime.h>\n__global__ void f(int *a) { a[0] = 1; }\nvoid g(int *a) { f<<<1, 1>>>(a); }\n"
PROJECT: Files = {
    "train.py": "import torch\nfrom net import model\nprint(model.f(torch.ones(2).cuda()))\n",
    "net/__init__.py": "",
    "net/model.py": "import argparse\nimport cupy\ndef f(x):\n    return cupy.asarray(x)\n",
    "conf/a.yaml": "device: cuda:0\n",
    "run.sh": "CUDA_VISIBLE_DEVICES=0 python train.py\n",
    "ops/k.cu": KERNEL,
    "requirements.txt": "torch==2.1.0\n",
    "README.md": "```bash\npython train.py\n```\n",
    "\udce9.py": "import torch\ntorch.cuda.init()\n",
    ".gitignore": "notes/\n*.pyx\nlib/\n",
    "docs/BUILD.txt": "cmake ..\n",
    "notes/x.md": "cmake ..\n",
    "net/fast.pyx": "x = 1\n",
    "conf/a.gin": "run.other = True\n",
    "conf/env": "X=1\n",
    "tools/l.egg": "",
    "ops_musa/k.mu": "// a port\n",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(env.NO_CACHE)
    monkeypatch.setenv("TORCHFERRY_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "project", PROJECT)
    write(tmp_path, {"project_musa/ops/k.mu": "// a port\n"})
    (tmp_path / "project/.env").symlink_to("conf/env")
    return tmp_path / "project"


class Scans:
    """Scans a project, and counts how often it is examined."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.count = 0
        monkeypatch.setattr(scan, "analyse", self._examine)

    def _examine(self, *arguments: Any) -> Any:
        self.count += 1
        return analyse(*arguments)

    def __call__(self, *options: str, paths: tuple[str, ...] = (".",)) -> tuple[int, str]:
        named = [str(self.root / path) for path in paths]
        done = CliRunner().invoke(scan.command, [*named, "-t", "npu", "--jobs", "1", *options])
        assert done.exit_code in (0, 1), done.output
        return done.exit_code, done.output

    def is_new(self, *options: str) -> bool:
        """Whether a scan examines the project again."""
        before = self.count
        self(*options)
        return self.count > before


@pytest.fixture
def scans(root: Path, monkeypatch: pytest.MonkeyPatch) -> Scans:
    return Scans(root, monkeypatch)


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ((), (".",)), (("-v",), (".",)), (("-f", "json"), (".",)), (("-f", "sarif"), (".",)), (("-f", "csv"), (".",)),
        (("-f", "html"), (".",)), (("--plan",), (".",)), (("--style", "shim"), (".",)), (("--select", "CUD"), (".",)),
        ((), ("train.py", "conf/a.yaml")), (("-t", "musa@2.0.1", "--lang", "zh"), (".",)), (("--kept",), (".",)),
    ],
)  # fmt: skip
def test_what_is_looked_up_is_what_was_found(scans: Scans, options: tuple[str, ...], paths: tuple[str, ...]) -> None:
    first = scans("--no-cache", *options, paths=paths)
    assert scans(*options, paths=paths) == first
    count = scans.count
    assert scans(*options, paths=paths) == first
    assert scans.count == count


def test_all_forms_are_made_of_one_result(scans: Scans) -> None:
    scans()
    for form in ("text", "json", "sarif", "csv"):
        assert not scans.is_new("-f", form)
    assert scans.is_new("-f", "html")  # it shows how files change


def _rewrite(path: Path, data: bytes) -> None:
    """Change a file so that its size and the time of its last change stay."""
    status = path.stat()
    path.write_bytes(data.ljust(status.st_size, b"\n")[: status.st_size])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file of the same size and time": lambda root: _rewrite(root / "train.py", b"import torch\n"),
    "a settings file": lambda root: (root / "conf/a.yaml").write_text("device: cpu\n"),
    "a new file": lambda root: (root / "net/new.py").write_text("import torch\n"),
    "a file less": lambda root: (root / "run.sh").unlink(),
    "a new name": lambda root: (root / "run.sh").rename(root / "go.sh"),
    "torchferry.toml": lambda root: (root / "torchferry.toml").write_text('ignore = ["CFG"]\n'),
    "a settings file above": lambda root: (root.parent / "torchferry.toml").write_text('ignore = ["CFG"]\n'),
    "the version that is asked for": lambda root: (root / "requirements.txt").write_text("torch==1.8.0\n"),
    "what a .gitignore hides": lambda root: (root / ".gitignore").write_text("conf/\n"),
    "another language": lambda root: (root / "a.rs").write_text("// cuda\n"),
    "a submodule that is absent": lambda root: (root / ".gitmodules").write_text(
        '[submodule "a"]\npath = third/a\nurl = https://example.org/a\n'
    ),
    "a link": lambda root: (root / "l.py").symlink_to("/etc/hostname"),
    "a text that nobody lists": lambda root: (root / "docs/BUILD.txt").write_text("cmake -DUSE_CUDA=ON ..\n"),
    "a text that git ignores": lambda root: (root / "notes/x.md").write_text("cmake -DUSE_CUDA=ON ..\n"),
    "source that git ignores": lambda root: (root / "net/fast.pyx").write_text("import cupy\n"),
    "a new file in a folder that git ignores": lambda root: write(root, {"lib/net/x.py": "import cupy\n"}),
    "gin": lambda root: (root / "conf/a.gin").write_text("run.fast = True\n"),
    "what a link leads to": lambda root: (root / "conf/env").write_text("FAST=1\n"),
    "an archive": lambda root: (root / "tools/l.egg").write_bytes(b"PK"),
    "a port is edited": lambda root: (root / "ops_musa/k.mu").write_text("// another\n"),
    "a port is gone": lambda root: (root / "ops_musa/k.mu").unlink(),
    "a port beside the project is edited": lambda root: (root.parent / "project_musa/ops/k.mu").write_text("//\n"),
    "a port beside the kernel": lambda root: write(root, {"ops_npu/k.cu": KERNEL}),
    "a port beside the project": lambda root: write(root.parent, {"project_npu/ops/k.cu": KERNEL}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(scans: Scans, change: Callable[[Path], object]) -> None:
    scans()
    assert not scans.is_new()
    change(scans.root)
    assert scans.is_new()
    assert scans() == scans("--no-cache")


def test_what_git_does_in_its_own_folder_changes_nothing(scans: Scans) -> None:
    subprocess.run(["git", "init", "--quiet", scans.root], check=True)
    scans()
    subprocess.run(["git", "-C", scans.root, "add", "train.py"], check=True)
    assert not scans.is_new()
    (scans.root / ".git/info/exclude").write_text("net/\n")
    assert scans.is_new()


def test_a_file_that_is_counted_alone_is_seen(scans: Scans) -> None:
    write(scans.root, {".gitignore": "out/\n", "out/a.py": "import torch\n"})
    scans()
    (scans.root / "out/a.py").write_text("import torch\ntorch.cuda.init()\n")
    assert scans.is_new()


@pytest.mark.parametrize(
    "options",
    [("-t", "musa"), ("-t", "npu@2.1.0"), ("--select", "CUD"), ("--ignore", "CUD"),
     ("--exclude", "conf"), ("--style", "shim"), ("--isolated",)],
)  # fmt: skip
def test_other_options_are_another_scan(scans: Scans, options: tuple[str, ...]) -> None:
    (scans.root / "torchferry.toml").write_text('ignore = ["CFG"]\n')
    scans()
    assert scans.is_new(*options)


def test_what_changes_while_it_is_examined_is_not_kept(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    def examine(*arguments: Any) -> Any:
        analysis = scans._examine(*arguments)
        _rewrite(scans.root / "train.py", b"import torch\n# another text")
        return analysis

    monkeypatch.setattr(scan, "analyse", examine)
    scans()
    monkeypatch.setattr(scan, "analyse", scans._examine)
    assert scans.is_new()


def _results(root: Path) -> Iterator[Path]:
    yield from (root.parent / "cache" / "scans").glob("*.json")


def _of_other_classes(path: Path) -> Iterator[None]:
    for text in (
        "[2,[1,99999]]",
        '{"a":1}',
        "[" * 50_000,
        "[2,[1,0],[5,3]]",
        '[0,0,"nothing"]',
        "null",
        "[2,null,null]",
    ):
        path.write_bytes(hashlib.sha256(text.encode()).hexdigest().encode() + b"\n" + text.encode())
        yield


SPOILT: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "one bit": lambda path: path.write_bytes(path.read_bytes().replace(b"train.py", b"trair.py", 1)),
    "others may write": lambda path: path.chmod(0o666),
    "the folder is open": lambda path: path.parent.chmod(0o777),
    "a link": lambda path: os.symlink(path.rename(path.with_name("x")), path),
    "a folder": lambda path: os.mkdir(path.rename(path.with_name("x")).with_name(path.name)),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_is_spoilt_is_made_again(scans: Scans, spoil: Callable[[Path], object]) -> None:
    wanted = scans()
    (result,) = _results(scans.root)
    spoil(result)
    count = scans.count
    assert scans() == wanted
    assert scans.count > count


def test_a_text_that_is_no_report_is_never_taken_for_one(scans: Scans) -> None:
    wanted = scans()
    (result,) = _results(scans.root)
    for _ in _of_other_classes(result):
        count = scans.count
        assert scans() == wanted
        assert scans.count > count
        assert not scans.is_new()


def test_a_cache_that_cannot_be_written_is_done_without(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = scans("--no-cache")
    place = scans.root.parent / "file"
    place.write_text("")
    monkeypatch.setenv("TORCHFERRY_CACHE", str(place))
    assert scans() == wanted
    assert place.read_text() == ""


def test_nothing_is_kept_in_the_project(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHFERRY_CACHE", str(scans.root / "cache"))
    assert scans() == scans() == scans("--no-cache")
    assert not (scans.root / "cache").exists()


@pytest.mark.parametrize("place", ["~nobody-has-this-name/x", "/" + "x" * 300 + "/y"])
def test_a_place_that_cannot_be_is_done_without(scans: Scans, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    wanted = scans("--no-cache")
    monkeypatch.setenv("TORCHFERRY_CACHE", place)
    assert scans() == wanted


def test_only_the_latest_results_are_kept(scans: Scans) -> None:
    other = scans.root.parent / "cache" / "scans" / "mine.txt"
    scans()
    other.write_text("")
    for number in range(40):
        (scans.root.parent / "cache" / "scans" / f"{number:064x}.json").write_text("")
    (other.parent / f".{0:064x}.json.0123456789abcdef").write_text("")
    os.utime(other.parent / f".{0:064x}.json.0123456789abcdef", ns=(0, 0))
    scans("-t", "musa")
    assert len([*_results(scans.root)]) == 32
    assert other.exists()
    assert not [*other.parent.glob(".*")]
    assert not scans.is_new("-t", "musa")


def test_what_is_asked_for_anew_keeps_nothing(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    scans("--no-cache")
    monkeypatch.setenv(env.NO_CACHE, "1")
    scans()
    assert not [*_results(scans.root)]


def test_the_report_of_two_at_once_is_whole(scans: Scans) -> None:
    pids = []
    for _ in range(4):
        if (pid := os.fork()) == 0:
            status = 1
            try:
                scans("-f", "json")
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert not scans.is_new("-f", "json")
    json.loads(scans("-f", "json")[1])
