"""torchferry's own command line, run for an assistant: without input, for a limited time, ended when it gives up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc

from torchferry.core import env, exitcodes, own_python, reaper, system
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.secrets import masked
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import visible

_MOST_BYTES = 64 << 20
"""Of a report. One of a million lines has 20 MB."""

_LONGEST = 1 << 16
"""Bytes of an argument; the system takes twice as many."""

_LAST = 1 << 16
"""Bytes that are kept of what a command prints."""

_LONGEST_LINE = 300
"""Characters of the line that says how far a command is."""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended.

    Attributes:
        exit_code: As `torchferry --help` lists them; that of the program, where one was run.
        printed: What it wrote to standard output, the end of it where it is long.
        told: What it wrote to standard error, the end of it where it is long.
        report: The text of the file that it was asked to write, empty for none.
    """

    exit_code: int
    printed: str
    told: str
    report: str = ""


class CommandOutput:
    """What a command prints while it runs, the end of it, and the line that says how far it is.

    Attributes:
        printed: Standard output.
        errors: Standard error.
        progress: The file that the command writes its line into; None before it begins.
    """

    def __init__(self) -> None:
        self.printed, self.errors = bytearray(), bytearray()
        self.progress: Path | None = None
        self._newest = self.printed

    def add(self, stream: bytearray, data: bytes) -> None:
        """Take what came on one of the two streams."""
        stream += data
        del stream[:-_LAST]
        self._newest = stream

    def line(self) -> str:
        """Return the line that a person would see now: how far the command is, or what it printed last."""
        text = ""
        if self.progress is not None:
            with contextlib.suppress(OSError):
                text = self.progress.read_bytes()[:_LONGEST_LINE].decode("utf-8", "replace").strip()
        if not text:
            tail = self._newest[-_LONGEST_LINE * 8 :].decode("utf-8", "replace").replace("\r", "\n")
            text = next((each.strip() for each in reversed(tail.split("\n")) if each.strip()), "")
        return visible(masked(text))[:_LONGEST_LINE]


async def run(
    arguments: Sequence[str],
    seconds: float,
    *,
    cwd: Path | None = None,
    write_roots: Sequence[Path] = (),
    output: CommandOutput | None = None,
) -> CommandResult:
    """Run `torchferry ARGUMENTS`.

    The command gets no input: the server's own belongs to the protocol. It runs in an empty folder unless one is
    given, since Python looks for modules in the folder that it is started in.

    Args:
        arguments: What follows `torchferry`; `{report}` is replaced by a file that is read afterwards.
        seconds: After which it is ended, with all that it started.
        cwd: The folder to run in.
        write_roots: Folders in which the command may change files, beside the report.
        output: Takes what it prints meanwhile.

    Raises:
        TorchferryError: the time is over, or it ended with an error of use; its message is that of the command.
    """
    if any("\0" in each for each in arguments):
        raise TorchferryError(say("an argument contains a null character"))
    longest = max((len(each.encode("utf-8", "surrogatepass")) for each in arguments), default=0)
    if longest > _LONGEST:
        raise TorchferryError(
            say("an argument is too long (bytes: {count}, at most: {most})", count=longest, most=_LONGEST),
        )
    taken = CommandOutput() if output is None else output
    with temporary_folder("torchferry-mcp-") as folder:
        file = folder / "report"
        taken.progress = folder / "progress"
        taken.progress.touch()
        command = own_python.module_command(
            "torchferry", *(str(file) if each == "{report}" else each for each in arguments)
        )
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            cwd=cwd or folder,
            env={
                **os.environ,
                "NO_COLOR": "1",
                "COLUMNS": "120",
                env.WRITE_ROOTS: json.dumps([str(folder), *map(str, write_roots)]),
                env.PROGRESS: str(taken.progress),
            },
            start_new_session=True,
        )
        try:
            reaper.watch(process.pid)
            with anyio.move_on_after(seconds) as limit:
                async with anyio.create_task_group() as reading:
                    for stream, end in ((process.stdout, taken.printed), (process.stderr, taken.errors)):
                        assert stream is not None
                        reading.start_soon(_take, stream, taken, end)
                    await process.wait()
        finally:  # when the client gives up, too
            with anyio.CancelScope(shield=True):
                _signal(process.pid, signal.SIGTERM)
                with anyio.move_on_after(reaper.SECONDS):  # a program that it runs has a session of its own
                    await process.wait()
                _signal(process.pid, system.KILL)
                await process.aclose()
                reaper.release(process.pid)
        printed, told = (end.decode("utf-8", "replace") for end in (taken.printed, taken.errors))
        if limit.cancelled_caught:
            raise TorchferryError(
                say("`torchferry {name}` was ended after {seconds} s", name=arguments[0], seconds=f"{seconds:g}"),
                say("{told}", told=told.strip()[-2000:])
                if told.strip()
                else say("name a smaller folder, or give it more `seconds`"),
            )
        code = process.returncode
        assert code is not None
        if code == exitcodes.ERROR and not file.exists():
            raise TorchferryError(say("{told}", told=_error_of(told) or printed.strip()[-2000:]))
        if code < 0 and not file.exists():
            raise TorchferryError(
                say("`torchferry {name}` was ended by signal {number}", name=arguments[0], number=-code),
                say("the system does that when memory runs out: try again, or name a smaller folder"),
            )
        return CommandResult(code, printed, told, _read(file) if file.exists() else "")


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        system.signal_group(group, number)


async def _take(stream: anyio.abc.ByteReceiveStream, output: CommandOutput, end: bytearray) -> None:
    async for data in stream:
        output.add(end, data)


def _read(file: Path) -> str:
    if file.stat().st_size > _MOST_BYTES:
        raise TorchferryError(
            say("the report is larger than {count} MB", count=_MOST_BYTES >> 20), say("name a smaller folder")
        )
    return file.read_text("utf-8")


def _error_of(told: str) -> str:
    """Return the error that a command ended with, without the words of the command line around it."""
    text = told.strip()
    return text.rpartition("Error: ")[2][-2000:]
