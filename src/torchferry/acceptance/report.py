"""The table of gates, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from torchferry.acceptance.card_use import is_red_for_more, is_without_card, no_card_message
from torchferry.acceptance.evidence import verdict
from torchferry.acceptance.gates import TITLES, Gate, GateStatus
from torchferry.acceptance.situation import Situation
from torchferry.core.messages import Message, display_width, say, say_in, say_plural
from torchferry.core.terminal import visible

_WORDS = {
    GateStatus.GREEN: say_in("gate", "green"),
    GateStatus.RED: say_in("gate", "RED"),
    GateStatus.NOT_JUDGED: say_in("gate", "not judged"),
}

Paint = Callable[[str, str], str]


def headline(situation: Situation, gates: Sequence[Gate], partial: bool) -> Message:
    """Return the outcome in one sentence."""
    counts = {status: sum(gate.status is status for gate in gates) for status in GateStatus}
    values = {
        "green": counts[GateStatus.GREEN],
        "red": counts[GateStatus.RED],
        "unjudged": counts[GateStatus.NOT_JUDGED],
        "target": situation.target.title,
    }
    outcome = verdict(gates, partial, is_without_card(situation))
    if is_without_card(situation) and not is_red_for_more(gates):
        return say(
            "NO ACCELERATOR WAS USED, so nothing is accepted for {target}: {red} red, {green} green, {unjudged} not "
            "judged",
            **values,
        )
    if outcome == "rejected":
        return say("NOT ACCEPTED for {target}: {red} red, {green} green, {unjudged} not judged", **values)
    if outcome == "incomplete" and situation.rehearsal is not None and situation.rehearsal.faults:
        return say(
            "NO GATE FOUND THE INJECTED FAULT on {target}: none red, {green} green, {unjudged} not judged",
            **values,
        )
    if outcome == "incomplete" and not partial:
        return say(
            "NOT FULLY JUDGED for {target}: none red, {green} green, {unjudged} not judged; acceptance "
            "needs a run that ends well, and a green number or output",
            **values,
        )
    if outcome == "incomplete":
        return say("JUDGED ONLY IN PART for {target}: none red, {green} green, {unjudged} not judged", **values)
    if situation.rehearsal is not None:
        return say(
            "ACCEPTED ON THE REHEARSAL of {target}: none red, {green} green, {unjudged} not judged; the card is still "
            "to be tried",
            **values,
        )
    return say("ACCEPTED for {target}: none red, {green} green, {unjudged} not judged", **values)


def rows(gates: Sequence[Gate], lang: str) -> Iterator[tuple[Gate, str, str, str, str]]:
    """Yield each gate with its title, its status, what was measured and what was wanted, as text."""
    for gate in gates:
        title = TITLES[gate.stage].render(lang)
        _, _, part = gate.name.partition(".")
        yield (
            gate,
            visible(f"{title}: {part}" if part else title),
            _WORDS[gate.status].render(lang),
            visible(gate.measured.render(lang)),
            visible(gate.wanted.render(lang)),
        )


def lines(situation: Situation, gates: Sequence[Gate], lang: str, partial: bool, paint: Paint) -> Iterator[str]:
    """Yield the report line by line."""
    shown = list(rows(gates, lang))
    wide = max((display_width(title) for _, title, *_ in shown), default=0)
    status_wide = max(display_width(word.render(lang)) for word in _WORDS.values())
    for gate, title, status, measured, wanted in shown:
        mark = paint(_pad(status, status_wide), gate.status.value)
        text = measured if measured != "-" else ""
        if wanted != "-" and gate.status is not GateStatus.NOT_JUDGED:
            text = say("{measured} (wanted: {wanted})", measured=measured, wanted=wanted).render(lang)
        if gate.reason is not None and gate.status is GateStatus.NOT_JUDGED:
            reason = visible(gate.reason.render(lang))
            text = f"{text}; {reason}" if text else reason
        yield f"  {mark}  {_pad(title, wide)}  {text}"
        if gate.needed is not None:
            needed = say("to judge it: {needed}", needed=visible(gate.needed.render(lang))).render(lang)
            yield f"  {' ' * status_wide}  {' ' * wide}  {needed}"
        if gate.reason is not None and gate.status is GateStatus.RED:
            yield f"  {' ' * status_wide}  {' ' * wide}  -> {visible(gate.reason.render(lang))}"
    yield ""
    yield headline(situation, gates, partial).render(lang)
    without_card = no_card_message(situation)
    if without_card is not None:
        yield without_card.render(lang)
    red = [gate.name for gate in gates if gate.status is GateStatus.RED]
    if red:
        yield say_plural(
            "{count} gate is red: {names}",
            "{count} gates are red: {names}",
            count=len(red),
            names=visible(", ".join(red)),
        ).render(lang)


def _pad(text: str, width: int) -> str:
    return text + " " * max(0, width - display_width(text))
