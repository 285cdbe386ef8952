"""The values of a JSON text with their places in it, without building the document.

Works on any text: where it is not JSON, `NotJsonError` says what was wrong and where. Duplicate keys are yielded as
often as they are there.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]

from torchferry.core.budget import DEEPEST, refuse_nesting, spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_scan = json.JSONDecoder(strict=False, parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]
_OPENING = frozenset({"{", "["})
_SPACE = lazy_regex(r"[ \t\r\n]*")
_SCALAR = lazy_regex(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity")


class NotJsonError(ValueError):
    """The text is not JSON; `offset` is where that shows."""

    def __init__(self, why: str, offset: int) -> None:
        super().__init__(why)
        self.offset = offset


class JsonValue(NamedTuple):
    """One string, number, `true`, `false` or `null`.

    Attributes:
        path: The keys and indices that lead to it, outermost first.
        value: The string; for anything else its text.
        start: Offset of its first character, for a string the opening quote.
        end: Offset behind its last character.
        is_string: Whether it is a string.
    """

    path: tuple[str | int, ...]
    value: str
    start: int
    end: int
    is_string: bool


def values(text: str, wanted: Callable[[list[str | int]], bool] | None = None) -> Iterator[JsonValue]:
    """Yield the scalar values of a JSON text, in order of place.

    Args:
        text: The text.
        wanted: Whether values are wanted of the object or array that these keys and indices lead to, outermost first;
            what is in others is read, but not yielded. None for all.

    Raises:
        NotJsonError: the text is not JSON; what came before was yielded.
    """
    keys: list[str | int] = []  # of the objects and arrays that are open: the key or index of the value to come
    at = _skip(text, 0)
    while True:
        # a value begins at `at`
        char = text[at : at + 1]
        end = _behind(text, at, len(keys)) if wanted is not None and char in _OPENING and not wanted(keys) else -1
        if end >= 0:
            at = end
        elif char in ("{", "["):
            at = _skip(text, at + 1)
            closing = "}" if char == "{" else "]"
            if not text.startswith(closing, at):
                keys.append("" if char == "{" else 0)
                if len(keys) > DEEPEST:
                    refuse_nesting()
                    raise NotJsonError("nested too deeply", at)
                at = _key(text, at, keys)
                continue
            at += 1
        elif char == '"':
            value, end = _string(text, at)
            spend(len(keys))
            yield JsonValue(tuple(keys), value, at, end, True)
            at = end
        else:
            match = _SCALAR.match(text, at)
            if match is None:
                raise NotJsonError("a value was expected", at)
            spend(len(keys))
            yield JsonValue(tuple(keys), match.group(), at, match.end(), False)
            at = match.end()
        # a value has ended: close what ends with it
        while keys:
            at = _skip(text, at)
            key = keys[-1]
            if text.startswith(",", at):
                if isinstance(key, int):
                    keys[-1] = key + 1
                at = _key(text, _skip(text, at + 1), keys)
                break
            if not text.startswith("}" if isinstance(key, str) else "]", at):
                raise NotJsonError("`,` or a closing bracket was expected", at)
            at += 1
            keys.pop()
        if not keys:
            at = _skip(text, at)
            if at < len(text):
                raise NotJsonError("text behind the end of the document", at)
            return


def _behind(text: str, at: int, depth: int) -> int:
    """Return the offset behind an object or array, read by Python's own reader, which is C; -1 where that cannot tell.

    It cannot where the text is not JSON, which is to be said in our words, or may be nested too deeply.
    """
    try:
        _, end = _scan(text, at)
    except (StopIteration, ValueError, RecursionError):
        return -1
    return end if depth + text.count("{", at, end) + text.count("[", at, end) <= DEEPEST else -1


def _key(text: str, at: int, keys: list[str | int]) -> int:
    """Read `"key":` where the innermost level is an object; return where its value begins."""
    if isinstance(keys[-1], int):
        return at
    if not text.startswith('"', at):
        raise NotJsonError("a key was expected", at)
    keys[-1], at = _string(text, at)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise NotJsonError("`:` was expected", at)
    return _skip(text, at + 1)


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = scanstring(text, at + 1, False)
    except JSONDecodeError as error:
        raise NotJsonError(error.msg, error.pos) from None
    return value, end


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


_ESCAPE = lazy_regex(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)


class RawString:
    """A string of a JSON text, and where each of its characters is there.

    Args:
        text: The JSON text.
        start: Where the opening quote of the string stands.
    """

    def __init__(self, text: str, start: int) -> None:
        self._begin = start + 1
        self._escaped: list[int] = []  # the characters that are written as escapes, by their number
        self._longer = [0]  # how much longer these and those before them are in the text
        quote = text.find('"', self._begin)
        for match in _ESCAPE.finditer(text, self._begin):
            if 0 <= quote < match.start():
                break
            self._escaped.append(match.start() - self._begin - self._longer[-1])
            self._longer.append(self._longer[-1] + match.end() - match.start() - 1)
            if quote < match.end():
                quote = text.find('"', match.end())

    def offset(self, index: int) -> int:
        """Return where a character of the string is in the text."""
        return self._begin + index + self._longer[bisect_left(self._escaped, index)]
