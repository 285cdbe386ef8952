"""A report as text to act on: a first screen with the verdict and what to decide first, then each thing once."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import not_

from torchferry.core.finding import Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, display_width, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.programs.model import Judged, Need, Obstacle, Verdict
from torchferry.report.decisions import Decisions, ReportedDecision, effect_words, slug
from torchferry.report.full_format import (
    Paint,
    by_file,
    failure_lines,
    head_lines,
    mention_lines,
    package_lines,
    plain,
    unlooked_lines,
)
from torchferry.report.model import ProjectVerdict, Report
from torchferry.report.programs import (
    VERDICT_GRADES,
    accepted_places,
    circumstance_of,
    if_they_work,
    names_of,
    settled_lines,
    source_of,
    steps_of,
    verdict_of,
)

_WIDTH = 100
_NARROWEST, _WIDEST = 60, 160

SCREEN = 24
"""Lines of a screen; at the end of a longer report its verdict stands once more."""

_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_PARTS = lazy_regex(rf"[{_WIDE}][，。；：、）】」？！]*|[^\s{_WIDE}]+[，。；：、）】」？！]*\s*|\s+")
"""What stays together in a line: a word with the blanks behind it, a Chinese character with the mark behind it."""

_LONGEST = 200
"""Columns of any line."""

_LONGEST_ID = 60

_FEW = 2
"""Programs that are counted by their verdicts; fewer are shown with their reasons."""

_MOST_FIRST = 5
"""Decisions on the first screen."""

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

_WORST_FIRST = (
    Verdict.BLOCKED,
    Verdict.NOT_JUDGED,
    Verdict.MAY_NEED,
    Verdict.DECISIONS,
    Verdict.WITHOUT,
    Verdict.FIXES,
    Verdict.READY,
)


class TextLayout(NamedTuple):
    """How text is written.

    Attributes:
        lang: The language.
        paint: Colours a text by its kind (`verdict`, `path`, or a grade).
        verbose: Whether each program is shown with its reasons, each decision with its whole text and all places, and
            every finding behind them.
        width: Columns of the first screen and of running text; a longer line of a list is cut there.
    """

    lang: str
    paint: Paint = plain
    verbose: bool = False
    width: int = _WIDTH

    @classmethod
    def of_terminal(cls, lang: str, paint: Paint, verbose: bool, columns: int | None) -> TextLayout:
        """Return the layout for a terminal with so many columns; None for none."""
        width = _WIDTH if columns is None else max(_NARROWEST, min(columns, _WIDEST))
        return cls(lang, paint, verbose, width)

    def title(self, message: Message) -> str:
        """Return the title of a part."""
        return self.paint(message.render(self.lang), "path")

    def cut(self, line: str) -> str:
        """Return a line of the first screen."""
        return cut(line, self.width)

    def wrapped(self, text: str, indent: str, most: int | None = None) -> Iterator[str]:
        """Yield a text in lines of the width: broken at blanks and between Chinese characters, never in a word.

        Args:
            text: The text.
            indent: What each line begins with.
            most: How many lines there may be; the last of them says with three dots that there is more.
        """
        lines = list(self._broken(text, indent))
        if most is None or len(lines) <= most:
            yield from lines
            return
        yield from lines[: most - 1]
        room = min(self.width, _LONGEST)
        yield cut(f"{lines[most - 1]} {lines[most].strip()}", max(room, display_width(lines[most - 1])))

    def _broken(self, text: str, indent: str) -> Iterator[str]:
        line, columns = indent, display_width(indent)
        room = min(self.width, _LONGEST)
        for part in _PARTS.findall(text):
            if columns + display_width(part.rstrip()) > room and line.strip():
                yield line.rstrip()
                line, columns, part = indent, display_width(indent), part.lstrip()
            line += part
            columns += display_width(part)
        yield line.rstrip() or indent


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
    verdict = report.verdict_message.render(layout.lang)
    in_lines = layout._replace(width=_LONGEST).wrapped(verdict, "")
    painted = [layout.paint(line, "verdict") for line in in_lines]
    yield from painted
    count = 0
    for line in _below_verdict(report, layout, paths):
        yield line
        count += 1
    if count > SCREEN:
        yield ""
        yield from painted


def _below_verdict(report: Report, layout: TextLayout, paths: Sequence[str]) -> Iterator[str]:
    """Yield all lines but those of the verdict."""
    lang, paint, verbose, _ = layout
    decisions = report.decisions
    yield from head_lines(report, lang)
    yield from _program_counts(report, layout)
    yield from _first_decisions(decisions, layout)
    yield from next_commands(report, decisions, paths, lang)
    if verbose or len(report.programs) < _FEW:
        yield from _programs(report, decisions, layout)
    else:
        yield from _unread_lines(report, layout)
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


# --- the first screen ---


def _program_counts(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield how many programs have each verdict, the worst first, behind an empty line."""
    if len(report.programs) < _FEW:  # it is shown below with its reasons
        return
    yield ""
    yield layout.title(say("Programs: {count}", count=len(report.programs)))
    by_verdict: defaultdict[tuple[Verdict, bool, bool, bool], list[Judged]] = defaultdict(list)
    for judged in report.programs:
        may_run = judged.verdict not in (Verdict.BLOCKED, Verdict.NOT_JUDGED)
        carried, is_open, is_accepted = (
            may_run and bool(each) for each in (judged.carriers, judged.unresolved, judged.accepted)
        )
        by_verdict[judged.verdict, carried, is_open, is_accepted].append(judged)
    for verdict, carried, is_open, is_accepted in sorted(
        by_verdict, key=lambda key: (_WORST_FIRST.index(key[0]), *map(not_, key[1:]))
    ):
        group = by_verdict[verdict, carried, is_open, is_accepted]
        words = _class_words(verdict, group)
        if is_open:
            words = say("{verdict}, except for unresolved places", verdict=words)
        if carried:
            carriers = list(dict.fromkeys(name for judged in group for name in judged.carriers))
            words = say("{verdict}, if {packages}", verdict=words, packages=if_they_work(carriers))
        if is_accepted:
            # a place that several programs come to is one
            by = [each.by for each in dict.fromkeys(place for judged in group for place in judged.accepted)]
            words = say("{verdict}, with {places}", verdict=words, places=accepted_places(by))
        begin = visible(f"{len(group):>5}  {words.render(layout.lang)}")
        names = _as_many([visible(judged.program.title) for judged in group], layout.width - display_width(begin) - 2)
        yield layout.paint(layout.cut(f"{begin}: {names}" if names else begin), VERDICT_GRADES[verdict])


