"""Decisions that edits leave unanswered: a rename settles nothing that a person has to decide."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from torchferry.core.finding import LINK, Edit, Finding, Grade
from torchferry.rules.base import Context


def unanswered_decisions(
    before: Iterable[Finding], after: Iterable[Finding], edits: Iterable[Edit], old: Context, new: Context
) -> Iterator[Finding]:
    """Yield the decisions of a text that are not found in the edited one although no edit has answered them.

    An edit answers a decision when it replaces the whole place that the decision is about. Otherwise the place is still
    there under another spelling, and so is the decision; it is given its new place.

    Args:
        before: The findings in the text as it was.
        after: Those in the edited text.
        edits: The edits, in offsets of the old text; none overlap.
        old: The file as it was.
        new: The edited file.
    """
    decisions = [finding for finding in before if finding.grade is Grade.MANUAL and finding.message is not LINK]
    if not decisions:
        return
    moves = _Moves(sorted(set(edits)))
    spans: dict[str, list[tuple[int, int]]] = {}
    for finding in after:
        if finding.grade is not Grade.NOTE:
            spans.setdefault(finding.code, []).append(new.source.span(finding.location))
    for finding in decisions:
        start, end = old.source.span(finding.location)
        if moves.replaces(start, end):
            continue
        start, end = moves.of_start(start), moves.of_end(end)
        if any(start <= other_end and other_start <= end for other_start, other_end in spans.get(finding.code, ())):
            continue
        yield finding._replace(location=new.location(start, end), snippet=new.snippet(start, end))


class _Moves:
    """Where offsets of a text are in the edited one."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = edits
        self.starts = [edit.start for edit in edits]
        self.shifts = [0, *accumulate(len(edit.text) - (edit.end - edit.start) for edit in edits)]

    def replaces(self, start: int, end: int) -> bool:
        """Whether one edit replaces all that is between two offsets."""
        number = bisect_right(self.starts, start)
        return number > 0 and start < end <= self.edits[number - 1].end

    def of_start(self, offset: int) -> int:
        """Return where a place begins: at the beginning of an edit in which it began, behind one that inserts."""
        number = bisect_right(self.starts, offset)
        if number and offset < self.edits[number - 1].end:
            number, offset = number - 1, self.edits[number - 1].start
        return offset + self.shifts[number]

    def of_end(self, offset: int) -> int:
        """Return where a place ends: at the end of an edit in which it ended."""
        number = bisect_right(self.starts, offset - 1)
        if number and offset <= self.edits[number - 1].end:
            offset = self.edits[number - 1].end
        return offset + self.shifts[number]
