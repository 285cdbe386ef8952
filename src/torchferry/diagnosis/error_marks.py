"""Lines that are marked as errors, whatever they say: a log with such lines is no log without a failure."""

from __future__ import annotations

from torchferry.core.lazy_regex import lazy_regex

_LEVELS = ("ERROR", "FATAL", "CRITICAL")

MARKS = frozenset({
    *_LEVELS, "error: ", "Check failed: ", "Segmentation fault", "undefined reference to", "ld returned ",
    "[F ", ": *** ", "build stopped",
})  # fmt: skip
"""Texts of which a marked line has one; most lines with one are not marked."""

_BOUND = r"(?=[\s\]):|>,]|$)"

_MARKED = lazy_regex(
    # a level: `2026-11-26 10:00:00 - ERROR - ...`, `[ERROR] ...`, `ERROR:root:...`, `[ERROR|trainer.py:10] ...`
    r"(?:^|[\s\[(|<])(?:ERROR|FATAL|CRITICAL)" + _BOUND +
    # Paddle's fatal lines: `[F 11/26 10:00:00.1 ...`
    r"|^\[F\s+\d"
    # compilers, linkers and make
    r"|(?:^|: |\s)(?:fatal )?error: (?!\s*[-+]?[\d.]|nan\b|inf\b|none\b)|undefined reference to|ld returned [1-9]"
    r"|^(?:g?make|gmake)(?:\[\d+\])?: \*\*\* |^ninja: build stopped"
    # a stack's own prefix: `CANN error: EZ9903: ...`, metrics such as `MSE error: 0.1` have a number
    r"|\b[A-Z]{3,6} error: (?!\s*[-+]?[\d.])"
    r"|\bCheck failed: |\bSegmentation fault\b"
)

_SETTING = lazy_regex(r"(?i:level|verbosity|severity|threshold|handler|\bno|\b0|=|\bor|\band|,)\W{0,4}$")
"""What precedes the name of a level that is a setting or a count: `log level: ERROR`, `0 ERROR`."""

_COUNT = lazy_regex(r"\s*[:=]\s*\d+\b(?!\D*\w{4})")
"""What follows a level that is counted: `ERROR: 0`."""


def is_marked(line: str) -> bool:
    """Return whether a line is marked as an error: by its level, or in the form of a compiler, linker or stack.

    Args:
        line: The line, without terminal escapes.
    """
    for match in _MARKED.finditer(line):
        level = match[0].lstrip(" \t[(|<")
        if level not in _LEVELS:
            return True
        if not _SETTING.search(line[max(0, match.start() - 24) : match.end() - len(level)]) and not _COUNT.match(
            line, match.end()
        ):
            return True
    return False
