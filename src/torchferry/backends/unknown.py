"""UNKNOWN: the value of a fact that nobody has verified, so that nothing can take it for an answer."""

from __future__ import annotations

from typing import NoReturn


class Unknown:
    """The type of `UNKNOWN`. It has no truth value: code must ask `is UNKNOWN` and say so to the user."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> NoReturn:
        raise TypeError("UNKNOWN is neither true nor false; test `value is UNKNOWN` and tell the user")

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()
"""The one instance; it stays the same object through copying and pickling."""
