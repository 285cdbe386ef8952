"""What a command says at its end of the program that it ran and that failed: why, and what to do.

The program has the terminal, the pipe or the file that the command was given: a terminal or a pipe between the two
would change what the program sees of it, and the order of its lines. So two things are read that change nothing: the
files that standard output and standard error go to, where they are files, from where they ended before; and the
exceptions that the Python processes of the command left when they ended (`core/site`). What was not read is said.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

from torchferry.core import exitcodes, system
from torchferry.core.coded_errors import CodedError
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, language, say
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_notice
from torchferry.core.torch_start import NOTES, noting, uncaught_logs

_EXPLAINED = "explained"
"""What a command leaves for those that it runs within: that it has said why the program failed."""

_OWN_NOTICE = "torchferry: "

_BY_PERSONS = {getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE")}
"""Signals by which a person or a shell ends a program that did not fail."""

_SIGNALLED = 128


@contextlib.contextmanager
def end_explained() -> Iterator[None]:
    """Say what ended the program that a command runs, where the command ends with the program's exit code."""
    before = os.environ.get(NOTES)
    with temporary_folder("torchferry-ended-") as folder:
        printed = _printed_files()
        os.environ.update(noting(folder))
        try:
            yield
        except SystemExit as end:
            if isinstance(end.code, int) and end.code not in (exitcodes.CLEAN, exitcodes.INTERRUPTED):
                _explain(folder, printed, end.code)
            raise
        except TorchferryError as error:
            _explain(folder, printed, error.exit_code if isinstance(error, CodedError) else exitcodes.ERROR)
            raise
        finally:
            os.environ.pop(NOTES)
            if before is not None:
                os.environ[NOTES] = before


class _OutputFiles:
    """The files that are written to, by device and inode, each with its size before the program began."""

    def __init__(self) -> None:
        self.sizes: dict[tuple[int, int], tuple[int, Path]] = {}

    def add(self, descriptor: int) -> None:
        """Add what a descriptor of this process writes to, where it is a file that can be opened by its number."""
        path = Path(f"/proc/self/fd/{descriptor}")
        with contextlib.suppress(OSError):
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not path.exists():
                return
            begin = status.st_size if system.is_appended_to(descriptor) else os.lseek(descriptor, 0, os.SEEK_CUR)
            self.sizes.setdefault((status.st_dev, status.st_ino), (begin, path))


def _printed_files() -> _OutputFiles:
    files = _OutputFiles()
    for descriptor in (2, 1):
        files.add(descriptor)
    return files


def _explain(folder: Path, printed: _OutputFiles, code: int) -> None:
    """Print why the program failed, as far as it is known.

    A program that ended by itself with a code of its own may have caught what failed and printed it: that is said only
    where it was printed into a file, and is a cause that the tables know.
    """
    if (folder / _EXPLAINED).exists():
        return
    logs = uncaught_logs(folder)
    number = code - _SIGNALLED if code > _SIGNALLED else 0
    killed = 0 < number < signal.NSIG and number not in _BY_PERSONS
    ended_by_itself = not logs and not killed
    if ended_by_itself and not any(_has_grown(begin, path) for begin, path in printed.sizes.values()):
        return
    # imported late: most programs do not fail
    from torchferry.diagnosis.explaining import diagnosed
    from torchferry.diagnosis.inputs import LogFile, LogReader
    from torchferry.diagnosis.report import notice

    lang = language()
    if killed:
        ending = folder / "uncaught-signal.log"
        ending.write_text(f"the command ended by {_signal_text(number)}\n", encoding="utf-8")
        logs.append(ending)
    diagnosis = diagnosed(LogReader(logs))
    was_read = False
    if diagnosis.first is None or diagnosis.first.entry.role != "cause":  # an exception with a cause is what ended it
        reader = LogReader(())
        reader.files += [LogFile(str(path), path, begin) for begin, path in printed.sizes.values()]
        of_files = diagnosed(reader)
        was_read = bool(reader.size)
        if of_files.first is not None and of_files.first.first.text.startswith(_OWN_NOTICE):
            return  # what we have said ourselves, with what to do
        if ended_by_itself and (of_files.first is None or of_files.first.entry.role != "cause"):
            return
        if of_files.first is not None:
            diagnosis = of_files
    lines = list(notice(diagnosis, lang))
    if not lines and killed:
        lines = [say("the command was ended by {signal}", signal=_signal_text(number)).render(lang)]
    if not lines:
        return
    if not was_read:
        lines.append("  " + _not_read(printed).render(lang))
    print_notice(f"torchferry: {lines[0]}", *lines[1:])
    for outer in filter(None, os.environ[NOTES].split(os.pathsep)):
        with contextlib.suppress(OSError):
            Path(outer, _EXPLAINED).touch()


def _has_grown(begin: int, path: Path) -> bool:
    """Whether a file has more than it had before the program began."""
    with contextlib.suppress(OSError):
        return path.stat().st_size > begin
    return False


def _not_read(printed: _OutputFiles) -> Message:
    for _, path in printed.sizes.values():
        with contextlib.suppress(OSError):
            command = f"torchferry explain {shlex.quote(os.readlink(path))}"
            return say("not read: what the command printed; `{command}` reads it", command=command)
    return say(
        "not read: what the command printed; save it with `2>&1 | tee run.log`, and "
        "`torchferry explain run.log` reads it"
    )


def _signal_text(number: int) -> str:
    """Return a signal as torch's launcher writes it, which is what the tables know."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
