"""A decision as lines of text: what happens, which programs wait, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.messages import Message, cut, display_width, say, say_plural
from torchferry.core.terminal import visible
from torchferry.report.decisions import ReportedDecision, decisions_title, effect_words
from torchferry.report.programs import circumstance_of
from torchferry.report.text_layout import LONGEST, TextLayout, as_many, some_of

_SHORTEST_WORDS = 40
"""Columns of what happens, behind an id that leaves less in the line."""

_MOST_PLACES = 3
_MOST_NAMES = 3
_MOST_DECISIONS = 8
_MOST_FIXES = 4
"""Decisions, and fixes to read, that are told with their texts; of the others the ids are named."""

_MOST_IDS = 60
_MOST_TEXT = 2
"""Lines that the text of a decision takes in a list; `torchferry show` has all of it."""


def decision_lines(
    decisions: Sequence[ReportedDecision], layout: TextLayout, stated: Sequence[ReportedDecision] = ()
) -> Iterator[str]:
    """Yield decisions with their text, their programs and their places, behind an empty line.

    Args:
        decisions: The decisions.
        layout: How they are written.
        stated: Those of them that stand above, with their texts; they are left out unless everything is shown.
    """
    left = decisions if layout.verbose else [each for each in decisions if each not in stated]
    if not left:
        return
    yield ""
    if len(left) == len(decisions):
        yield layout.title(decisions_title(decisions))
    else:
        further = say_plural("Further decisions: one", "Further decisions: {count}; the worst first", count=len(left))
        yield layout.title(further)
    yield from lines_of_decisions(left, layout, "manual", max(_MOST_DECISIONS - len(stated), _MOST_FIXES))


def fix_lines(decisions: Sequence[ReportedDecision], layout: TextLayout) -> Iterator[str]:
    """Yield the fixes that a person reads first, behind an empty line."""
    if not decisions:
        return
    yield ""
    yield layout.title(say("Fixes to read, which `migrate --unsafe-fixes` makes:"))
    yield from lines_of_decisions(decisions, layout, "unsafe", _MOST_FIXES)


def lines_of_decisions(
    decisions: Sequence[ReportedDecision],
    layout: TextLayout,
    kind: str,
    most: int = _MOST_DECISIONS,
    most_text: int = _MOST_TEXT,
) -> Iterator[str]:
    """Yield each decision with its text and its places; of those beyond the most that are told, the ids.

    Args:
        decisions: The decisions.
        layout: How they are written.
        kind: The grade whose colour their ids have.
        most: How many are told, unless everything is shown.
        most_text: How many lines the text of each takes, unless everything is shown.
    """
    shown = decisions if layout.verbose else decisions[:most]
    for each in shown:
        yield from _lines_of(each, layout, kind, most_text)
    others = [visible(each.id) for each in decisions[len(shown) :]]
    if others:
        more = say("... and {count} more: {ids}", count=len(others), ids=some_of(others, _MOST_IDS))
        yield from layout.wrapped(more.render(layout.lang), "  ")


def _lines_of(decision: ReportedDecision, layout: TextLayout, kind: str, most_text: int) -> Iterator[str]:
    """Yield a decision: its id with what happens and where, then what to do."""
    name, words = visible(decision.id), visible(in_a_row(waiting_words(decision), layout.lang))
    places = [visible(str(place)) for place in decision.places]
    room = min(layout.width, LONGEST)
    words = cut(words, max(room - display_width(f"  {name}  "), _SHORTEST_WORDS))
    beginning = f"  {layout.paint(name, kind)}  {words}"
    in_line = "" if layout.verbose else as_many(places, room - display_width(f"  {name}  {words}: "), _MOST_PLACES)
    yield f"{beginning}{'：' if layout.lang == 'zh' else ': '}{in_line}" if in_line else beginning
    yield from layout.wrapped(_text_of(decision, layout), "      ", None if layout.verbose else most_text)
    if layout.verbose:
        yield from layout.wrapped(", ".join(places), "      ")
        return
    if not in_line and most_text > 1:  # else there is no room for them
        yield cut(f"      {as_many(places, room - 6, _MOST_PLACES) or places[0]}", LONGEST)


def _text_of(decision: ReportedDecision, layout: TextLayout) -> str:
    """Return what a decision is about, with the names that it holds for besides the first."""
    text, others = decision.message, decision.subjects[1:]
    if others:
        names = some_of([f"`{name}`" for name in others], None if layout.verbose else _MOST_NAMES)
        text = say("{message} (and so for {names})", message=text, names=names)
    return visible(text.render(layout.lang))


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
