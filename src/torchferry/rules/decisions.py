"""What people decided about places, and what edits leave of findings: a rename settles no decision."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice

from torchferry.core.finding import LINK, Edit, Finding, Grade, Stage
from torchferry.core.messages import say
from torchferry.core.recorded_decisions import ACCEPT, FIX, RecordedDecision
from torchferry.rules.base import Context

_Span = tuple[int, int]


def is_decided_by(finding: Finding, choice: str) -> bool:
    """Whether a choice of a person, `accept` or `fix`, settles what was found at a place.

    What the target lacks and what blocks stays: nobody can decide that it is there. Nor can anybody decide about what
    has no anchor: it is no place of code, but a file that was not examined.
    """
    if finding.grade not in (Grade.MANUAL, Grade.UNSAFE) or finding.lacks or finding.blocker or not finding.anchor.text:
        return False
    return choice == ACCEPT or bool(finding.edits)


def decided(finding: Finding, decisions: Iterable[RecordedDecision]) -> Finding:
    """Return a finding with what was decided about its place: a note on what stays, or a fix that is safe."""
    place = finding.location.path, finding.code, finding.anchor
    decision = next((each for each in decisions if each.holds_for(*place)), None)
    if decision is None or not is_decided_by(finding, decision.choice):
        return finding
    reason = decision.why or decision.choice
    message = say("{message} (decided by {name}: {why})", message=finding.message, name=decision.by, why=reason)
    grade = Grade.SAFE if decision.choice == FIX else Grade.NOTE
    return finding.regraded(Stage.DECIDED, grade, message)._replace(decided_by=decision.by)


def carried_over(
    before: Iterable[Finding], after: Sequence[Finding], edits: Iterable[Edit], old: Context, new: Context
) -> list[Finding]:
    """Return the findings of an edited text in order of position: those found in it, and the unanswered decisions.

    What was found at a place before keeps the anchor that it had, and knows where it was. An edit answers a decision
    when it replaces the whole place that the decision is about. Otherwise the place is still there under another
    spelling, and so is the decision, also where no rule finds it; it is given its new place.

    Args:
        before: The findings in the text as it was.
        after: Those in the edited text.
        edits: The edits, in offsets of the old text; none overlap.
        old: The file as it was.
        new: The edited file.
    """
    moves = _Moves(sorted(set(edits)))
    places = _PlacesByRule([(finding, new.source.span(finding.location)) for finding in after])
    findings = list(after)
    earlier = [finding for finding in before if finding.message is not LINK]
    spans = [old.source.span(finding.location) for finding in earlier]
    moved = [(moves.of_start(start), moves.of_end(end)) for start, end in spans]
    taken: dict[int, int] = {}
    # what says the same first, then decisions, and last what may be behind other words now
    for says_same, only_decisions in ((True, False), (False, True), (False, False)):
        for index, finding in enumerate(earlier):
            is_decision = finding.grade is Grade.MANUAL
            if index in taken or (only_decisions and not is_decision):
                continue
            text = finding.anchor.text if says_same else None
            number = places.take(finding.code, moved[index], and_notes=not is_decision, text=text)
            if number is not None:
                taken[index] = number
    for index, finding in enumerate(earlier):
        origin = finding.location if finding.origin is None else finding.origin
        if index in taken:
            after_it = findings[taken[index]]._replace(anchor=finding.anchor, origin=origin)
            findings[taken[index]] = _still_decided(after_it, finding)
        elif finding.grade is Grade.MANUAL and not moves.replaces(*spans[index]):
            place = moved[index]
            if not places.has(finding.code, place):
                findings.append(
                    finding._replace(location=new.location(*place), snippet=new.snippet(*place), origin=origin)
                )
    return sorted(findings, key=lambda finding: finding.location.order)


def _still_decided(after: Finding, before: Finding) -> Finding:
    """Return a finding in an edited text with what a person has decided about its place in the old one."""
    if not before.is_accepted or after.grade not in (Grade.MANUAL, Grade.UNSAFE):
        return after
    decided = after.regraded(Stage.DECIDED, Grade.NOTE, before.message)
    return decided._replace(decided_by=before.decided_by)


class _PlacesByRule:
    """The places of findings by their rules; each is taken once.

    Those of a rule are sorted by where they begin, apart for each binary length: so a long place does not make every
    search look through all the short ones.
    """

    def __init__(self, findings: Iterable[tuple[Finding, _Span]]) -> None:
        self._by_code: dict[str, dict[int, list[tuple[_Span, int, bool]]]] = {}
        self._taken: set[int] = set()
        self._texts: list[str] = []
        for number, (finding, span) in enumerate(findings):
            self._texts.append(finding.anchor.text)
            by_length = self._by_code.setdefault(finding.code, {})
            place = span, number, finding.grade is Grade.NOTE
            by_length.setdefault((span[1] - span[0]).bit_length(), []).append(place)
        for by_length in self._by_code.values():
            for places in by_length.values():
                places.sort()

    def take(self, code: str, span: _Span, and_notes: bool, text: str | None = None) -> int | None:
        """Return the number of a finding at a place that nobody took, best one with the same ends; None for none.

        Args:
            code: The rule.
            span: The place.
            and_notes: Whether a note will do.
            text: What the text of its anchor has to be; None for any.
        """
        best: tuple[bool, int] | None = None
        for place, number, is_note in self._at(code, span):
            if number not in self._taken and (and_notes or not is_note) and text in (None, self._texts[number]):
                candidate = place != span, number
                best = candidate if best is None else min(best, candidate)
        if best is None:
            return None
        self._taken.add(best[1])
        return best[1]

    def has(self, code: str, span: _Span) -> bool:
        """Whether a finding that is more than a note is at a place, whoever took it."""
        return any(not is_note for _, _, is_note in self._at(code, span))

    def _at(self, code: str, span: _Span) -> Iterator[tuple[_Span, int, bool]]:
        start, end = span
        for bits, places in self._by_code.get(code, {}).items():
            first = bisect_left(places, ((start - (1 << bits), 0), 0, False))
            for place in islice(places, first, None):
                if place[0][0] > end:
                    break
                if start <= place[0][1]:
                    yield place


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
