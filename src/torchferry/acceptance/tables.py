"""Tables of a TOML file checked against their shape; each error has the line, and the nearest name that exists."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from torchferry.acceptance.units import duration, size, words
from torchferry.core import toml
from torchferry.core.errors import UsageError
from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.messages import Message, say, translatable

_HEADER = re.compile(r"\s*\[(\[)?([^\]]+)\](?(1)\])\s*(?:#.*)?\Z")
_KEY = re.compile(r"\s*((?:\"[^\"]*\"|[\w.-]+)+)\s*=")


class ValueKind(Enum):
    """What a value is, in the words of an error."""

    TEXT = translatable("a string")
    NUMBER = translatable("a number")
    FILLED_NUMBER = translatable("a number that has been filled in")
    WHOLE = translatable("an integer of 0 or more")
    TRUTH = translatable("true or false")
    DATE = translatable("a date, such as 2026-01-31")
    TEXTS = translatable("a list of strings")
    NAMED_TEXTS = translatable("a table of strings")
    COMMAND = translatable("a command: a string without shell syntax such as `|` or `>`, or a list of words")
    DURATION = translatable('a time above 0: seconds, or a string such as "30 min" or "2h"')
    SIZE = translatable('a size: bytes, or a string such as "1 MiB"')
    INSIDE = translatable("a relative path inside the project, without `..`")
    PATTERN = translatable("a regular expression with a group (?P<value>...)")
    PATTERNS = translatable("a table of regular expressions")


@dataclass(frozen=True)
class Choice:
    """One of some texts, or a list of them."""

    of: Sequence[str]
    several: bool = False


@dataclass(frozen=True)
class Shape:
    """The keys of a table, those of them that must be there, and whether it is a list of such tables."""

    keys: Mapping[str, ValueKind | Choice | Shape]
    needed: tuple[str, ...] = ()
    several: bool = False

    def many(self) -> Shape:
        """Return the shape of a list of such tables."""
        return replace(self, several=True)


class CheckedFile:
    """Reads a file and says what is wrong in it, with the line.

    Raises:
        UsageError: the file cannot be read, or is not TOML.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._text = read_text(path, LARGEST_SETTINGS)
            self.document = toml.loads(self._text)
        except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(say("{path} is not TOML: {error}", path=path, error=error)) from None
        except OSError as error:
            raise UsageError(say("{path} cannot be read: {error}", path=path, error=error.strerror or error)) from None
        self._lines = _lines_of(self._text)

    def checked(self, shape: Shape) -> dict[str, Any]:
        """Return the document, which has this shape.

        Raises:
            UsageError: it has not.
        """
        self._table("", self.document, shape)
        return self.document

    def placed(self, key: str, message: Message) -> Message:
        """Return a message with the line of a key, such as `baseline.metrics[0].value`, in front."""
        line = 0
        while key and not line:
            line = self._lines.get(key, 0)
            key = key[: key.rfind("[")] if key.endswith("]") else key.rpartition(".")[0]
        return say("{path}:{line}: {message}", path=self._path, line=line or 1, message=message)

    def error(self, key: str, message: Message, advice: Message | None = None) -> UsageError:
        """Return the error for a key."""
        return UsageError(self.placed(key, message), advice)

    def _table(self, at: str, table: Mapping[str, Any], shape: Shape) -> None:
        for name, value in table.items():
            key = f"{at}.{name}" if at else name
            kind = shape.keys.get(name)
            if kind is None:
                raise self._unknown(key, name, shape.keys, at)
            if isinstance(kind, Shape):
                self._inner(key, value, kind)
            elif isinstance(kind, Choice):
                self._choice(key, value, kind)
            elif kind is ValueKind.FILLED_NUMBER and value == "":
                raise self.error(
                    key,
                    say("`{key}` is empty: fill in a number", key=key),
                    say(
                        "of a metric it is how much worse a healthy run may be: the difference of two runs on CUDA, or "
                        "what the project asks for"
                    ),
                )
            elif not _fits(value, kind):
                raise self.error(
                    key,
                    say("`{key}` is {value}; it must be {kind}", key=key, value=repr(value)[:80], kind=say(kind.value)),
                )
        for name in shape.needed:
            if name not in table:
                raise self.error(
                    at,
                    say("`{key}` is missing in [{table}]", key=name, table=at)
                    if at
                    else say("`{key}` is missing", key=name),
                )

    def _inner(self, key: str, value: Any, shape: Shape) -> None:
        entries = value if shape.several else [value]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.error(
                key,
                say("`{key}` must be a list of tables: write [[{key}]]", key=key)
                if shape.several
                else say("`{key}` must be a table: write [{key}]", key=key),
            )
        for number, entry in enumerate(entries):
            self._table(f"{key}[{number}]" if shape.several else key, entry, shape)

    def _choice(self, key: str, value: Any, kind: Choice) -> None:
        for entry in value if kind.several and isinstance(value, list) else [value]:
            if entry not in kind.of:
                names = ", ".join(f'"{name}"' for name in kind.of if name)
                raise self.error(
                    key,
                    say("`{key}` is {value}, not one of {names}", key=key, value=repr(value)[:80], names=names),
                )

    def _unknown(self, key: str, name: str, names: Iterable[str], at: str) -> UsageError:
        close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
        listed = ", ".join(names)
        advice = say("known: {names}", names=listed)
        if close:
            advice = say("did you mean `{close}`? (known: {names})", close=close[0], names=listed)
        return self.error(
            key,
            say("unknown setting `{name}` in [{table}]", name=name, table=at)
            if at
            else say("unknown setting `{name}`", name=name),
            advice,
        )


