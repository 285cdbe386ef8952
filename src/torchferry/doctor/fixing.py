"""Applying the fixes that only add and that one line takes back: a folder, a line in a file that the user names."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.doctor.host import Host
from torchferry.doctor.result import Remedy, Result

MARK = "# torchferry doctor"
"""Ends every line that we add, so that it can be found and taken back."""

OPEN_MARK = "# after a line without end, torchferry doctor"
"""Ends the line that we add behind a last line without end: taking it back leaves that line without end again."""


@dataclass(frozen=True)
class FixStep:
    """One fix: the command that does it and the command that takes it back.

    Attributes:
        remedy: What is done.
        path: The folder or file.
        line: What is added to the file.
        do: As the user would type it.
        undo: What takes it back, as the user would type it.
    """

    remedy: Remedy
    path: Path
    line: str
    do: str
    undo: str


def plan(results: Iterable[Result], host: Host, file: Path | None) -> tuple[list[FixStep], list[Remedy]]:
    """Return the fixes that can be applied, and those that wait for a file to be named (`--env-file`)."""
    steps: list[FixStep] = []
    waiting: list[Remedy] = []
    added: list[str] = []
    for remedy in dict.fromkeys(result.remedy for result in results if result.remedy is not None):
        if remedy.kind == "folder":
            steps.append(_folder(remedy, host))
        elif file is None:
            waiting.append(remedy)
        elif not any(f"{remedy.text}  {mark}" in _lines(file) for mark in (MARK, OPEN_MARK)):
            steps.append(_line(remedy, file, first=not added))
            added.append(remedy.text)
    return steps, waiting


def _folder(remedy: Remedy, host: Host) -> FixStep:
    path = host.place(remedy.text)
    missing = path
    while not missing.parent.exists():
        missing = missing.parent
    undo = f"rmdir {shlex.quote(str(path))}"
    if missing != path:
        undo = f"cd {shlex.quote(str(missing.parent))} && rmdir -p {shlex.quote(str(path.relative_to(missing.parent)))}"
    return FixStep(remedy, path, "", f"mkdir -p {shlex.quote(str(path))}", undo)


def _line(remedy: Remedy, file: Path, *, first: bool) -> FixStep:
    """Return the step that adds a line; the undo leaves the file, byte for byte, as it was before the first of ours."""
    quoted = shlex.quote(str(file.resolve()))  # sed would put a file in the place of a link
    text = _text(file)
    open_end = first and bool(text) and not text.endswith("\n")
    line = f"{remedy.text}  {OPEN_MARK if open_end else MARK}"
    undo = f"sed -i '/{MARK}$/d' {quoted}"
    if open_end or OPEN_MARK in text:
        our_lines = f"\\n[^\\n]*{OPEN_MARK}(\\n[^\\n]*{MARK})*\\n$"
        undo = f"sed -i -z -E 's/{our_lines}//' {quoted} && sed -i -E '/({MARK}|{OPEN_MARK})$/d' {quoted}"
    elif not file.exists():
        undo = f"{undo} && {{ [ -s {quoted} ] || rm {quoted}; }}"
    do = f"printf '\\n%s\\n' {shlex.quote(line)} >> {quoted}" if open_end else f"echo {shlex.quote(line)} >> {quoted}"
    return FixStep(remedy, file, line, do, undo)


def apply(step: FixStep) -> None:
    """Apply a fix.

    Raises:
        TorchferryError: the folder cannot be made, or the file cannot be written.
    """
    try:
        if step.remedy.kind == "folder":
            step.path.mkdir(parents=True, exist_ok=True)
        else:
            _append(step.path, step.line)
    except OSError as error:
        raise TorchferryError(
            say("cannot write {path}: {error}", path=step.path, error=error.strerror),
            say("do it by hand: {command}", command=step.do),
        ) from None


def _append(path: Path, line: str) -> None:
    """Add a line in one step: the file is written beside and moved into place, with the mode that it had."""
    place = path.resolve()  # a link, such as a dotfile in a repository, stays a link
    before = place.read_bytes() if place.exists() else b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(before + line.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            Path(name).chmod(place.stat().st_mode & 0o7777)
        else:
            Path(name).chmod(0o644)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _text(file: Path) -> str:
    if file.is_dir():
        raise UsageError(say("{path} is a folder", path=file))
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(say("{path} cannot be read: {error}", path=file, error=error.strerror)) from None


def _lines(file: Path) -> list[str]:
    return _text(file).splitlines()
