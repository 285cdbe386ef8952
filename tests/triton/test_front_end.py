"""The folder of a front end, and what is compiled with it, with one that answers as a vendor's does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.triton.projects import HEAD, request_for
from tests.triton.stand_in import FILES, TARGET, front_end, write_wheel
from torchferry.backends.triton_front_end import FrontEnd
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.triton import environment
from torchferry.triton.checking import Checker
from torchferry.triton.compiling import Compiler
from torchferry.triton.environment import (
    front_end_folder,
    front_end_python,
    front_ends_folder,
    kept_front_ends,
    remove_front_end,
)
from torchferry.triton.model import CaseState, CheckedKernel
from torchferry.triton.signatures import given_signatures

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TORCHFERRY_CACHE", str(folder))
    return folder


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder)
    return folder


@pytest.fixture
def known(wheels: Path) -> FrontEnd:
    return front_end(next(wheels.glob("*.whl")))


# --- the folder ---


def made(known: FrontEnd, wheels: Path | None) -> Path:
    with front_end_folder(known, "acme", HERE, wheels) as ready:
        assert ready.version == HERE
        return ready.folder


def test_it_is_made_once_of_what_is_needed(known: FrontEnd, wheels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(known, wheels)
    printed = capsys.readouterr().err
    assert f"making the front end acme-triton 1.0 for Python {HERE}" in printed
    assert "on the disk; once" in printed
    assert not (folder / "packages/acme/bin/left-out").exists()
    assert os.access(folder / "packages/acme/bin/acme-compile", os.X_OK)
    assert not os.access(folder / "packages/triton/__init__.py", os.X_OK)
    assert folder.stat().st_mode & 0o077 == 0
    assert made(known, None) == folder  # no wheel is asked for again
    assert capsys.readouterr().err == ""
    assert [each.title for each in kept_front_ends()] == ["acme-triton 1.0"]
    assert remove_front_end(folder.name)
    assert not folder.exists()
    assert not remove_front_end(folder.name)
    assert not remove_front_end("..")


def test_what_others_may_write_into_is_made_anew(known: FrontEnd, wheels: Path) -> None:
    folder = made(known, wheels)
    folder.chmod(0o777)
    (folder / "packages/triton/evil.py").write_text("", encoding="utf-8")
    assert made(known, wheels) == folder
    assert not (folder / "packages/triton/evil.py").exists()


def test_one_in_use_is_not_removed(known: FrontEnd, wheels: Path) -> None:
    with front_end_folder(known, "acme", HERE, wheels) as ready, pytest.raises(UsageError, match="in use"):
        remove_front_end(ready.folder.name)


def test_a_killed_one_leaves_nothing_that_counts(
    known: FrontEnd, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "_write_programs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made(known, wheels)
    assert not [path for path in front_ends_folder().iterdir() if path.is_dir()]
    monkeypatch.undo()
    os.environ["TORCHFERRY_CACHE"] = str(wheels.parent / "cache")
    folder = made(known, wheels)
    partial = folder.with_name(f"{folder.name}.partial")
    folder.rename(partial)  # as SIGKILL leaves it
    assert made(known, wheels) == folder
    assert not partial.exists()


def test_two_at_once_make_it_once(known: FrontEnd, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    make = environment._make

    def counted(*words: object) -> None:
        calls.append(1)
        time.sleep(0.2)
        make(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(environment, "_make", counted)
    threads = [threading.Thread(target=made, args=(known, wheels)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_a_wheel_that_is_another_one_or_is_missing(known: FrontEnd, wheels: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=r"empty has no acme_triton"):
        made(known, empty)
    write_wheel(wheels, {**FILES, "triton/__init__.py": "import os"})
    with pytest.raises(TorchferryError, match="is not the wheel that is known"):
        made(known, wheels)
    assert not [path for path in front_ends_folder().iterdir() if path.is_dir()]


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "link"])
def test_a_wheel_writes_nowhere_else(tmp_path: Path, wheels: Path, name: str) -> None:
    path = wheels / "acme_triton-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        member = zipfile.ZipInfo(name)
        if name == "link":
            member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(TorchferryError, match="which no wheel may hold"):
        made(front_end(path), wheels)
    assert not (tmp_path / "cache" / "evil").exists()


def test_no_room_is_said_before(known: FrontEnd, wheels: Path) -> None:
    huge = known._replace(wheels=(known.wheels[0]._replace(unpacked=1 << 60),))
    with pytest.raises(TorchferryError, match="are free"):
        made(huge, wheels)


def test_a_python_that_no_wheel_is_for(known: FrontEnd, wheels: Path) -> None:
    older = known._replace(wheels=(known.wheels[0]._replace(pythons=("3.2",)),))
    with pytest.raises(UsageError, match=r"has wheels for Python 3\.2; this machine has"):
        front_end_python(older)
    with pytest.raises(UsageError, match=f"none for {HERE}"):
        made(older, wheels)
    elsewhere = known._replace(wheels=(known.wheels[0]._replace(machine="z80"),))
    with pytest.raises(UsageError, match="no wheels for"):
        made(elsewhere, wheels)


# --- what is compiled ---

LAST = "def last(x, BLOCK: tl.constexpr):\n    tl.load(x)\n"
FILE = {
    "k.py": HEAD + "from parts import helper\nprint('the project ran')\nopen('ran', 'w')\n"
    "@triton.jit\ndef good(x, BLOCK: tl.constexpr):\n    tl.load(x)\n"
    "@triton.jit\ndef uses(x, BLOCK: tl.constexpr):\n    helper(x)\n"
    "@triton.autotune(configs=[triton.Config({'BLOCK': b}, num_warps=w) for b in (64, 4096) for w in (4, 8)], key=[])\n"
    "@triton.jit\ndef tuned(x, BLOCK: tl.constexpr):\n    pass\n"
    "@triton.jit\ndef crashes(x, BLOCK: tl.constexpr):\n    tl.act('crash')\n"
    "@triton.jit\ndef dies(x, BLOCK: tl.constexpr):\n    tl.act('die')\n"
    "@triton.jit\ndef hangs(x, BLOCK: tl.constexpr):\n    tl.act('hang')\n"
    "@triton.jit\ndef raises(x, BLOCK: tl.constexpr):\n    tl.act('raise')\n"
    "@triton.jit\ndef lost(x, BLOCK: tl.constexpr):\n    from_torch(x)\n"
    "@triton.jit\ndef never_launched(x, BLOCK: tl.constexpr):\n    pass\n",
    "parts.py": HEAD + "\n\n@triton.jit\ndef helper(x):\n    tl.load(x)\n    tl.act('refuse')\n",
}  # fmt: skip
NAMES = ("good", "uses", "tuned", "crashes", "dies", "hangs", "raises", "lost")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CheckedKernel]]:
    """All kernels of the file, compiled once, and once more from the cache."""
    folder = tmp_path_factory.mktemp("project")
    previous = os.environ.get("TORCHFERRY_CACHE")
    os.environ["TORCHFERRY_CACHE"] = str(folder / "cache")
    wheel = write_wheel(folder)
    known = front_end(wheel)
    try:
        first, second = (_check(folder, known, folder) for _ in range(2))
        for name, kernel in first.items():
            again = {case.state: case.from_cache for case in second[name].cases}
            assert [case.state for case in kernel.cases] == [case.state for case in second[name].cases], name
            assert all(
                is_cached is (state in (CaseState.ACCEPTED, CaseState.REFUSED)) for state, is_cached in again.items()
            )
        assert not (folder / "ran").exists()
        yield first
    finally:
        os.environ.pop("TORCHFERRY_CACHE")
        if previous is not None:
            os.environ["TORCHFERRY_CACHE"] = previous


def _check(folder: Path, known: FrontEnd, wheels: Path, seconds: float = 3.0) -> dict[str, CheckedKernel]:
    request, project, kernels = request_for(folder, FILE)
    given = given_signatures([f"{name}: *fp32{'' if name == 'tuned' else ',BLOCK=64'}" for name in NAMES], kernels)
    request, project, kernels = request_for(folder, FILE, given=given)
    checker = Checker(request, project, kernels)
    checker.plan()
    with front_end_folder(known, "acme", HERE, wheels) as ready:
        checker.run(Compiler(ready, known, TARGET, "Acme-X1", seconds, 2))
    return {kernel.name: kernel for kernel in checker.kernels()}


def test_an_accepted_kernel_says_what_it_needs(checked: dict[str, CheckedKernel]) -> None:
    (case,) = checked["good"].cases
    assert checked["good"].is_good
    assert case.memory == (("ub", 2048),)
    assert case.core == "v"
    assert [(each.path, each.line) for each in case.elements] == [("k.py", 8)]
    assert case.warnings == ("num_warps has no effect",)
    assert case.seconds > 0


def test_a_refusal_stands_at_the_line_of_another_file(checked: dict[str, CheckedKernel]) -> None:
    (case,) = checked["uses"].cases
    assert (case.state, case.message, case.path, case.line) == (CaseState.REFUSED, "this is refused", "parts.py", 8)
    assert checked["helper"].state is CaseState.NOT_COMPILED  # its caller was refused


def test_configurations_that_overflow_are_struck_out(checked: dict[str, CheckedKernel]) -> None:
    fits, large = checked["tuned"].cases
    assert checked["tuned"].state is CaseState.ACCEPTED
    assert fits.state is CaseState.ACCEPTED
    assert (fits.same_as, large.same_as) == (1, 1)  # num_warps has no effect
    assert large.is_struck_out
    assert str(large.message).startswith("ub overflow, requires 9 bits while 8")
    assert (large.path, large.line) == ("k.py", 13)


def test_a_crash_is_tried_again_and_never_told_as_a_refusal(checked: dict[str, CheckedKernel]) -> None:
    (again,) = checked["crashes"].cases
    assert (again.state, again.attempts) == (CaseState.ACCEPTED, 2)
    (twice,) = checked["dies"].cases
    assert (twice.state, twice.attempts) == (CaseState.CRASHED, 2)
    (late,) = checked["hangs"].cases
    assert late.state is CaseState.TIMEOUT
    assert not any(checked[name].is_good for name in ("dies", "hangs"))


def test_what_cannot_be_compiled_is_said(checked: dict[str, CheckedKernel]) -> None:
    assert "RuntimeError: a failure of its own" in str(checked["raises"].cases[0].message)
    assert "`from_torch` is defined nowhere" in str(checked["lost"].cases[0].message)
    assert "its signature is not known" in str(checked["never_launched"].cases[0].message)
    assert checked["never_launched"].suggestion == "never_launched: ?,BLOCK=?"
    assert checked["never_launched"].state is CaseState.NOT_COMPILED


def test_ten_thousand_configurations_are_bounded_and_the_rest_is_said(tmp_path: Path) -> None:
    files = {
        "k.py": HEAD + "@triton.autotune(configs=[triton.Config({'B': b}) for b in range(10000)], key=[])\n"
        "@triton.jit\ndef kernel(x, B: tl.constexpr):\n    pass\n"
    }
    _, _, kernels = request_for(tmp_path, files)
    request, project, kernels = request_for(tmp_path, files, given=given_signatures(["kernel: *fp32"], kernels), most=5)
    checker = Checker(request, project, kernels)
    assert checker.plan() == 5
    (kernel,) = checker.kernels()
    assert "9995 further configurations are not compiled" in str(kernel.cases[-1].message)
    assert not kernel.is_good


def test_two_definitions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    fast = "import os\nif os.environ.get('FAST') == '1':\n    @triton.jit\n    def f(x):\n        return x\n"
    files = {"k.py": HEAD + fast + "else:\n    @triton.jit\n    def f(x):\n        return -x\n"
             "@triton.jit\ndef kernel(x):\n    f(x)\n"}  # fmt: skip
    _, _, kernels = request_for(tmp_path, files)
    request, project, kernels = request_for(tmp_path, files, given=given_signatures(["kernel: *fp32"], kernels))
    checker = Checker(request, project, kernels)
    assert checker.plan() == 1
    assert [(each.name, each.line, len(each.cases)) for each in checker.kernels()] == [
        ("f", 6, 1),
        ("f", 10, 1),
        ("kernel", 13, 1),
    ]
    called = checker._cut["k.py", "kernel", 13].called
    assert called == (("k.py", "f", 10),)


def test_an_import_runs_the_project_where_that_is_asked_for(known: FrontEnd, wheels: Path, tmp_path: Path) -> None:
    files = {"pkg/k.py": HEAD + "from pkg.n import N\n@triton.jit\ndef kernel(x):\n    tl.load(x)\n",
             "pkg/n.py": "N = len(open(__file__).read())\n", "pkg/__init__.py": ""}  # fmt: skip
    root = tmp_path / "project"
    _, _, kernels = request_for(root, files)
    request, project, kernels = request_for(
        root, files, given=given_signatures(["kernel: *fp32"], kernels), is_imported=True
    )
    checker = Checker(request, project, kernels)
    checker.plan()
    with front_end_folder(known, "acme", HERE, wheels) as ready:
        checker.run(Compiler(ready, known, TARGET, "Acme-X1", 20, 1, [root]))
    (kernel,) = checker.kernels()
    assert kernel.state is CaseState.ACCEPTED, kernel.cases


def test_nothing_goes_on_when_the_command_is_gone(known: FrontEnd, wheels: Path, tmp_path: Path) -> None:
    with front_end_folder(known, "acme", HERE, wheels) as ready:
        program = (
            "import sys\nfrom pathlib import Path\nfrom tests.triton import test_front_end as t\n"
            "t._check(Path(sys.argv[1]), t.front_end(next(Path(sys.argv[2]).glob('*.whl'))), Path(sys.argv[2]), 300)\n"
        )
        command = [sys.executable, "-c", program, str(tmp_path / "p"), str(wheels)]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2], env={**os.environ, "PYTHONPATH": "src"})
        sleeping = _wait_for_hang(ready.folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
    end = time.monotonic() + 20
    while _is_alive(sleeping) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _is_alive(sleeping)
    descriptor = os.open(ready.folder.with_name(f"{ready.folder.name}.lock"), os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it any more
    os.close(descriptor)


def _wait_for_hang(folder: Path) -> int:
    """Return the process of the compiler that never ends, once it is there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            words = path.read_bytes().split(b"\0") if path.exists() else []
            if any(word == str(folder / "packages/acme/bin/acme-compile").encode() for word in words):
                time.sleep(0.5)
                if _is_alive(int(path.parent.name)):
                    return int(path.parent.name)
        time.sleep(0.05)
    raise AssertionError("it never began")


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
