"""A report as text to act on: a first screen with the verdict and what to decide first, then each thing once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.finding import Grade
from torchferry.core.messages import Message, display_width, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.programs.model import Judged, Need, Obstacle, Verdict
from torchferry.report.decisions import Decisions, ReportedDecision, effect_words, slug
from torchferry.report.first_screen import FEW, first_decisions, most_first, next_commands, program_counts
from torchferry.report.full_format import (
    by_file,
    failure_lines,
    head_lines,
    mention_lines,
    package_lines,
    unlooked_lines,
)
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.programs import (
    VERDICT_GRADES,
    WORST_FIRST,
    circumstance_of,
    names_of,
    settled_lines,
    source_of,
    steps_of,
    verdict_of,
)
from torchferry.report.text_layout import LONGEST, TextLayout, as_many, cut, some_of

SCREEN = 24
"""Lines of a screen; at the end of a longer report its verdict stands once more."""

_LONGEST_ID = 60

_MOST_PLACES = 3
_MOST_NAMES = 3
_MOST_DECISIONS = 8
_MOST_FIXES = 4
"""Decisions, and fixes to read, that are told with their texts; of the others the ids are named."""

_MOST_IDS = 60
_MOST_TEXT = 2
"""Lines that the text of a decision takes; `torchferry show` has all of it."""

_MOST_UNREAD = 8
_MOST_STEPS = 3
_MOST_REASONS = 4
"""Reasons below programs that share them."""


def render(report: Report, lang: str) -> str:
    """Return the report as plain text."""
    return "".join(f"{line}\n" for line in lines(report, TextLayout(lang)))


def lines(report: Report, layout: TextLayout, paths: Sequence[str] = (".",)) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        report: The report.
        layout: How they are written.
        paths: What was named on the command line.
    """
    verdict = verdict_sentence(report).render(layout.lang)
    wrapped = layout._replace(width=layout.width if layout.is_terminal else LONGEST).wrapped(verdict, "")
    painted = [layout.paint(line, "verdict") for line in wrapped]
    yield from painted
    count = 0
    for line in _below_verdict(report, layout, paths, SCREEN - len(painted)):
        yield line
        count += 1
    if count > SCREEN:
        yield ""
        yield from painted


def _below_verdict(report: Report, layout: TextLayout, paths: Sequence[str], room: int) -> Iterator[str]:
    """Yield all lines but those of the verdict; `room` is how many of them a first screen has."""
    lang, paint, verbose, *_ = layout
    decisions = report.decisions
    head = [*head_lines(report, lang), *program_counts(report, layout)]
    first = decisions.first(most_first(room - len(head)))
    yield from head
    yield from first_decisions(report, first, layout)
    yield from next_commands(report, first, paths, lang)
    if verbose or len(report.programs) < FEW:
        yield from _programs(report, decisions, layout)
    yield from unresolved_lines(report, layout)
    yield from decision_lines(decisions.to_decide, layout)
    yield from fix_lines(decisions.to_read, layout)
    yield from accepted_lines(report, layout)
    yield from _left_alone(report, lang)
    if report.native is not None:
        from torchferry.report.native import native_lines  # imported late: most projects have no C++

        yield ""
        yield from native_lines(report.native, lang, verbose)
    yield from package_lines(report, lang, paint)
    yield from unlooked_lines(report, lang, paint)
    if verbose:
        yield from by_file(report.findings, lang, paint, verbose)
    if verbose and report.words.staying:
        yield ""
        yield from mention_lines(report, lang)
    yield from failure_lines(report, lang)


def _programs(report: Report, decisions: Decisions, layout: TextLayout) -> Iterator[str]:
    """Yield the programs, those together that share a verdict and its reasons, behind an empty line."""
    if not report.programs:
        return
    groups: defaultdict[object, list[Judged]] = defaultdict(list)
    for judged in report.programs:
        lacking = tuple(frozenset(each.what for each in some) for some in (judged.blockers, judged.undecided))
        waits = decisions.of_program.get(judged.program.title, ())
        unread = tuple(each.place for each in judged.unread)
        run = None if judged.settled is None else judged.program.title
        accepted = tuple(each.by for each in judged.accepted)
        groups[judged.verdict, lacking, waits, judged.carriers, accepted, unread, run].append(judged)
    ordered = sorted(groups.values(), key=lambda group: WORST_FIRST.index(group[0].verdict))
    yield ""
    lang, _, verbose, *_ = layout
    yield layout.title(say("Programs, the worst first:") if len(report.programs) > 1 else say("Program:"))
    for group in ordered:
        names = [judged.program.title for judged in group]
        some = names if verbose else names[:_MOST_NAMES]
        more = f", +{len(names) - len(some)}" if len(names) > len(some) else ""
        line = visible(f"  {', '.join(some)}{more}")
        yield line if verbose else cut(line, LONGEST)
        most = max(group, key=lambda judged: judged.fixes)
        words = verdict_of(most)
        if most.verdict is not Verdict.NOT_JUDGED and any(judged.fixes != most.fixes for judged in group):
            words = say("{verdict}, at most", verdict=words)
        yield f"      {layout.paint(cut(visible(words.render(lang)), LONGEST), VERDICT_GRADES[most.verdict])}"
        reasons = list(_reasons(group, decisions, verbose))
        for reason in reasons if verbose else reasons[:_MOST_REASONS]:
            yield f"      {reason.line(lang, verbose)}"
        if len(reasons) > _MOST_REASONS and not verbose:
            yield f"      {say('... and {count} more', count=len(reasons) - _MOST_REASONS).render(lang)}"


