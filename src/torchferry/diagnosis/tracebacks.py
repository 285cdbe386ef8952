"""Exceptions of Python in a log: the kind, the message, and the place in the user's own code.

A traceback is read from the column in which it begins: what precedes it in its first line, such as `[rank0]: ` or
the prefix of a logger, precedes each of its lines.
"""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.diagnosis.places import plain

BEGIN = "Traceback (most recent call last)"

LONGEST_TRACEBACK = 400
"""Lines of a traceback that are read."""

_FRAME = lazy_regex(r'  File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7})(?:, in (?P<name>.{1,100}))?')
_ERROR = lazy_regex(r"(?P<kind>[A-Za-z_][\w.]{0,120})(?:: (?P<message>.{0,2000}))?$")
_LIBRARIES = (
    *("site-packages", "dist-packages", "/lib/python", "<frozen", "/torch/", "/vllm/", "importlib"),
    *("/torchferry/rehearsal/", "/torchferry/shim/"),
)
_LONE = lazy_regex(
    r"(?P<kind>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception))(?:: (?P<message>.{1,2000}))?$"
)

CUT_OFF = "Traceback"
"""The kind of an exception whose line is missing, since the log ends within its traceback."""


class TracebackFrame(NamedTuple):
    """A line of a program, as a traceback names it."""

    file: str
    line: int
    function: str


class RaisedError(NamedTuple):
    """An exception that ended something.

    Attributes:
        kind: Its class, as it is printed.
        message: The first line of its text.
        frame: The last place in code that is no library's, else the last place; None where none is named.
        length: Lines from the beginning of the traceback to that of the exception.
    """

    kind: str
    message: str
    frame: TracebackFrame | None
    length: int


def read_ending(lines: list[str]) -> RaisedError | None:
    """Return the exception with which the last lines of a log end, where no whole traceback says it.

    That is one whose traceback was not copied or is of another form, such as IPython's; or a traceback that the end of
    the log cut off, of which the kind is `CUT_OFF`.

    Args:
        lines: The last lines, without what precedes each of them.
    """
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number].rstrip()
        lone = _LONE.match(line)
        if lone is not None:
            return RaisedError(lone["kind"], lone["message"] or "", None, number)
        if line.startswith(BEGIN):
            frames = [TracebackFrame(each["file"], int(each["line"]), each["name"] or "")
                      for each in filter(None, map(_FRAME.match, lines[number:]))]  # fmt: skip
            return RaisedError(CUT_OFF, "", frames[-1] if frames else None, number)
    return None


def read_traceback(lines: list[str]) -> RaisedError | None:
    """Return the exception of a traceback; None where its end is not there.

    Args:
        lines: The log from the line on in which the traceback begins.
    """
    column = plain(lines[0]).find(BEGIN)
    frames: list[TracebackFrame] = []
    for number, raw in enumerate(lines[1:LONGEST_TRACEBACK], 1):
        line = plain(raw)[column:].rstrip("\r\n")
        frame = _FRAME.match(line)
        if frame is not None:
            frames.append(TracebackFrame(frame["file"], int(frame["line"]), frame["name"] or ""))
        elif line and not line[0].isspace():
            error = _ERROR.match(line)
            if error is None or line.startswith(BEGIN):
                return None
            own = [each for each in frames if not any(part in each.file for part in _LIBRARIES)]
            last = (own or frames)[-1] if frames else None
            return RaisedError(error["kind"], error["message"] or "", last, number)
    return None
