"""Regular expressions that are compiled when they are first used.

The modules of the rules hold some hundreds. Compiling them all takes longer than reading a small project, and most
projects need few.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what is used as `re.compile(pattern, flags)` is; a wrong pattern raises at its first use."""
    return cast("re.Pattern[AnyStr]", LazyRegex(pattern, flags))


class LazyRegex:
    """A regular expression not compiled yet: what is asked of it is asked of the compiled one, and then kept here."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.compiled(), name)
        setattr(self, name, value)
        return value

    @property
    def pattern(self) -> str | bytes:
        """The expression as it is written, which larger ones are made of."""
        return self._source[0]

    def compiled(self) -> re.Pattern[Any]:
        """Return the compiled expression."""
        pattern_object = self.__dict__.get("_compiled")
        if pattern_object is None:
            pattern, flags = self._source
            pattern_object = self._compiled = re.compile(pattern, flags)
        return cast("re.Pattern[Any]", pattern_object)
