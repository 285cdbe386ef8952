"""What the values of a trace mean, whichever file they stand in: times, numbers, and what a kernel does by its name."""

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


def nanoseconds(value: object) -> int | None:
    """Return a time in nanoseconds from one in microseconds: a number, or a text where a number would lose digits."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value * 1000
    if isinstance(value, float):
        return round(value * 1000) if -1e18 < value < 1e18 else None
    if isinstance(value, str):
        match = _DECIMAL.fullmatch(value.strip())
        if match is None:
            return None
        digits = (match[3] or "")[:3].ljust(3, "0")
        time = int(match[2]) * 1000 + int(digits)
        return -time if match[1] else time
    return None


_DECIMAL = re.compile(r"(-?)(\d{1,20})(?:\.(\d{0,20}))?", re.ASCII)


def number(value: object, default: int = -1) -> int:
    """Return a whole number from one, or from a text, decimal or with `0x`; the default where there is none."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and -1e18 < value < 1e18:
        return int(value)
    if isinstance(value, str):
        try:
            return int(value[:32], 0)
        except ValueError:
            return default
    return default
