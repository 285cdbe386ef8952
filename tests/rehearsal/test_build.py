"""Building the device: what is refused, what is waited for, what is left behind. The compiler is a script here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.rehearsal  # the recipe asks torch for its version

SHOW = (
    "from torchferry.core.errors import TorchferryError\n"
    "from torchferry.rehearsal import build\n"
    "try: print(build.library())\n"
    "except TorchferryError as error: print('ERROR', error.message.render('en'), '|', error.advice.render('en'))\n"
)


def compiler(folder: Path, body: str) -> Path:
    """A compiler whose version never changes and whose call does what `body` says; `$out` is the file it is to make."""
    path = folder / "cxx"
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo fake 1.0; exit 0; fi\n'
        'while [ $# -gt 0 ]; do if [ "$1" = -o ]; then out=$2; fi; shift; done\n' + body + "\n"
    )
    path.chmod(0o755)
    return path


def start(cache: Path, cxx: Path | str, code: str = SHOW, **more: str) -> subprocess.Popen[str]:
    values = {**os.environ, "TORCHFERRY_CACHE": str(cache), "CXX": str(cxx), **more}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=values, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(cache: Path, cxx: Path | str, code: str = SHOW, **more: str) -> tuple[str, str]:
    out, err = start(cache, cxx, code, **more).communicate(timeout=120)
    return out, err


def test_it_is_built_once(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'echo built > "$out"; echo call >> "' + str(tmp_path / "calls") + '"')
    first, told = run(tmp_path / "cache", cxx)
    second, silent = run(tmp_path / "cache", cxx)
    assert first == second
    assert Path(first.strip()).read_text() == "built\n"
    assert "building the rehearsal device" in told
    assert silent == ""
    assert (tmp_path / "calls").read_text() == "call\n"


def test_two_at_once_build_once(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'sleep 1; echo built > "$out"; echo call >> "' + str(tmp_path / "calls") + '"')
    both = [start(tmp_path / "cache", cxx) for _ in range(2)]
    ends = [process.communicate(timeout=120) for process in both]
    assert ends[0][0] == ends[1][0]
    assert (tmp_path / "calls").read_text() == "call\n"


def test_a_killed_build_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    slow = compiler(tmp_path, 'echo part > "$out"; sleep 60')
    process = start(tmp_path / "cache", slow)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "cache").rglob("*.partial")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    out, _ = run(tmp_path / "cache", compiler(tmp_path, 'echo whole > "$out"'))
    assert Path(out.strip()).read_text() == "whole\n"
    assert list((tmp_path / "cache").rglob("*.partial")) == []


def test_another_compiler_is_another_build(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'echo built > "$out"')
    first, _ = run(tmp_path / "cache", cxx)
    cxx.write_text(cxx.read_text().replace("fake 1.0", "fake 2.0"))
    second, _ = run(tmp_path / "cache", cxx)
    assert first != second


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ('echo "x.h:1:2: error: no such thing" >&2; exit 1', "x.h:1:2: error: no such thing"),
        ("exit 1", "does not compile"),
    ],
)
def test_a_failed_build_says_why(tmp_path: Path, body: str, wanted: str) -> None:
    out, _ = run(tmp_path / "cache", compiler(tmp_path, body))
    assert out.startswith("ERROR")
    assert wanted in out
    assert "the call was" in out
    assert list((tmp_path / "cache").rglob("*.so")) == []


def test_without_a_compiler(tmp_path: Path) -> None:
    out, _ = run(tmp_path / "cache", tmp_path / "none")
    assert "there is no C++ compiler" in out
    assert "CXX" in out


def test_what_was_built_before_serves_without_a_compiler(tmp_path: Path) -> None:
    first, _ = run(tmp_path / "cache", compiler(tmp_path, 'echo built > "$out"'))
    second, told = run(tmp_path / "cache", tmp_path / "none")
    assert first == second
    assert told == ""


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out, _ = run(tmp_path / "file" / "cache", compiler(tmp_path, 'echo built > "$out"'))
    assert "cannot write in the cache" in out
    assert "TORCHFERRY_CACHE" in out


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'echo built > "$out"')
    run(tmp_path / "cache", cxx)
    lock = next((tmp_path / "cache").rglob("*.lock"))
    next((tmp_path / "cache").rglob("device.so")).unlink()
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    out, _ = run(tmp_path / "cache", cxx)
    assert "cannot write in the cache" in out
    assert not (tmp_path / "elsewhere").exists()


def test_an_old_torch_is_refused(tmp_path: Path) -> None:
    code = "import torch\ntorch.__version__ = '2.4.1+cpu'\n" + SHOW
    out, _ = run(tmp_path / "cache", compiler(tmp_path, 'echo built > "$out"'), code)
    assert "needs torch 2.13 or later, not 2.4.1+cpu" in out
