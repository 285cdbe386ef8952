"""The one place that catches what nobody caught: an error of torchferry's own, or of the machine that it runs on.

The user gets a short report that names no path, no value and no secret, and can be sent as it is. The whole traceback
goes into a file that only the user can read, or to standard error with `TORCHFERRY_TRACEBACK=1`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from types import TracebackType

from torchferry import __version__
from torchferry.core import env, exitcodes, system
from torchferry.core.messages import Message, say
from torchferry.core.terminal import print_notice

_PACKAGE = Path(__file__).parent.parent

_FOLDER = "errors"
"""In the state folder: the tracebacks."""

_MOST_FILES = 20
_MOST_FRAMES = 8

_OF_THE_MACHINE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE),
        *(errno.EFBIG, errno.ENXIO, errno.ENODEV, errno.ETIMEDOUT, errno.EAGAIN),
    }
)
"""What the system refuses when a disk is full or broken, or a limit of the process is reached."""

_in_threads: list[BaseException] = []


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Say on standard error that a command ended by its own error; return the exit code for that.

    Args:
        error: What nobody caught.
        arguments: The command line, of which only the names of commands and options are shown.
    """
    try:
        print_notice(*_lines(error, arguments))
    except Exception:  # standard error is closed, or the memory is full: the exit code is all that is left
        return exitcodes.ERROR
    return exitcodes.ERROR


def watch_threads(arguments: Sequence[str]) -> None:
    """Report what nobody catches in a thread, too; `failed_in_thread` says so at the end."""

    def caught(end: threading.ExceptHookArgs) -> None:
        if end.exc_value is not None and not isinstance(end.exc_value, SystemExit):
            _in_threads.append(end.exc_value)
            report(end.exc_value, arguments)

    threading.excepthook = caught


def failed_in_thread() -> bool:
    """Whether a thread ended by an error that nobody caught: what the command says is not whole then."""
    return bool(_in_threads)


def _lines(error: BaseException, arguments: Sequence[str]) -> Iterator[str]:
    machine = _of_the_machine(error)
    if machine is not None:
        yield f"torchferry: {machine.render()}"
    else:
        yield f"torchferry: {say('internal error: {kind}', kind=_kind(error)).render()}"
        python = ".".join(map(str, sys.version_info[:3]))
        yield f"  torchferry {__version__}, Python {python}, {_machine()}: {_command(arguments)}"
        for frame in _own_frames(error.__traceback__):
            yield f"  {frame}"
    if env.shows_traceback():
        import traceback  # imported late: our faults are rare

        for text in traceback.format_exception(type(error), error, error.__traceback__):
            yield from text.rstrip("\n").split("\n")
    elif machine is None:
        file = _keep_traceback(error)
        if file is None:
            yield f"  {say('{variable}=1 shows the whole traceback', variable=env.TRACEBACK).render()}"
        else:
            place = say("the whole traceback, which can name your files, is in {path}", path=file)
            yield f"  {place.render()}"
    if machine is None:
        yield f"  {_where_to().render()}"


def _machine() -> str:
    if hasattr(os, "uname"):
        names = os.uname()
        return f"{names.sysname} {names.machine}"
    return sys.platform


def _of_the_machine(error: BaseException) -> Message | None:
    """Return what the machine lacks; None where it is not the cause."""
    if isinstance(error, MemoryError):
        return say("out of memory; set TORCHFERRY_JOBS=1, or name a part of the project")
    if not isinstance(error, OSError) or error.errno not in _OF_THE_MACHINE:
        return None
    if error.filename is None:
        return say("the operating system refused: {error}", error=error.strerror)
    return say("the operating system refused: {error}: {path}", error=error.strerror, path=os.fsdecode(error.filename))


def _kind(error: BaseException) -> str:
    name = type(error).__qualname__
    return f"{name} ({errno.errorcode.get(error.errno or 0, '-')})" if isinstance(error, OSError) else name


def _command(arguments: Sequence[str]) -> str:
    """Return a command line without values: its first words that are names of commands, and the names of options."""
    shown = ["torchferry"]
    words = iter(arguments)
    for word in words:
        if word.startswith("-"):
            words = iter([word, *words])
            break
        if not word.replace("-", "").isalpha() or os.sep in word or len(shown) > 2:
            shown.append("...")
            break
        shown.append(word)
    for word in words:
        if word == "--":
            shown.append("-- ...")
            break
        if word.startswith("--"):
            shown.append(word.partition("=")[0])
        elif word.startswith("-") and len(word) > 1:
            shown.append(word[:2])
    return " ".join(shown)


def _own_frames(trace: TracebackType | None) -> list[str]:
    """Return the innermost places in torchferry's own files, and how often each came in a row."""
    places = []
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if _PACKAGE in file.parents:
            inside = file.relative_to(_PACKAGE.parent).as_posix()
            places.append(f"{inside}:{trace.tb_lineno} {trace.tb_frame.f_code.co_name}")
        trace = trace.tb_next
    counted = [(place, len(list(same))) for place, same in groupby(places)]
    return [place + (f" (x{count})" if count > 1 else "") for place, count in counted[-_MOST_FRAMES:]]


def _where_to() -> Message:
    """Say where a report goes: to the page of issues that the installed distribution names, if it names one."""
    from importlib.metadata import PackageNotFoundError, metadata  # imported late: our faults are rare

    with contextlib.suppress(PackageNotFoundError):
        for entry in metadata("torchferry").get_all("Project-URL") or ():
            label, _, address = entry.partition(",")
            if label.strip().lower() in ("issues", "bug tracker", "tracker"):
                return say("please report it, with these lines: {address}", address=address.strip())
    return say("please report it to the maintainers of torchferry, with these lines")


def _keep_traceback(error: BaseException) -> Path | None:
    """Write the traceback into a file of the user's; None where that cannot be."""
    import time  # imported late, as below: our faults are rare
    import traceback

    state = env.state_folder()
    if state is None:
        return None
    folder = state / _FOLDER
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        descriptor = system.open_file(file, system.REPLACE)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
        for old in sorted(folder.glob("*.txt"))[:-_MOST_FILES]:
            old.unlink()
    except OSError:
        return None
    return file