def _class_words(verdict: Verdict, group: Sequence[Judged]) -> Message:
    """Return what programs with one verdict have in common, as a phrase."""
    match verdict:
        case Verdict.BLOCKED:
            return say("blocked by {names}", names=_things(each for judged in group for each in judged.blockers))
        case Verdict.NOT_JUDGED:
            return say_in("verdict", "not judged")
        case Verdict.MAY_NEED:
            return say("may need {names}", names=_things(each for judged in group for each in judged.undecided))
        case Verdict.DECISIONS:
            if all(len(judged.decisions) == len(judged.unresolved) for judged in group):
                fixes = any(judged.fixes for judged in group)
                return say_in("verdict", "ready after fixes") if fixes else say_in("verdict", "ready")
            return say_in("verdict", "ready after decisions")
        case Verdict.WITHOUT:
            names = _things(each for judged in group for each in judged.optional)
            return say("run without {names}", names=names)
        case Verdict.FIXES:
            return say_in("verdict", "ready after fixes")
        case Verdict.READY:
            return say_in("verdict", "ready")


def _things(obstacles: Iterable[Obstacle]) -> str:
    return names_of([obstacle.what for obstacle in obstacles])


def _first_decisions(decisions: Decisions, layout: TextLayout) -> Iterator[str]:
    """Yield what to decide first, behind an empty line; nothing where nothing is to be decided."""
    first = decisions.first(_MOST_FIRST)
    if len(decisions.to_decide) < _MOST_NAMES:  # they are shown below
        return
    ready = decisions.ready_after(first)
    yield ""
    if ready:
        title = say_plural(
            "Decide first (of {all} decisions); {count} program then waits for none:",
            "Decide first (of {all} decisions); {count} programs then wait for none:",
            all=len(decisions.to_decide),
            count=ready,
        )
    else:
        title = say("Decide first (of {all} decisions):", all=len(decisions.to_decide))
    yield layout.title(title)
    width = min(max(display_width(each.id) for each in first), 24)
    for each in first:
        yield layout.cut(f"  {visible(each.id):{width}}  {visible(each.message.render(layout.lang))}")


def next_commands(report: Report, decisions: Decisions, paths: Sequence[str], lang: str) -> Iterator[str]:
    """Yield the commands that come next, for the paths that were named."""
    place = " ".join(shlex.quote(path) for path in paths)
    style = "" if report.style == "native" else f" --style {report.style}"
    asked = f"{place} -t {report.target}{style}"
    commands: list[tuple[str, Message]] = []
    if report.by_grade[Grade.SAFE]:
        purpose = say_plural(
            "makes the one safe fix", "makes the {count} safe fixes", count=report.by_grade[Grade.SAFE]
        )
        commands.append((f"torchferry migrate {asked}", purpose))
    first = decisions.first(1)
    if first and not style:
        shown = f"torchferry show {shlex.quote(first[0].id)} {asked}"
        commands.append((shown, say("one decision with its code and its choices")))
    if report.findings:
        commands.append((f"torchferry scan {asked} -v", say("each program with its reasons, and every place")))
    yield ""
    title = say("Next:").render(lang)
    for command, purpose in commands:
        yield cut(f"{title} {visible(command)}  # {purpose.render(lang)}", _LONGEST)
        title = " " * display_width(title)
    if commands:
        return
    if not report.files:
        yield say("Next: name the folder of the project, or a file of it.").render(lang)
    elif report.verdict is ProjectVerdict.READY:
        yield say("Next: nothing is to be done in the code.").render(lang)
    elif report.partial:
        yield say("Next: scan the whole project; what these files reach stands in others.").render(lang)