def _fits(value: Any, kind: ValueKind) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (ValueKind.NUMBER, ValueKind.FILLED_NUMBER):
        return number and math.isfinite(value)
    if kind is ValueKind.WHOLE:
        return number and isinstance(value, int) and value >= 0
    if kind is ValueKind.TRUTH:
        return isinstance(value, bool)
    if kind is ValueKind.DATE:
        return isinstance(value, date) or (
            isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None
        )
    if kind is ValueKind.TEXTS:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if kind is ValueKind.NAMED_TEXTS:
        return isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())
    if kind is ValueKind.PATTERNS:
        return isinstance(value, dict) and bool(value) and all(_is_pattern(entry) for entry in value.values())
    if kind is ValueKind.COMMAND:
        return _is_command(value)
    if kind in (ValueKind.DURATION, ValueKind.SIZE):
        read = duration if kind is ValueKind.DURATION else size
        try:
            return (number or isinstance(value, str)) and read(str(value)) >= 0
        except ValueError:
            return False
    if not isinstance(value, str):
        return False
    if kind is ValueKind.INSIDE:
        path = PurePosixPath(value)
        return not path.is_absolute() and ".." not in path.parts and "\0" not in value
    if kind is ValueKind.PATTERN:
        return _is_pattern(value) and "value" in re.compile(value).groupindex
    return True


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and re.compile(value) is not None
    except (re.error, RecursionError, OverflowError):
        return False


def _is_command(value: Any) -> bool:
    if not isinstance(value, str) and not (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return False
    try:
        return all("\0" not in word for word in words(value))
    except ValueError:
        return False


def _lines_of(text: str) -> dict[str, int]:
    """Return the line of each key, by the key with the tables around it; the last of several."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    at = ""
    for number, line in enumerate(text.split("\n"), 1):
        header = _HEADER.match(line)
        if header is not None:
            at = header[2].strip().replace('"', "").replace(" ", "")
            if header[1]:
                counts[at] = counts.get(at, -1) + 1
                found.setdefault(at, number)
                at = f"{at}[{counts[at]}]"
            found[at] = number
            continue
        key = _KEY.match(line)
        if key is not None:
            name = key[1].replace('"', "")
            found.setdefault(f"{at}.{name}" if at else name, number)
    return found
