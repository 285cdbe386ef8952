"""JSON text: written so that it is valid UTF-8 and shows what it holds, and read so that every fault is one error.

What others wrote is read by `parsed_json` alone. Python's own reader lets through what ends a program later: numbers
of any size, halves of characters, and text that is nested until the stack is full.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import isfinite
from typing import Any

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.terminal import visible

_HALF_CHARACTER = lazy_regex("[\ud800-\udc7f\udd00-\udfff]")
"""Halves of characters that are no byte of a file name: Python keeps such a byte as one of U+DC80 to U+DCFF."""

_MAY_BE_HALF = lazy_regex(r"\\u[dD][89a-fA-F]")

_LONG_NUMBER = lazy_regex(r"[0-9]{19}|[0-9][eE]\+?[0-9]{3}")
"""What every number has that does not fit into 64 bits."""

_SHOWN = 40


class JSONError(ValueError):
    """The text is not JSON, or holds what no document has; the message says what, and where it can be said."""


def json_text(document: Any, indent: int | None = 1, *, allow_nan: bool = True) -> str:
    """Return a value as JSON text with a line end behind it, as `visible_json` returns it."""
    return visible_json(json.dumps(document, ensure_ascii=False, indent=indent, allow_nan=allow_nan)) + "\n"


def visible_json(text: str) -> str:
    """Return JSON text in which all that is not drawn as itself is escaped, and with it the bytes that are no UTF-8.

    Outside of its strings JSON has none of that but line ends, so the value is the same.
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "\n".join(line if visible(line) == line else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(character: str) -> str:
    return character if visible(character) == character else json.dumps(character)[1:-1]


def whole_characters(text: str) -> str:
    """Return a text with halves of characters, which no file and no terminal can hold, replaced."""
    return _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def parsed_json(
    text: str | bytes,
    *,
    parse_constant: Callable[[str], Any] | None = None,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """Return what JSON text says.

    Args:
        text: The text, or its bytes.
        parse_constant: As that of `json.loads`: what `NaN` and the infinities are; it may raise ValueError.
        object_pairs_hook: As that of `json.loads`: makes an object of its names and values; it may raise ValueError.

    Raises:
        JSONError: it is no JSON, is nested too deeply, or has a number beyond 64 bits or half a character.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text))
        is_long = _LONG_NUMBER.search(text) is not None
        document = json.loads(
            text,
            parse_constant=parse_constant,
            object_pairs_hook=object_pairs_hook,
            parse_int=_integer if is_long else None,
            parse_float=_real if is_long else None,
        )
    except RecursionError:
        raise JSONError("it is nested too deeply") from None
    except JSONError:
        raise
    except ValueError as error:
        raise JSONError(str(error)) from None
    if _MAY_BE_HALF.search(text) or _HALF_CHARACTER.search(text):
        _refuse_half_characters(document)
    return document


def _integer(digits: str) -> int:
    number = int(digits) if len(digits) <= len(str(-(2**63))) else 2**64
    if not -(2**63) <= number < 2**64:
        raise JSONError(f"a number does not fit into 64 bits: {_cut(digits)}")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise JSONError(f"a number does not fit into 64 bits: {_cut(digits)}")
    return number


def _refuse_half_characters(document: object) -> None:
    waiting: list[tuple[object, str]] = [(document, "$")]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, str):
            if _HALF_CHARACTER.search(value):
                raise JSONError(f"half a character (a lone surrogate) in {_cut(_HALF_CHARACTER.sub('?', place))}")
        elif isinstance(value, dict):
            waiting += [(key, place) for key in value]
            waiting += [(part, f"{place}.{_cut(key)}") for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(part, f"{place}[{number}]") for number, part in enumerate(value)]


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