# --- below it ---


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
    ordered = sorted(groups.values(), key=lambda group: _WORST_FIRST.index(group[0].verdict))
    yield ""
    lang, _, verbose, _ = layout
    yield layout.title(say("Programs, the worst first:") if len(report.programs) > 1 else say("Program:"))
    for group in ordered:
        names = [judged.program.title for judged in group]
        some = names if verbose else names[:_MOST_NAMES]
        more = f", +{len(names) - len(some)}" if len(names) > len(some) else ""
        line = visible(f"  {', '.join(some)}{more}")
        yield line if verbose else cut(line, _LONGEST)
        most = max(group, key=lambda judged: judged.fixes)
        words = verdict_of(most)
        if most.verdict is not Verdict.NOT_JUDGED and any(judged.fixes != most.fixes for judged in group):
            words = say("{verdict}, at most", verdict=words)
        yield f"      {layout.paint(cut(visible(words.render(lang)), _LONGEST), VERDICT_GRADES[most.verdict])}"
        reasons = list(_reasons(group, decisions, verbose))
        for reason in reasons if verbose else reasons[:_MOST_REASONS]:
            yield f"      {reason.line(lang, verbose)}"
        if len(reasons) > _MOST_REASONS and not verbose:
            yield f"      {say('... and {count} more', count=len(reasons) - _MOST_REASONS).render(lang)}"


def _unread_lines(report: Report, layout: TextLayout) -> Iterator[str]:
    """Yield what was not read, each reason once with its places and programs, behind an empty line."""
    places: defaultdict[Message, dict[str, None]] = defaultdict(dict)
    programs: defaultdict[Message, set[str]] = defaultdict(set)
    for judged in report.programs:
        for unread in judged.unread:
            places[unread.reason][unread.place] = None
            programs[unread.reason].add(judged.program.title)
    if not places:
        return
    yield ""
    yield layout.title(say("What could not be read or resolved:"))
    for reason in [*places][:_MOST_UNREAD]:
        reached = say_plural("one program reaches it", "{count} programs reach it", count=len(programs[reason]))
        where = some_of([*places[reason]], _MOST_PLACES)
        line = f"{reached.render(layout.lang)}: {reason.render(layout.lang)}: {where}"
        yield from layout.wrapped(visible(line), "  ", _MOST_TEXT)
    if len(places) > _MOST_UNREAD:
        yield f"  {say('... and {count} more', count=len(places) - _MOST_UNREAD).render(layout.lang)}"


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
            return words if verbose or self.is_whole else cut(words, _LONGEST)
        if verbose:
            return f"{words}: {' -> '.join(steps)}"
        lines = [f"{words}: {way}" for way in (_ends_of(steps), f"... -> {steps[-1]}")]
        return next((line for line in lines if display_width(line) <= _LONGEST), cut(lines[-1], _LONGEST))


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
        yield f"  {layout.paint(visible(each.id), kind)}  {cut(words, _LONGEST - _LONGEST_ID)}"
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
    yield cut(f"      {_as_many(places, min(layout.width, _LONGEST) - 6, _MOST_PLACES) or places[0]}", _LONGEST)
    steps = steps_of(decision.ways[0][1]) if decision.ways else ()
    if len(steps) > 1:
        way = visible(_ends_of(steps))
        fits = display_width(way) + 6 <= layout.width
        yield f"      {way}" if fits else layout.cut(f"      {visible(steps[0])} -> ...")


def some_of(names: Sequence[str], most: int | None) -> str:
    """Return names in a row, all of them or the first ones with the number of the others."""
    shown = ", ".join(names[:most])
    return shown if most is None or len(names) <= most else f"{shown}, +{len(names) - most}"


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


# --- lines ---


def _as_many(names: Sequence[str], room: int, most: int | None = None) -> str:
    """Return as many names as have room in one line, and how many more there are; nothing where not one has."""
    shown = ""
    for number, name in enumerate(names[:most]):
        more = f"{shown}, {name}" if shown else name
        left = len(names) - number - 1
        if display_width(more) + (len(f", +{left}") if left else 0) > room:
            return f"{shown}, +{len(names) - number}" if shown else ""
        shown = more
    left = len(names) - len(names[:most])
    return f"{shown}, +{left}" if left else shown


def cut(line: str, width: int) -> str:
    """Return a line that takes no more than some columns, with three dots where it is cut."""
    if display_width(line) <= width:
        return line
    room = width - 3
    taken = 0
    for number, letter in enumerate(line):
        taken += display_width(letter)
        if taken > room:
            return f"{line[:number]}..."
    return line