def unresolved_lines(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what was not read, each reason once, and what could not be resolved, behind an empty line."""
    places: defaultdict[Message, dict[str, None]] = defaultdict(dict)
    programs: defaultdict[Message, set[str]] = defaultdict(set)
    for judged in report.programs:
        for unread in judged.unread:
            places[unread.reason][unread.place] = None
            programs[unread.reason].add(judged.program.title)
    unresolved = report.decisions.unresolved
    if not places and not unresolved:
        return
    yield ""
    yield layout.title(say("What could not be read or resolved:"))
    most = None if layout.verbose else _MOST_UNREAD
    for reason in [*places][:most]:
        reached = say_plural("one program reaches it", "{count} programs reach it", count=len(programs[reason]))
        where = some_of([*places[reason]], None if layout.verbose else _MOST_PLACES)
        line = f"{reached.render(layout.lang)}: {reason.render(layout.lang)}: {where}"
        yield from layout.wrapped(visible(line), "  ", None if layout.verbose else _MOST_TEXT)
    if most is not None and len(places) > most:
        yield f"  {say('... and {count} more', count=len(places) - most).render(layout.lang)}"
    yield from _told(unresolved, layout, "manual", _MOST_FIXES)


class _Reason(NamedTuple):
    """What stands behind a verdict, and the way there; no steps where there is none. What a run said is never cut."""

    words: Message
    steps: tuple[str, ...] = ()
    is_whole: bool = False

    def line(self, lang: str, verbose: bool) -> str:
        """Return it in one line: of a long way its two ends, or its end alone."""
        words = visible(self.words.render(lang))
        steps = [visible(step) for step in self.steps]
        if not steps:
            return words if verbose or self.is_whole else cut(words, LONGEST)
        if verbose:
            return f"{words}: {' -> '.join(steps)}"
        lines = [f"{words}: {way}" for way in (_ends_of(steps), f"... -> {steps[-1]}")]
        return next((line for line in lines if display_width(line) <= LONGEST), cut(lines[-1], LONGEST))


def _reasons(group: Sequence[Judged], decisions: Decisions, verbose: bool) -> Iterator[_Reason]:
    """Yield what stands behind the verdict of programs that share it, each thing in a line, as the first one has it."""
    shown: dict[tuple[str, Need], None] = {}
    for unread in dict.fromkeys(each for judged in group for each in judged.unread):
        yield _Reason(unread.reason, (*map(str, unread.chain), unread.place))
    for judged in group:
        if judged.settled is not None:
            yield from (_Reason(message, is_whole=True) for message in settled_lines(judged.settled))
        for obstacle in (*judged.blockers, *judged.builds, *judged.doubts, *judged.optional, *judged.alternatives):
            if (obstacle.what, obstacle.way.need) not in shown:
                shown[obstacle.what, obstacle.way.need] = None
                words = say("{what}, {circumstance}", what=obstacle.what, circumstance=_how(judged, obstacle, verbose))
                yield _Reason(words, steps_of(obstacle))
    things = {slug(name) for name, _ in shown}
    waits = [each for each in decisions.of_program.get(group[0].program.title, ()) if each not in things]
    if waits:
        yield _Reason(say("waits for {names}", names=", ".join(waits) if verbose else names_of(waits)))
    unverified = list(dict.fromkeys(item.package for judged in group for item in judged.unverified))
    if unverified:
        names = ", ".join(unverified) if verbose else names_of(unverified)
        yield _Reason(say("nobody has verified on this card: {names}", names=names))


def _how(judged: Judged, obstacle: Obstacle, verbose: bool) -> Message:
    """Return how surely a program comes to what the target lacks, or what is needed in its place."""
    if obstacle in judged.blockers:
        return source_of(obstacle)
    if obstacle in judged.builds:
        return say("another build is needed")
    if obstacle in judged.doubts:
        return say("look at it")
    how = circumstance_of(obstacle, most=None if verbose else 1)
    start = judged.program.start_with(obstacle.way.options)
    return how if start is None else say("{circumstance}, as {place} starts it", circumstance=how, place=start.place)


def decision_lines(decisions: Sequence[ReportedDecision], layout: TextLayout) -> Iterator[str]:
    """Yield decisions with their text, their programs and their places, behind an empty line."""
    if not decisions:
        return
    places = sum(len(each.places) for each in decisions)
    blocking = sum(each.blocks for each in decisions)
    title = say_plural("Decisions: one", "Decisions: {count}", count=len(decisions))
    if places > len(decisions):
        title = say("{decisions} in {count} places", decisions=title, count=places)
    if blocking:
        blocked = say_plural("one of them blocks", "{count} of them block", count=blocking)
        title = say("{decisions}; {blocked}", decisions=title, blocked=blocked)
    yield ""
    yield layout.title(title if len(decisions) == 1 else say("{decisions}; the worst first", decisions=title))
    yield from _told(decisions, layout, "manual", _MOST_DECISIONS)


def _told(decisions: Sequence[ReportedDecision], layout: TextLayout, kind: str, most: int) -> Iterator[str]:
    """Yield each decision with its text and its places; of those beyond the most that are told, the ids."""
    shown = decisions if layout.verbose else decisions[:most]
    for each in shown:
        words = visible(in_a_row(waiting_words(each), layout.lang))
        yield f"  {layout.paint(visible(each.id), kind)}  {cut(words, LONGEST - _LONGEST_ID)}"
        yield from _text(each, layout)
    others = [visible(each.id) for each in decisions[len(shown) :]]
    if others:
        more = say("... and {count} more: {ids}", count=len(others), ids=some_of(others, _MOST_IDS))
        yield from layout.wrapped(more.render(layout.lang), "  ")


def _text(decision: ReportedDecision, layout: TextLayout) -> Iterator[str]:
    """Yield what a decision is about, its places, and the way of a program that waits."""
    text, verbose = decision.message, layout.verbose
    others = decision.subjects[1:]
    if others:
        names = some_of([f"`{name}`" for name in others], None if verbose else _MOST_NAMES)
        text = say("{message} (and so for {names})", message=text, names=names)
    yield from layout.wrapped(visible(text.render(layout.lang)), "      ", None if verbose else _MOST_TEXT)
    places = [visible(str(place)) for place in decision.places]
    if verbose:
        yield from layout.wrapped(", ".join(places), "      ")
        return
    yield cut(f"      {as_many(places, min(layout.width, LONGEST) - 6, _MOST_PLACES) or places[0]}", LONGEST)
    steps = steps_of(decision.ways[0][1]) if decision.ways else ()
    if len(steps) > 1:
        way = visible(_ends_of(steps))
        fits = display_width(way) + 6 <= layout.width
        yield f"      {way}" if fits else layout.cut(f"      {visible(steps[0])} -> ...")


def _ends_of(steps: Sequence[str]) -> str:
    """Return a way, of a long one its two ends."""
    return " -> ".join([steps[0], "...", steps[-1]] if len(steps) > _MOST_STEPS else steps)


def in_a_row(phrases: Iterable[Message], lang: str) -> str:
    """Return phrases in one line."""
    return ("；" if lang == "zh" else "; ").join(phrase.render(lang) for phrase in phrases)


def waiting_words(decision: ReportedDecision) -> Iterator[Message]:
    """Yield what happens at the places of a decision, and how many programs wait for it."""
    yield effect_words(decision.effect)
    if decision.stopped:
        yield say_plural("stops one program", "stops {count} programs", count=len(decision.stopped))
    if decision.undecided:
        need = say_plural("one program may need it", "{count} programs may need it", count=len(decision.undecided))
        first = next((obstacle for program, obstacle in decision.ways if program in decision.undecided), None)
        yield (
            need if first is None else say("{need}, {circumstance}", need=need, circumstance=circumstance_of(first, 1))
        )
    if decision.waiting:
        yield say_plural("one program reaches it", "{count} programs reach it", count=len(decision.waiting))


def fix_lines(decisions: Sequence[ReportedDecision], layout: TextLayout) -> Iterator[str]:
    """Yield the fixes that a person reads first, behind an empty line."""
    if not decisions:
        return
    yield ""
    yield layout.title(say("Fixes to read, which `migrate --unsafe-fixes` makes:"))
    yield from _told(decisions, layout, "unsafe", _MOST_FIXES)


def accepted_lines(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield the places that somebody has accepted as they are, behind an empty line."""
    if not report.accepted:
        return
    yield ""
    yield layout.title(say("Accepted as they are: {count}", count=len(report.accepted)))
    for finding in report.accepted:
        yield f"  {visible(str(finding.location))}"
        yield from layout.wrapped(visible(finding.message.render(layout.lang)), "      ")


def _left_alone(report: Report, lang: str) -> Iterator[str]:
    """Yield what torchferry changes itself, and what stays as it is, in a line each, behind an empty line."""
    counts = report.by_grade
    if counts[Grade.SAFE] or counts[Grade.NOTE]:
        yield ""
    if counts[Grade.SAFE]:
        files = len({each.location.path for each in report.findings if each.grade is Grade.SAFE})
        safe = say_plural("one safe fix", "{count} safe fixes", count=counts[Grade.SAFE])
        where = say_plural("one file", "{count} files", count=files)
        yield say("`torchferry migrate` makes {fixes} in {files}.", fixes=safe, files=where).render(lang)
    if counts[Grade.NOTE]:
        yield say_plural(
            "One note on a place that stays as it is (`-v` shows it).",
            "{count} notes on places that stay as they are (`-v` shows them).",
            count=counts[Grade.NOTE],
        ).render(lang)
