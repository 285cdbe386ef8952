"""What the values of a trace mean, whichever file they are in: times, numbers, and what a kernel does by its name."""

from __future__ import annotations

import re

from torchferry.profiling.records import COMMUNICATION, COMPUTE, COPY, FILL


def kind_by_name(name: str, communication: re.Pattern[str]) -> str:
    """Return what a row of the device is, in a layout that tells it by the name alone."""
    word = name.lower()
    if communication.search(word):
        return COMMUNICATION
    if word.startswith("memcpy"):
        return COPY
    if word.startswith("memset"):
        return FILL
    return COMPUTE


_TIME_LIMIT = 1 << 63
_NUMBER_LIMIT = 1 << 64
"""Profilers keep times in signed numbers of 64 bits, sizes and identifiers in 64 bits with or without a sign."""


def nanoseconds(value: object) -> int | None:
    """Return a time in nanoseconds from one in microseconds: a number, or a text where a number would lose digits.

    None for anything else, and for a time that does not fit into 64 bits.
    """
    time = None
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        time = value * 1000
    elif isinstance(value, float) and is_time(value * 1000):
        time = round(value * 1000)
    elif isinstance(value, str) and (match := _DECIMAL.fullmatch(value.strip())) is not None:
        digits = (match[3] or "")[:3].ljust(3, "0")
        time = int(match[2]) * 1000 + int(digits)
        time = -time if match[1] else time
    return time if time is not None and is_time(time) else None


def is_time(nanoseconds: float) -> bool:
    """Return whether a profiler can have such a time."""
    return -_TIME_LIMIT < nanoseconds < _TIME_LIMIT


_LONGEST_NUMBER = 32
"""Characters of a number that is written as text."""

_DECIMAL = re.compile(r"(-?)(\d{1,20})(?:\.(\d{0,20}))?", re.ASCII)


def number(value: object, default: int = -1) -> int:
    """Return a whole number from one, or from a text, decimal or with `0x`; the default where there is none.

    A number that does not fit into 64 bits is none.
    """
    found = None
    if isinstance(value, int) or (isinstance(value, float) and -_NUMBER_LIMIT < value < _NUMBER_LIMIT):
        found = int(value)
    elif isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            found = int(value, 0)
        except ValueError:
            return default
    return found if found is not None and -_NUMBER_LIMIT < found < _NUMBER_LIMIT else default


def is_no_number(value: object) -> bool:
    """Return whether a value is where a number belongs and can be none: a list, an object, or beyond 64 bits.

    Texts are not counted: profilers name threads and devices by them.
    """
    if isinstance(value, (int, float)):
        return not -_NUMBER_LIMIT < value < _NUMBER_LIMIT
    return isinstance(value, (list, dict))
