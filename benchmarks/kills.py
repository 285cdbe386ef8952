"""Commands that are killed at random: nothing may be lost, and the next command must restore.

    python -m benchmarks.kills [--count N] [--seed N] [undo overlay rehearse copy handover ...]

Each time a process that runs one command is ended by SIGKILL, in turn after a random part of the time that a whole run
took, and before a random step that changes the disk. Every file must then be as before or as after, never in between;
the next command must bring back the tree as it was, and nothing of torchferry's may be left in it, beside it or among
the temporary files.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

STEPS = ("replace", "rename", "fsync", "unlink", "write", "mkdir", "fchmod", "chmod", "rmdir", "link", "utime")
"""What changes something on the disk; opening a new file does too."""

FILES = 5
KERNEL = "#include <cuda_runtime.h>\nvoid f{0}() {{ cudaDeviceSynchronize(); }}\n"
MODULE = "import torch\nimport foolib\n\nx{0} = torch.ones(2).cuda()\ntorch.cuda.synchronize()\n# {1}\n"
PROGRAM = "if __name__ == '__main__':\n    print('done')\n"
PACKAGE = "import torch\n\n\ndef ones():\n    return torch.ones(2).cuda()\n"


class Scenario(NamedTuple):
    """A command that is killed.

    Attributes:
        prepare: Commands that come first.
        killed: The command.
        after: Commands that bring back the tree; they may find that there is nothing to do.
    """

    prepare: tuple[tuple[str, ...], ...]
    killed: tuple[str, ...]
    after: tuple[tuple[str, ...], ...]


MIGRATE = ("migrate", "project", "-t", "npu", "-q")
UNDO = ("undo", "project")
OVERLAY = (*MIGRATE[:-1], "--overlay", "project/ferry", "--python", "site-packages")
HANDOVER = ("handover", "project", "--for", "generic", "-t", "npu", "--program", "m0.py", "-o", "out")
SCENARIOS = {
    "undo": Scenario((MIGRATE,), UNDO, (UNDO,)),
    "overlay": Scenario((), OVERLAY, (UNDO,)),
    "rehearse": Scenario((), (*MIGRATE, "--rehearse", f"{sys.executable} m0.py"), (UNDO, UNDO)),
    "port": Scenario((), ("port", "project/csrc", "-t", "musa"), (UNDO,)),
    "copy": Scenario((), (*MIGRATE, "--out", "out"), (("undo", "out"),)),
    "handover": Scenario((HANDOVER,), HANDOVER, (("undo", "out"), HANDOVER)),
}


class LostError(Exception):
    """Something was lost or left."""


def build(folder: Path) -> None:
    """Write a project and a package that it uses."""
    project, package = folder / "project", folder / "site-packages"
    (project / "csrc").mkdir(parents=True)
    (project / "torchferry.toml").write_text("")
    for number in range(FILES):
        (project / f"m{number}.py").write_text(MODULE.format(number, "x" * 2000) + PROGRAM)
        (project / "csrc" / f"k{number}.cu").write_text(KERNEL.format(number))
    (project / "LICENSE").write_text("MIT License\n")
    info = package / "foolib-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "foolib").mkdir()
    (package / "foolib" / "__init__.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foolib\nVersion: 1.0\nLicense: MIT\n")
    names = ("foolib/__init__.py", "foolib-1.0.dist-info/METADATA", "foolib-1.0.dist-info/RECORD")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))


def files(folder: Path, but: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the contents of all files below a folder, without those of torchferry's own folders and others."""
    found = {}
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".torchferry" and name not in but]
        for name in names:
            path = Path(top, name)
            found[path.relative_to(folder).as_posix()] = path.read_bytes()
    return found


