r"""The one way to print, for the commands and for what torchferry does inside a user's program.

Text for people is escaped wherever it goes, on a terminal and into a pipe alike, since the logs of CI services act on
escape sequences too: a control character, a bidirectional or invisible mark, or an undecodable byte is written as
`\x1b`, `\u202e` or `\udcff`. Data, such as a diff, JSON or a rewritten file, goes into a pipe or a file byte for byte;
on a terminal it is escaped as text is. Styles are torchferry's own alone: `style` encloses them in marks that no text
of somebody else can contain, and printing turns these into colours or into nothing.

`tests/test_architecture.py` has the modules that may print otherwise.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message

_SPACES = "\t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What `str.isprintable` refuses though it only takes room."""

_INVISIBLE = lazy_regex(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What `str.isprintable` takes for visible though nothing is drawn: fillers, and selectors that can carry data."""

_NONCE = os.urandom(6).hex()

_MARKS = lazy_regex(f"\ufdd0{_NONCE}([0-9;]+)\ufdd1")
"""Where a style begins or ends: between two code points that are no characters, which `visible` escapes."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}

_LOG_COMMANDS = lazy_regex(r"^(\s*):(?=:)|#(?=#(?:\[|vso\[|teamcity\[))")
"""What a CI service takes for an order in the output of a step: `::error::` at the start of a line, `##[error]`,
`##vso[...]` and `##teamcity[...]` anywhere in it."""

CI_SERVICES = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")
"""Variables of the services that act on such orders."""

before_printing: Callable[[], None] | None = None
"""Called before anything is printed: `core/progress.py` sets it, and removes its line."""


def visible(text: str) -> str:
    """Return a text on one line, with all that is not drawn as itself written as an escape; tabs stay."""
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if character.isprintable():
        if character.isascii() or not _INVISIBLE.match(character):
            return character
    elif character in _SPACES:
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def style(text: str, *styles: str) -> str:
    """Return a text in bold, dim or a colour (`red`, `green`, `yellow`, `cyan`), for a terminal that shows it."""
    codes = ";".join(_CODES[name] for name in styles)
    return f"\ufdd0{_NONCE}{codes}\ufdd1{visible(text)}\ufdd0{_NONCE}0\ufdd1"


def unstyled(text: str) -> str:
    """Return a text without the marks of its styles, as wide as it is printed."""
    return _MARKS.sub("", text) if "\ufdd0" in text else text


def print_text(*lines: str, end: str = "\n") -> None:
    """Print lines for people to standard output; a line end within one is escaped, too."""
    _print(sys.stdout, lines, end)


def print_notice(*lines: str, end: str = "\n") -> None:
    """Print to standard error what is not the result, such as a warning or an error: lines, as `print_text` does."""
    _print(sys.stderr, lines, end)


def print_own_notice(message: Message) -> None:
    """Print to standard error what torchferry itself says, beside what the program prints."""
    print_notice(f"torchferry: {message}")


def print_own_lines(text: str) -> None:
    """Print to standard error what torchferry itself says in several lines, which are indented as they are to be."""
    first, *others = text.split("\n")
    print_notice(f"torchferry: {first}", *others)


def print_error(lines: Iterable[str]) -> None:
    """Print the lines of a `TorchferryError` to standard error: what is wrong, and below it what to do."""
    first, *others = [line for text in lines for line in text.strip().split("\n")]
    print_notice(f"torchferry: {first}", *(f"  {line}" for line in others))


def visible_text(lines: Iterable[str]) -> str:
    """Return lines as a text for a file that people read, escaped as `print_text` does."""
    return "".join(f"{_styled(line, False)}\n" for line in lines)


def print_data(data: bytes | str) -> None:
    """Print a result that programs read to standard output: into a pipe or a file byte for byte, text as UTF-8.

    On a terminal it is escaped as text is.
    """
    stream = _unprotected(sys.stdout)
    if stream is None:
        return
    if is_terminal(stream):
        text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
        _print(stream, [line.removesuffix("\r") for line in text.split("\n")], "")
        return
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    with _writing():
        stream.flush()  # what was printed as text comes first
        stream.buffer.write(data)
        stream.buffer.flush()


def is_coloured(stream: TextIO | None) -> bool:
    """Whether colours are shown on a stream: it is a terminal that is not dumb, or `FORCE_COLOR` asks for them.

    `NO_COLOR` refuses them anyhow (https://no-color.org, https://force-color.org).
    """
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR", "")
    if forced:
        return stream is not None and forced != "0"
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; one that is closed, or that a program put there, may be none."""
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False


def unescaped(stream: TextIO) -> TextIO:
    """Return the stream below a protected one, for a progress bar, which moves the cursor; its texts are `visible`."""
    below = _unprotected(stream)
    assert below is not None
    return below


class OutputError(OSError):
    """Standard output or standard error cannot be written: who read it has gone (`EPIPE`), or the disk is full."""


class ProtectedStream:
    """A text stream that escapes what is written to it: what click, the warnings and tracebacks of Python print.

    Everything else is that of the stream below it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unprotected = stream

    def write(self, text: str) -> int:
        """Write text, escaped."""
        coloured = is_coloured(self.unprotected)
        with _writing():
            _write(self.unprotected, "\n".join(_harmless(_styled(line, coloured)) for line in text.split("\n")))
        return len(text)

    def flush(self) -> None:
        """Write what is left in the buffers."""
        with _writing():
            self.unprotected.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unprotected, name)


def protect_streams() -> None:
    """Escape whatever this process prints as text, characters that the encoding lacks, too."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None or isinstance(stream, ProtectedStream):
            continue
        setattr(sys, name, ProtectedStream(stream))


def abandon_output() -> None:
    """Let nothing more be written to standard output, whose reader has gone or whose disk is full.

    Python writes what is left in its buffers when it ends, and would fail once more.
    """
    stream = _unprotected(sys.stdout)
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    if before_printing is not None:
        before_printing()
    try:
        yield
    except OSError as error:
        raise OutputError(error.errno, error.strerror) from None


def _unprotected(stream: TextIO | None) -> TextIO | None:
    return stream.unprotected if isinstance(stream, ProtectedStream) else stream


def _print(stream: TextIO | None, lines: Sequence[str], end: str) -> None:
    stream = _unprotected(stream)
    if stream is None:  # the command was started with it closed
        return
    coloured = is_coloured(stream)
    text = "\n".join(_harmless(_styled(line, coloured)) for line in lines) + end
    with _writing():
        _write(stream, text)
        stream.flush()


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # inside of a user's program, whose streams are left as they are
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _styled(line: str, coloured: bool) -> str:
    """Return a line escaped, with its styles as the sequences of a terminal or without them."""
    if "\ufdd0" not in line:
        return visible(line)
    pieces = _MARKS.split(line)  # by turns text and the codes of a style
    pieces[0::2] = map(visible, pieces[0::2])
    pieces[1::2] = [f"\x1b[{codes}m" if coloured else "" for codes in pieces[1::2]]
    return "".join(pieces)


def _harmless(line: str) -> str:
    """Return a line that gives no order to the CI service that reads it, if one does."""
    if not any(name in os.environ for name in CI_SERVICES):
        return line
    return _LOG_COMMANDS.sub(lambda match: (match[1] or "") + f"\\x{ord(match[0][-1]):02x}", line)
