"""Comments by which the user says that a finding is known: `# torchferry: ignore[DEV101] reason`.

Such a comment speaks for its own line, or for the next one when it is on its own line. The form
`# torchferry: ignore-file[DEV101] reason` speaks for the whole file. Without codes it speaks for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from torchferry.core.budget import spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.source.text import SourceText

_COMMENT = lazy_regex(
    r"(?:#|//|<!--)[ \t]*torchferry:[ \t]*(?P<what>ignore(?:-file)?)[ \t]*(?:\[(?P<codes>[^\[\]\r\n]*)\])?"
)


class Suppression(NamedTuple):
    """One such comment.

    Attributes:
        line: The line that it speaks for; 0 for the whole file.
        start: Offset of the comment.
        end: Offset of its end.
        codes: Codes, or families such as `DEV`, that it names; empty for all.
    """

    line: int
    start: int
    end: int
    codes: frozenset[str]

    def covers(self, code: str, first: int, last: int) -> bool:
        """Whether it speaks for a finding of `code` on lines `first` to `last`."""
        if self.line and not first <= self.line <= last:
            return False
        return not self.codes or any(code.startswith(prefix) for prefix in self.codes)


class Suppressions:
    """The suppressing comments of a file, to be asked for those that speak for a place."""

    def __init__(self, comments: Iterable[Suppression]) -> None:
        self.all = sorted(comments)
        self._lines = [comment.line for comment in self.all]  # those for the whole file come first, with line 0

    def covering(self, code: str, first: int, last: int) -> list[Suppression]:
        """Return the comments that speak for a finding of `code` on lines `first` to `last`."""
        of_file = self.all[: bisect_right(self._lines, 0)]
        of_lines = self.all[bisect_left(self._lines, max(first, 1)) : bisect_right(self._lines, last)]
        spend(len(of_file) + len(of_lines))
        return [comment for comment in (*of_file, *of_lines) if comment.covers(code, first, last)]


def suppressions(source: SourceText) -> list[Suppression]:
    """Return the suppressing comments of a file."""
    text = source.text
    if "torchferry:" not in text:
        return []
    comments = []
    for match in _COMMENT.finditer(text):
        line, column = source.position(match.start())
        codes = frozenset(code.strip() for code in (match["codes"] or "").split(",") if code.strip())
        if match["what"] == "ignore-file":
            line = 0
        elif not text[match.start() - column + 1 : match.start()].strip():
            line += 1
        comments.append(Suppression(line, match.start(), match.end(), codes))
    return comments
