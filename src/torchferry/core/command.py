"""Run a command of the user's: find its program, pass signals on, leave no process behind, also when we are killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from torchferry.core import reaper, supported_torch, system
from torchferry.core.errors import UsageError
from torchferry.core.importable import is_importable
from torchferry.core.messages import say
from torchferry.core.progress import left_to_others
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import print_notice

_MOMENT = 3.0
"""Seconds for helpers that end when they notice that their parent is gone, such as multiprocessing's."""

_GRACE = 3.0
"""Seconds that left-over children get between SIGTERM and SIGKILL."""

_LAST = 1 << 18
"""Bytes that are kept of what a command printed."""


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run a command and return its exit code, 128 and the number for one that a signal ended.

    The programs beside our Python, such as torchrun, come first on its path: they are those of the environment that has
    torchferry. Processes that it leaves behind are ended. A signal to us goes to the command; when we are killed, it is
    ended.

    Raises:
        UsageError: there is no such command.
    """
    program = _command(command)
    with left_to_others(), _forwarded() as started:
        process = started(subprocess.Popen(program, env=_with_ours(environment), start_new_session=True))
        code = process.wait()
    _end_group(process.pid)
    reaper.release(process.pid)
    return _exit_code(code)


def run_aside(command: list[str], environment: dict[str, str], folder: Path, seconds: float) -> tuple[int | None, str]:
    """Run a command in a folder, with no input and for a limited time; return its exit code and what it printed last.

    The code is None where the time ended it. Otherwise as `run`.

    Raises:
        UsageError: there is no such command.
    """
    last = bytearray()

    def keep(data: bytes) -> None:
        last.extend(data)
        del last[:-_LAST]

    end = run_logged(command, environment, folder, seconds, keep)
    return end.code, bytes(last).decode("utf-8", "replace")


class CommandEnd(NamedTuple):
    """How a command ended: its exit code, None where the time ended it, and whether a signal to us went to it."""

    code: int | None
    signalled: bool


def run_logged(
    command: list[str], environment: dict[str, str], folder: Path, seconds: float, heard: Callable[[bytes], None]
) -> CommandEnd:
    """Run a command in a folder, with no input and for a limited time. Otherwise as `run`.

    Args:
        command: The command.
        environment: Its variables.
        folder: Where it runs.
        seconds: How long it may take.
        heard: Called in a thread with each part of what it prints, both streams in one.

    Raises:
        UsageError: there is no such command.
    """
    program = _command(command, folder)
    code: int | None = None
    signalled: list[int] = []
    with _forwarded(signalled) as started:
        process = started(
            subprocess.Popen(
                program,
                env=_with_ours(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        assert process.stdout is not None
        reader = threading.Thread(target=_pass_on, args=(process.stdout.fileno(), heard), daemon=True)
        reader.start()
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = _exit_code(process.wait(seconds))
    _end_group(process.pid, 0.0 if code is None else _MOMENT)
    process.wait()
    reaper.release(process.pid)
    reader.join(_GRACE)  # what has left the group may hold the pipe for ever
    return CommandEnd(code, bool(signalled))


def _pass_on(descriptor: int, heard: Callable[[bytes], None]) -> None:
    """Read a pipe to its end and pass on what comes."""
    with contextlib.suppress(OSError):
        while data := os.read(descriptor, 65536):
            heard(data)


def _with_ours(environment: dict[str, str]) -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**environment, "PATH": os.pathsep.join([scripts, environment.get("PATH", os.defpath)])}


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


def _command(command: list[str], folder: Path | None = None) -> list[str]:
    """Return the command with its program found; a Python file is run by this Python."""
    first = command[0]
    if first.endswith(".py") and (folder or Path()).joinpath(first).is_file():
        return [sys.executable, *command]
    if folder is not None and os.sep in first and (folder / first).is_file():
        return [str(folder / first), *command[1:]]
    script = Path(sys.executable).parent / first
    program = str(script) if os.sep not in first and script.is_file() else shutil.which(first)
    if program is None and first.startswith("-"):
        raise UsageError(
            say("no such option: {name}", name=first),
            say(
                "--help lists the options; write the command behind `--`, such as {example}",
                example="-- python train.py",
            ),
        )
    if program is None and first == "torchrun":
        missing = not is_importable("torch")
        raise UsageError(
            say("command `{name}` not found; it is installed with torch", name=first),
            supported_torch.how_to_install(sys.executable)
            if missing
            else say("`python -m torch.distributed.run` is the same program"),
        )
    if program is None:
        raise UsageError(
            say("command `{name}` not found", name=first),
            say("write what you would type without torchferry, such as {example}", example="-- python train.py"),
        )
    return [program, *command[1:]]


@contextlib.contextmanager
def _forwarded(
    received: list[int] | None = None,
) -> Iterator[Callable[[subprocess.Popen[bytes]], subprocess.Popen[bytes]]]:
    """Send what we are sent to a command: it is in its own session, so that its children can be found.

    Yields what is to be called with the command's process; what came before it was known is sent then. `received` takes
    the signals.
    """
    processes: list[subprocess.Popen[bytes]] = []
    waiting: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if received is not None and frame is not None:
            received.append(number)
        if not processes:
            waiting.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            system.signal_group(processes[0].pid, number)

    def started(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        reaper.watch(process.pid)
        processes.append(process)
        while waiting:
            forward(waiting.pop(0), None)
        return process

    # What we were started to ignore, under nohup or in the background of a script, is not for the command either.
    numbers = [number for number in system.ENDINGS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_group(group: int, moment: float = _MOMENT) -> None:
    """End what the command left running, after a moment for what is about to end by itself."""
    if _gone(group, moment):
        return
    if moment:
        print_notice("torchferry: the command left processes behind; ending them")
    for number in (signal.SIGTERM, system.KILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            system.signal_group(group, number)
        if _gone(group, _GRACE):
            return


def _gone(group: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        if system.is_group_gone(group):
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
