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

from torchferry.core import env, exitcodes, own_python, reaper
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.temporary import temporary_folder

_MOST_BYTES = 64 << 20
"""Of a report. One of a million lines has 20 MB."""

_LONGEST = 1 << 16
"""Bytes of an argument; the system takes twice as many."""

_LAST = 1 << 16
"""Bytes that are kept of what a command prints."""


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


async def run(
    arguments: Sequence[str], seconds: float, *, cwd: Path | None = None, write_roots: Sequence[Path] = ()
) -> CommandResult:
    """Run `torchferry ARGUMENTS`.

    The command gets no input: the server's own belongs to the protocol. It runs in an empty folder unless one is
    given, since Python looks for modules in the folder that it is started in.

    Args:
        arguments: What stands behind `torchferry`; `{report}` is replaced by a file that is read afterwards.
        seconds: After which it is ended, with all that it started.
        cwd: The folder to run in.
        write_roots: Folders in which the command may change files, beside the report.

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
    with temporary_folder("torchferry-mcp-") as folder:
        file = folder / "report"
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
            },
            start_new_session=True,
        )
        taken = {"out": bytearray(), "err": bytearray()}
        try:
            reaper.watch(process.pid)
            with anyio.move_on_after(seconds) as limit:
                async with anyio.create_task_group() as reading:
                    for name, stream in (("out", process.stdout), ("err", process.stderr)):
                        assert stream is not None
                        reading.start_soon(_keep_last, stream, taken[name])
                    await process.wait()
        finally:  # when the client gives up, too
            with anyio.CancelScope(shield=True):
                _signal(process.pid, signal.SIGTERM)
                with anyio.move_on_after(reaper.SECONDS):  # a program that it runs has a session of its own
                    await process.wait()
                _signal(process.pid, signal.SIGKILL)
                await process.aclose()
                reaper.release(process.pid)
        printed, told = (taken[name].decode("utf-8", "replace") for name in ("out", "err"))
        if limit.cancelled_caught:
            raise TorchferryError(
                say("`torchferry {name}` was ended after {seconds} s", name=arguments[0], seconds=f"{seconds:g}"),
                say("{told}", told=told.strip()[-2000:]) if told.strip() else say("name a smaller folder"),
            )
        code = process.returncode
        assert code is not None
        if code == exitcodes.ERROR and not file.exists():
            raise TorchferryError(say("{told}", told=_error_of(told) or printed.strip()[-2000:]))
        return CommandResult(code, printed, told, _read(file) if file.exists() else "")


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _keep_last(stream: anyio.abc.ByteReceiveStream, kept: bytearray) -> None:
    async for data in stream:
        kept += data
        del kept[:-_LAST]


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
