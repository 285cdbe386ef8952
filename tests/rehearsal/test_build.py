"""Building the device: what is refused, what is waited for, what is left behind. The compiler is a script here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import HANGS
from tests.warm_python import python

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
        [python(), "-c", code], env=values, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run(cache: Path, cxx: Path | str, code: str = SHOW, **more: str) -> tuple[str, str]:
    out, err = start(cache, cxx, code, **more).communicate(timeout=HANGS)
    return out, err


def test_it_is_built_once(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'echo built > "$out"; echo call >> "' + str(tmp_path / "calls") + '"')
    first, told = run(tmp_path / "cache", cxx)
    second, silent = run(tmp_path / "cache", cxx)
    assert first == second
    assert Path(first.strip()).read_text() == "built\n"
    assert "building the library of the simulated card" in told
    assert silent == ""
    assert (tmp_path / "calls").read_text() == "call\n"


def test_two_at_once_build_once(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, 'sleep 1; echo built > "$out"; echo call >> "' + str(tmp_path / "calls") + '"')
    both = [start(tmp_path / "cache", cxx) for _ in range(2)]
    ends = [process.communicate(timeout=HANGS) for process in both]
    assert ends[0][0] == ends[1][0]
    assert (tmp_path / "calls").read_text() == "call\n"


def test_a_killed_build_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    slow = compiler(tmp_path, 'echo part > "$out"; sleep 60')
    process = start(tmp_path / "cache", slow)
    deadline = time.monotonic() + HANGS
    while not list((tmp_path / "cache").rglob("partial-*/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    out, _ = run(tmp_path / "cache", compiler(tmp_path, 'echo whole > "$out"'))
    assert Path(out.strip()).read_text() == "whole\n"
    assert list((tmp_path / "cache").rglob("partial-*/*")) == []


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


ALONE = ["unshare", "--user", "--map-root-user", "--mount"]
"""Where a test may mount what it likes, and nobody else sees it."""


def run_mounted(cache: Path, mount: str, cxx: Path) -> tuple[str, str]:
    """As `run`, after the shell command `mount`, which finds the cache's folder in `$cache`."""
    cache.mkdir(exist_ok=True)
    if subprocess.run(
        [*ALONE, "mount", "-t", "tmpfs", "tmpfs", str(cache)], capture_output=True, check=False
    ).returncode:
        pytest.skip("this machine lets nobody mount, not even in a namespace of their own")
    values = {**os.environ, "TORCHFERRY_CACHE": str(cache), "CXX": str(cxx), "cache": str(cache)}
    done = subprocess.run(
        [*ALONE, "sh", "-ec", f'{mount}\nexec "$0" -c "$1"\n', sys.executable, SHOW],
        env=values, capture_output=True, text=True, check=False, timeout=HANGS,
    )  # fmt: skip
    return done.stdout, done.stderr


BIG = 'head -c 200000 /dev/zero > "$out"'


@pytest.mark.parametrize(
    ("mount", "wanted"),
    [
        ('mount -t tmpfs -o size=64k tmpfs "$cache"', "No space left on device"),
        ('mount -t tmpfs -o nr_inodes=2 tmpfs "$cache"', "No space left on device"),
        ('mount -t tmpfs -o ro tmpfs "$cache"', "Read-only file system"),
    ],
    ids=["no room for the library", "no room for a folder", "read-only"],
)
def test_a_cache_that_is_full_or_read_only(tmp_path: Path, mount: str, wanted: str) -> None:
    out, _ = run_mounted(tmp_path / "cache", mount, compiler(tmp_path, BIG))
    assert out.startswith("ERROR cannot write in the cache")
    assert wanted in out
    assert "TORCHFERRY_CACHE" in out


def test_a_build_beyond_a_limit_of_size_leaves_nothing(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    writer = f'{sys.executable} -c \'open("\'"$out"\'", "wb").write(bytes(200000))\''
    out, _ = run(tmp_path / "cache", compiler(tmp_path, writer), limit + SHOW)
    assert out.startswith("ERROR cannot write in the cache")
    assert "File too large" in out
    assert [path.suffix for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [".lock"]
    out, _ = run(tmp_path / "cache", compiler(tmp_path, BIG))
    assert Path(out.strip()).stat().st_size == 200000


def test_a_read_only_cache_serves_what_it_has(tmp_path: Path) -> None:
    cxx = compiler(tmp_path, BIG)
    first, _ = run(tmp_path / "cache", cxx)
    bind = 'mount --bind "$cache" "$cache"; mount -o remount,ro,bind "$cache"'
    assert run_mounted(tmp_path / "cache", bind, cxx) == (first, "")


def test_two_torch_versions_take_turns(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    cxx = compiler(tmp_path, f'echo "$(wc -l < "{calls}")" > "$out"; echo call >> "{calls}"')
    calls.write_text("")
    versions = ("2.13.0+cpu", "2.14.0+cpu", "2.13.0+cpu", "2.14.0+cpu")
    paths = [
        Path(run(tmp_path / "cache", cxx, f"import torch\ntorch.__version__ = {version!r}\n" + SHOW)[0].strip())
        for version in versions
    ]
    assert paths[0] != paths[1]
    assert paths[:2] == paths[2:]
    assert [path.read_text().strip() for path in paths] == ["0", "1", "0", "1"]
    assert "torch-2.13.0-" in str(paths[0])
    assert "torch-2.14.0-" in str(paths[1])


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
    code = "import torch\ntorch.__version__ = '2.0.1+cpu'\n" + SHOW
    out, _ = run(tmp_path / "cache", compiler(tmp_path, 'echo built > "$out"'), code)
    assert "torch 2.0.1+cpu in " in out
    assert "is too old for the rehearsal device: torch 2.1 or later is required" in out
