"""A decision as lines of text: in one row what happens, which programs wait and the answers; and whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from torchferry.core.finding import Effect
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, cut, display_width, say, say_in, say_plural
from torchferry.core.record import NamedTuple
from torchferry.core.terminal import visible
from torchferry.report.choices import choices_of
from torchferry.report.decisions import WORST_EFFECT_FIRST, ReportedDecision, decisions_title, effect_words
from torchferry.report.programs import circumstance_of
from torchferry.report.text_layout import LONGEST, TextLayout, as_many, some_of

BETWEEN_ANSWERS = " | "
COUNTED_ANSWERS = f"{BETWEEN_ANSWERS}+"
"""What precedes the number of further answers, for which a row has no room."""

_MOST_PLACES = 2
"""Places in a row; `torchferry show` has them all."""

_MOST_NAMES = 3
_LONGEST_SUBJECT = 32
"""Columns of the name of a thing in a row: a longer one is cut, and whole in `torchferry show`."""

_LEAST_ANSWERS = 24
"""Columns that the answers of a row have in any case."""

_WHOLE_ANSWER = 36
"""Columns of a first answer that is not cut for the name of the thing."""

_STEP = 4
"""Columns by which answers are shortened until they have room."""

_NAMED = lazy_regex(r"[^:;`]*`([^`]*)`")
"""The thing that a text names first, in its first clause; group 1 is it."""
_LETTER = lazy_regex(r"[^\W\d_]")

_LONGEST_BEGINNING = 40
"""Columns of the beginning of a text that names no thing."""

_REMARK = lazy_regex(r" \(|（")
"""What a remark in an answer begins with."""

_CLAUSE = lazy_regex(r"[,:;，：；]")
_MOST_LINES = 2
"""Lines that a row below the first screen takes."""

_MOST_ROWS = 20
"""Decisions in a list that have a row; of the others the ids are named."""

_MOST_IDS = 60


def decision_lines(decisions: Sequence[ReportedDecision], target: str, layout: TextLayout) -> Iterator[str]:
    """Yield decisions after an empty line: a row for each; with `-v` their whole text and all places.

    Args:
        decisions: The decisions.
        target: The target of their report.
        layout: How they are written.
    """
    if not decisions:
        return
    yield ""
    yield layout.title(decisions_title(decisions))
    if layout.verbose:
        yield from whole_decisions(decisions, layout, "manual")
    else:
        yield from decision_rows(decisions, target, layout)


def decision_rows(decisions: Sequence[ReportedDecision], target: str, layout: TextLayout) -> Iterator[str]:
    """Yield rows of some decisions, those of the same rule and with the same answers in one, and the ids of others."""
    rows: dict[tuple[object, ...], list[ReportedDecision]] = {}
    for each in decisions:
        alone = decision_row((each,), target, layout.lang)
        rows.setdefault((each.code, alone.words, alone.answers), []).append(each)
    for group in [*rows.values()][:_MOST_ROWS]:
        yield from decision_row(group, target, layout.lang).lines(layout, _MOST_LINES)
    others = [visible(each.id) for group in [*rows.values()][_MOST_ROWS:] for each in group]
    if others:
        more = say("... and {count} more: {ids}", count=len(others), ids=some_of(others, _MOST_IDS))
        yield from layout.wrapped(more.render(layout.lang), "  ")


class DecisionRow(NamedTuple):
    """Decisions that have the same answers, as a row of a list.

    Attributes:
        decisions: The decisions.
        names: Their ids.
        words: What happens, in few words.
        answers: Their answers, the recommended one first.
        places: Where it is, of one decision.
        subject: What it is about, with a comma behind it, where there is room to name it.
    """

    decisions: tuple[ReportedDecision, ...]
    names: str
    words: str
    answers: tuple[str, ...]
    places: tuple[str, ...] = ()
    subject: str = ""

    def named_within(self, width: int) -> DecisionRow:
        """Return it with what it is about among the words, where the answers keep room; else without that."""
        named = self._replace(words=f"{self.subject}{self.words}", subject="")
        first = display_width(_REMARK.split(self.answers[0])[0]) + len(f"{COUNTED_ANSWERS}1") if self.answers else 0
        least = first if first <= _WHOLE_ANSWER else _LEAST_ANSWERS
        needed = min(named.columns, display_width(f"  {named.names}  {named.words}") + least)
        return named if self.subject and needed <= width else self._replace(subject="")

    @property
    def text(self) -> str:
        """What follows the ids, uncut and without places."""
        return f"{self.words}{BETWEEN_ANSWERS.join(self.answers)}"

    @property
    def columns(self) -> int:
        """How many columns it takes uncut."""
        return display_width(f"  {self.names}  {self.text}")

    def line(self, layout: TextLayout) -> str:
        """Return it in one line; where that is too short, the first answers alone, with the number of the others."""
        width = min(layout.width, LONGEST)
        if self.subject:
            return self.named_within(width).line(layout)
        room = width - display_width(f"  {self.names}  {self.words}")
        if room < _LEAST_ANSWERS:  # many ids
            return cut(f"  {self.names}  {self.text}", width)
        answers = _within(self.answers, room)
        places = as_many(self.places, room - display_width(f"{answers}  ()"), _MOST_PLACES) if self.places else ""
        return f"  {layout.paint(self.names, 'manual')}  {self.words}{answers}" + (f"  ({places})" if places else "")

    def lines(self, layout: TextLayout, most: int) -> list[str]:
        """Return it in one line or, where that is too short, in several."""
        if self.subject:
            return self.named_within(most * min(layout.width, LONGEST)).lines(layout, most)
        if self.columns <= layout.width or most == 1:
            return [self.line(layout)]
        begin = f"{self.names}  {self.words}"
        room, rows = display_width(self.text), [*layout.wrapped(f"{self.names}  {self.text}", "  ", None, "      ")]
        while len(rows) > most and room > _LEAST_ANSWERS:
            room -= _STEP
            rows = [*layout.wrapped(f"{begin}{_within(self.answers, room)}", "  ", None, "      ")]
        if len(rows) > most:
            rows = [*layout.wrapped(f"{self.names}  {self.text}", "  ", most, "      ")]
        first, *others = rows
        ids = f"  {self.names}"
        painted = f"  {layout.paint(self.names, 'manual')}{first[len(ids) :]}" if first.startswith(ids) else first
        return [painted, *others]


def decision_row(
    decisions: Sequence[ReportedDecision], target: str, lang: str, *, above_text: bool = False
) -> DecisionRow:
    """Return the row of decisions that have the same answers.

    Args:
        decisions: The decisions, at least one.
        target: The target of their report.
        lang: The language.
        above_text: Whether the text of the decision follows, so that the row leaves out what it says at length.
    """
    first, is_alone = decisions[0], len(decisions) == 1
    names = ", ".join(visible(each.id) for each in decisions)
    words = visible(_brief_words(decisions).render(lang))
    subject = _subject(first, lang) if is_alone and not above_text else ""  # the text begins with it
    if subject:
        subject += "，" if lang == "zh" else ", "
    answers = answers_of(first, target, lang, above_text=above_text)
    places = tuple(visible(str(place)) for place in first.places) if is_alone else ()
    return DecisionRow(tuple(decisions), names, f"{words}{'：' if lang == 'zh' else ': '}", answers, places, subject)


def _subject(decision: ReportedDecision, lang: str) -> str:
    """Return the thing that a decision is about, as its text names it first; nothing where its id names it.

    Where the text names nothing first, it is how the text begins.
    """
    named = _NAMED.match(decision.message.render("en"))
    if named is None or _LETTER.search(named[1]) is None:
        begin = _CLAUSE.split(visible(decision.message.render(lang)))[0]
        return begin if decision.findings and display_width(begin) <= _LONGEST_BEGINNING else ""
    name, own = (text.casefold().replace("_", "-") for text in (named[1], decision.id))
    if name in own or name.startswith(own):
        return ""
    return f"`{cut(visible(named[1]), _LONGEST_SUBJECT)}`"


def _within(answers: Sequence[str], room: int) -> str:
    """Return answers in one line; where it is too short, without remarks, then the first ones and how many follow."""
    shown = [*answers]
    for number in sorted(range(len(shown)), key=lambda number: -display_width(shown[number])):
        if display_width(BETWEEN_ANSWERS.join(shown)) <= room:
            break
        shown[number] = _REMARK.split(shown[number])[0]
    for count in range(len(shown), 0, -1):
        others = f"{COUNTED_ANSWERS}{len(shown) - count}" if count < len(shown) else ""
        text = BETWEEN_ANSWERS.join(shown[:count])
        if display_width(text + others) <= room:
            return text + others
    return cut_between_words(shown[0], room - display_width(others)) + others


def cut_between_words(text: str, width: int) -> str:
    """Return a text cut to so many columns, behind a whole word and not within backticks where it has such a place."""
    if display_width(text) <= width:
        return text
    shown = cut(text, width)
    begin = shown.removesuffix("...").rpartition(" ")[0]
    if begin.count("`") % 2:
        begin = begin.rpartition("`")[0]
    begin = begin.rstrip(" ,;:(")
    return f"{begin} ..." if 2 * display_width(begin) >= width else shown


def answers_of(decision: ReportedDecision, target: str, lang: str, *, above_text: bool = False) -> tuple[str, ...]:
    """Return the answers to a decision in few words, the recommended one first."""
    answers: list[str] = []
    for choice in choices_of(decision, target):
        brief = visible(choice.brief.render(lang))
        if not choice.name and any(brief.strip("`") in each for each in answers):
            continue  # a remark names it already
        if above_text and choice.shortest is not None:
            brief = visible(choice.shortest.render(lang))
        answers.append(brief)
    return tuple(answers)


def whole_decisions(
    decisions: Sequence[ReportedDecision], layout: TextLayout, kind: str, indent: str = "      "
) -> Iterator[str]:
    """Yield each decision with its whole text and all of its places; `kind` is the grade whose colour its id has."""
    for each in decisions:
        words = visible(in_a_row(waiting_words(each), layout.lang))
        yield f"  {layout.paint(visible(each.id), kind)}  {words}"
        yield from layout.wrapped(text_of(each, layout), indent)
        yield from layout.wrapped(", ".join(visible(str(place)) for place in each.places), indent)


def fix_lines(decisions: Sequence[ReportedDecision], layout: TextLayout) -> Iterator[str]:
    """Yield the fixes that a person reads first: their ids and numbers in a line; with `-v` whole, below a title."""
    if not decisions:
        return
    if layout.verbose:
        yield ""
        yield layout.title(say("Fixes to read, which `migrate --unsafe-fixes` makes:"))
        yield from whole_decisions(decisions, layout, "unsafe")
        return
    counted = [_counted(each) for each in decisions]
    line = say("Fixes to read (`migrate --unsafe-fixes --diff` shows them): {names}", names=some_of(counted, _MOST_IDS))
    yield from layout.wrapped(line.render(layout.lang), "")


def unresolved_line(decisions: Sequence[ReportedDecision], layout: TextLayout) -> Iterator[str]:
    """Yield what could not be resolved: the ids and how many places each has, in a line."""
    if decisions:
        counted = some_of([_counted(each) for each in decisions], _MOST_IDS)
        line = say("could not be resolved (`torchferry show ID` shows the code): {names}", names=counted)
        yield from layout.wrapped(line.render(layout.lang), "  ")


def _counted(decision: ReportedDecision) -> str:
    """Return the id of a decision, with the number of its places where it has several."""
    count = len(decision.places)
    return visible(decision.id) + (f" ({count})" if count > 1 else "")


def text_of(decision: ReportedDecision, layout: TextLayout) -> str:
    """Return what a decision is about, with the names that it holds for besides the first."""
    text, others = decision.message, decision.subjects[1:]
    if others:
        names = some_of([f"`{name}`" for name in others], None if layout.verbose else _MOST_NAMES)
        text = say("{message} (and so for {names})", message=text, names=names)
    return visible(text.render(layout.lang))


def _brief_words(decisions: Sequence[ReportedDecision]) -> Message:
    """Return what happens at the places of decisions in few words: how many programs each stops, or the effect."""
    stopped, undecided, waiting = (
        dict.fromkeys(chain.from_iterable(each))
        for each in zip(*((each.stopped, each.undecided, each.waiting) for each in decisions), strict=True)
    )
    effect = min((each.effect for each in decisions), key=WORST_EFFECT_FIRST.index)
    brief = {Effect.RAISES: say_in("effect", "error"), Effect.WRONG: say_in("effect", "silently wrong")}
    happens = brief.get(effect) or effect_words(effect)
    if stopped:
        return say_plural("blocks one program", "blocks {count} programs", count=len(stopped))
    if undecided:
        return say_plural("one program may need it", "{count} programs may need it", count=len(undecided))
    if waiting:
        return say_plural("{effect} in one program", "{effect} in {count} programs", count=len(waiting), effect=happens)
    return happens


def waiting_words(decision: ReportedDecision) -> Iterator[Message]:
    """Yield what happens at the places of a decision, and how many programs wait for it."""
    yield effect_words(decision.effect)
    if decision.stopped:
        yield say_plural("blocks one program", "blocks {count} programs", count=len(decision.stopped))
    if decision.undecided:
        need = say_plural("one program may need it", "{count} programs may need it", count=len(decision.undecided))
        first = next((obstacle for program, obstacle in decision.ways if program in decision.undecided), None)
        yield (
            need if first is None else say("{need}, {circumstance}", need=need, circumstance=circumstance_of(first, 1))
        )
    if decision.waiting:
        yield say_plural("one program reaches it", "{count} programs reach it", count=len(decision.waiting))


def in_a_row(phrases: Iterable[Message], lang: str) -> str:
    """Return phrases in one line."""
    return ("；" if lang == "zh" else "; ").join(phrase.render(lang) for phrase in phrases)