def run(folder: Path, temporary: Path, arguments: Sequence[str], deadline: int = 0, after: float = 0.0) -> int:
    """Run a command in a child in a folder; kill it before a step or after some seconds; return how it ended."""
    child = os.fork()
    if child == 0:
        _become(folder, temporary, arguments, deadline)
    if after:
        descriptor = os.pidfd_open(child)
        select.select([descriptor], [], [], after)  # ends with the child, which may take less time than its first run
        os.close(descriptor)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(folder: Path, temporary: Path, arguments: Sequence[str], deadline: int) -> None:
    code = 99
    try:
        os.chdir(folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        with open(temporary.parent / "said", "wb") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        _count(temporary.parent / "steps", deadline)
        from torchferry import cli

        sys.argv = ["torchferry", *arguments]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def _count(log: Path, deadline: int) -> None:
    """Kill this process before its Nth step that changes the disk; with -1 write down how many it takes."""
    if not deadline:
        return
    steps, owner = count(1), os.getpid()

    def counted(function: Any, changes: Callable[..., bool] = lambda *_: True) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() == owner and changes(*args):
                step = next(steps)
                if step == deadline:
                    os.kill(owner, signal.SIGKILL)
                if deadline < 0:
                    log.write_bytes(str(step).encode())
            return function(*args, **kwargs)

        return wrapper

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    real = os.open
    os.open = counted(real, lambda path, flags, *_: bool(flags & os.O_CREAT))


@contextmanager
def _places() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        yield Path(name)


def rounds(name: str, times: int, chance: random.Random) -> tuple[int, int]:
    """Kill a command so many times; return how often it was killed, and how often it had changed something by then.

    Raises:
        LostError: a file was in between, or something was not restored or was left.
    """
    scenario = SCENARIOS[name]
    with _places() as place:
        made, temporary, ready = place / "made", place / "temporary", place / "ready"
        ready.mkdir()
        temporary.mkdir()
        build(ready)
        original = files(ready)
        if scenario.prepare:
            ready.rename(made)  # a journal knows its path
            for arguments in scenario.prepare:
                run(made, temporary, arguments)
            made.rename(ready)

        def start() -> dict[str, bytes]:
            shutil.rmtree(made, ignore_errors=True)
            shutil.copytree(ready, made)
            return files(made)

        if name == "rehearse":  # what the first run of all compiles is no part of a run's time
            start()
            run(made, temporary, scenario.killed)
        start()
        begun = time.monotonic()
        run(made, temporary, scenario.killed, -1)
        seconds = time.monotonic() - begun
        steps = int((place / "steps").read_text())
        done = files(made)
        killed = changed = 0
        for number in range(times):
            before = start()
            if number % 2:
                code = run(made, temporary, scenario.killed, chance.randint(1, steps))
            else:
                code = run(made, temporary, scenario.killed, 0, chance.uniform(0.01, seconds))
            killed += code == -signal.SIGKILL
            now = {path: data for path, data in files(made).items() if not _is_ours(path)}
            changed += now != before
            _same_or_lost(f"{name}: in between", {k: v for k, v in now.items() if before.get(k) != v}, done)
            for arguments in scenario.after:
                run(made, temporary, arguments)
            end = files(made, ("out",)) if name != "handover" else files(made)
            wanted = done if name == "handover" else original
            if name == "handover":  # its record has a signature of the folder's inode
                end, wanted = ({k: v for k, v in each.items() if "handover.json" not in k} for each in (end, wanted))
            if end != wanted:
                raise LostError(f"{name}: {sorted(set(end.items()) ^ set(wanted.items()))[:3]}"[:600])
            left = [path for path in made.rglob(".*torchferry*") if path.name != ".torchferry-lock"]
            if left:
                raise LostError(f"{name}: left behind: {left}")
        if name == "rehearse":
            run(made, temporary, scenario.killed)
        if list(temporary.glob("torchferry-migrate-*")):
            inside = [path.relative_to(temporary) for path in temporary.rglob("*")]
            raise LostError(f"{name}: temporary folders are left: {inside[:40]}")
    return killed, changed


def _is_ours(path: str) -> bool:
    return any(part.startswith(".") and "torchferry" in part for part in path.split("/"))


def _same_or_lost(what: str, now: dict[str, bytes], done: dict[str, bytes]) -> None:
    wrong = [path for path, data in now.items() if path in done and done[path] != data and "handover.json" not in path]
    if wrong:
        raise LostError(f"{what}: {wrong[:3]}")


def _import_all() -> None:
    """Import what the commands need before the first fork, and start no thread: a forked child has none of them."""
    for name in ("migrate", "migrated", "undo", "overlay", "kit", "native", "port", "handover", "migrate_rehearsal"):
        importlib.import_module(f"torchferry.cli.{name}")
    late = ("migration.copy", "kernels.planning", "programs.verdicts.judging", "handover.writing", "report.text_format")
    for name in late:
        importlib.import_module(f"torchferry.{name}")
    importlib.import_module("torchferry.rules.registry").rules()


def main() -> None:
    """Kill each command so many times, and print how often."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", default=["undo", "overlay", "rehearse"], help=", ".join(SCENARIOS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kills-state-") as state:
        os.environ["XDG_STATE_HOME"] = state  # the cache stays: a simulated card takes minutes to compile
        os.environ["TORCHFERRY_JOBS"] = "1"
        _import_all()
        for name in given.names:
            killed, changed = rounds(name, given.count, random.Random(given.seed))
            print(
                f"{name}: killed {killed} of {given.count} runs, {changed} of them after a change; nothing lost",
                flush=True,
            )


if __name__ == "__main__":
    main()
