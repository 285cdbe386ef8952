"""The analysis runs where POSIX names are missing; what needs Linux says so in one line. Also runs on those systems."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchferry.core import system

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
MODES = ["windows", "macos"] if sys.platform == "linux" else [""]
KERNEL = "__global__ void k(float *p) { p[0] = 1; }\nvoid f(float *p) { k<<<1, 1>>>(p); cudaDeviceSynchronize(); }\n"

CLEAN, WORK, WRONG = 0, 1, 2
COMMANDS: list[tuple[str, int]] = [
    ("scan project -t npu -q --exit-zero", CLEAN),
    ("scan project -t npu -f html -o page.html", WORK),
    ("show pynvml project -t npu", CLEAN),
    ("decide pynvml accept project -t npu --by Ada", CLEAN),
    ("undo project", CLEAN),
    ("migrate project -t npu -q", WORK),
    ("scan project -t npu -q --exit-zero", CLEAN),
    ("undo project", CLEAN),
    ("migrate project -t npu -q --out copy", WORK),
    ("migrate project -t npu --patch project.patch", WORK),
    ("migrate project -t npu -q --kit", WORK),
    ("undo project", CLEAN),
    ("port kernels -t musa --out ported", CLEAN),
    ("undo ported", CLEAN),
    ("advise project -t npu", CLEAN),
    ("api torch.cuda.Stream -t npu", CLEAN),
    ("rule DEV101", CLEAN),
    ("backend list", CLEAN),
    ("setup-test project -t npu -o setup_test.py", CLEAN),
    ("device vendor project", CLEAN),
    ("handover prepare project --for generic --model Net -o zoo", CLEAN),
    ("handover check zoo", WORK),
    ("explain failed.log", WORK),
    ("skill install skills", CLEAN),
    ("help scan", CLEAN),
    ("completion zsh", CLEAN),
    ("scan project -t npu --statistics", WORK),
    ("accept init --file accept.toml", CLEAN),
    ("scan absent -t npu", WRONG),
]
LINUX_ALONE = ["rehearse -t npu -- python x.py", "run -- python x.py", "doctor -t npu", "triton check project -t npu"]


def prepared(folder: Path) -> Path:
    shutil.copytree(ROOT / "examples" / "cuda-training", folder / "project")
    windows = folder / "project" / "windows.py"
    windows.write_bytes(b"import torch\r\n\r\nx = torch.zeros(1).cuda()\r\n")
    (folder / "kernels").mkdir()
    (folder / "kernels" / "a.cu").write_text(KERNEL)
    (folder / "failed.log").write_text("EJ0003: [PID: 1] Failed to bind the IP port.\n")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".torchferry" not in path.parts
    }


def ended(folder: Path, mode: str, lines: list[str]) -> tuple[list[object], str]:
    """Run commands in one process of a system; return how each ended, and all that was said."""
    words = json.dumps([line.split() for line in lines])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("without_posix.py")), mode, words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TORCHFERRY_LANG": "en", "TORCHFERRY_NO_CACHE": "1"},
    )  # fmt: skip
    ends = [json.loads(line)[2] for line in done.stdout.splitlines() if line.startswith('["ended"')]
    return ends, done.stdout + done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_the_analysis_runs_without_the_names_of_posix(mode: str, tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    before = contents(folder / "project")
    ends, said = ended(folder, mode, [line for line, _ in COMMANDS])
    assert ends == [code for _, code in COMMANDS], said[-3000:]
    assert "internal error" not in said
    after = contents(folder / "project")
    added = {name for name in after if name not in before}
    assert added == {"device_utils.py"}, "device vendor; every other command took back what it did"
    assert {name: after[name] for name in before} == before
    copied = contents(folder / "copy")
    assert (
        copied["windows.py"].replace(b"import torch_npu\r\n", b"")
        == b"import torch\r\n\r\nx = torch.zeros(1).npu()\r\n"
    )
    assert not (folder / "ported").exists()
    assert [path for path in folder.iterdir() if path.name.endswith(".torchferry")] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_server_ends_with_its_client(mode: str, tmp_path: Path) -> None:
    """The library of `mcp` takes a Python on Linux for one: it is tried as it is, on the systems themselves."""
    servers = ["lsp -t npu", *([] if mode else ["mcp --root . -t npu"])]
    pytest.importorskip("pygls")
    ends, said = ended(tmp_path, mode, servers)
    assert ends == [CLEAN] * len(servers), said


@pytest.mark.parametrize("mode", MODES)
def test_what_needs_linux_says_so_in_one_line(mode: str, tmp_path: Path) -> None:
    ends, said = ended(tmp_path, mode, LINUX_ALONE)
    assert ends == [WRONG] * len(LINUX_ALONE), said
    assert said.count("needs Linux") == len(LINUX_ALONE)
    assert "internal error" not in said


@pytest.mark.parametrize("mode", MODES)
def test_a_command_ends_with_all_that_it_started(mode: str, tmp_path: Path) -> None:
    pytest.importorskip("anyio")
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from without_posix import take_away
if {mode!r}: take_away({mode!r})
import anyio
from torchferry.assistant.commands import run
result = anyio.run(run, ("rule", "--lang", "en", "--", "DEV101"), 60.0)
assert result.printed.startswith("DEV101"), result
try:
    anyio.run(run, ("explain", "-"), 0.01)
except Exception as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TORCHFERRY_LANG": "en"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "was ended after 0.01 s" in done.stdout


@pytest.fixture
def by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "HAS_HANDLES", False)
    monkeypatch.setattr(system, "_NO_LINK", 0)


@pytest.mark.usefixtures("by_path")
@pytest.mark.skipif(os.name == "nt", reason="makes links")
def test_a_folder_that_is_held_by_its_path_is_never_another_one(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    (inside / "link").symlink_to(outside / "file")
    (inside / "way").symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        system.open_folder(inside / "way")
    held = system.open_folder(inside)
    for name, number in (("way", errno.ELOOP), ("file", errno.ENOTDIR)):
        with pytest.raises(OSError, match=r".") as refused:
            held.folder(name)
        assert refused.value.errno == number
    with pytest.raises(OSError, match=r".") as refused:
        held.open("link", system.READ & ~getattr(os, "O_NOFOLLOW", 0))
    assert refused.value.errno == errno.ELOOP
    for name in ("", ".", "..", "../outside/file", "a/b"):
        with pytest.raises(OSError, match="Invalid"):
            held.remove(name)
    assert dict(held.kinds()) == {"file": False, "link": False, "way": False}
    with pytest.raises(FileExistsError):
        held.open("file", system.NEW)
    inside.rename(tmp_path / "moved")
    inside.symlink_to(outside)
    with pytest.raises(FileNotFoundError):
        held.remove("file")
    inside.unlink()
    inside.mkdir()
    (inside / "file").write_text("another")
    with pytest.raises(FileNotFoundError):
        held.open("file", system.READ)
    assert (outside / "file").read_text() == "outside"


def test_a_lock_holds_until_its_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = (system.open_file(path, system.LOCK) for _ in range(2))
    system.lock(first)
    with pytest.raises(BlockingIOError):
        system.lock(second)
    os.write(first, b"12")
    assert os.read(second, 2) == b"12", "what is locked can be read"
    os.close(first)
    system.lock(second, wait=True)
    os.close(second)
