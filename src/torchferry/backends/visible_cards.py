"""Cards asked for and cards got: how a target's software reads its list of visible cards, and what nobody reads.

What ends a list and what makes it void are facts of a target, in the column `values` of its `env.toml`::

    values = { numbers = "ascending", ends_at = ["absent", "text", "space"], void_if = ["unordered"] }

With them `2,0` gives no card, and `0,1,7` on a host of four cards gives two. Without them nobody has verified what a
list that is not a plain one gives, and no number is claimed before the plugin has counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.backends.variable_values import UNORDERED, hides_every_card, values_of
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say, say_plural
from torchferry.core.record import NamedTuple

FOLK = "folk_variables"
"""The table of names that circulate and that nobody reads."""

_MOST_DIGITS = 9
_DIGITS = lazy_regex(r"[0-9]+")


class CardList(NamedTuple):
    """A list of visible cards, as a target's software reads it.

    Attributes:
        asked: How many entries it has.
        got: How many cards a program sees; without the number of cards on the host, at most so many.
        entry: The entry at which the reading ended; empty where all were read.
        why: `absent`, `text`, `space` or `unordered`: what is wrong with that entry; empty where all were read.
    """

    asked: int
    got: int
    entry: str
    why: str


def entries_of(value: str) -> list[str]:
    """Return the entries of a list of cards, as they are written; none of a list that hides every card on purpose."""
    return [] if hides_every_card(value) or value.strip().startswith("-") else value.split(",")


def read_list(target: Target, value: str, count: int | None = None) -> CardList | None:
    """Return how the software of a target reads a list; None where nobody has verified it, or it hides every card.

    Args:
        target: The target.
        value: The list.
        count: How many devices the host has; None where that is not known.
    """
    takes = values_of(target.row("env", cuda.VISIBLE_DEVICES))
    entries = entries_of(value)
    if not entries or not (takes.ends_at or takes.void_if):
        return None
    before, asked = -1, sum(bool(entry.strip()) for entry in entries)
    for got, entry in enumerate(entries):
        match = _DIGITS.match(entry)
        digits = match[0] if match is not None else ""
        has_space = entry[:1].isspace() or (bool(digits) and entry.strip() == digits)
        why = "" if entry and digits == entry else "space" if has_space else "text"
        if why not in ("", *takes.ends_at) or len(digits) > _MOST_DIGITS:
            return None
        if digits:
            if int(digits) <= before and UNORDERED in takes.void_if:
                return CardList(asked, 0, digits, UNORDERED)
            if count is not None and int(digits) >= count and "absent" in takes.ends_at:
                return CardList(asked, got, digits, "absent")
            before = int(digits)
        if why:
            return CardList(asked, got + bool(digits), entry.strip(), why)
    return CardList(asked, asked, "", "")


def shortfall(
    target: Target, name: str, value: str, got: int | None = None, count: int | None = None
) -> Message | None:
    """Return that a list requests more cards than a program gets, and why; None where it does not.

    Args:
        target: The target.
        name: The variable.
        value: Its value.
        got: How many the plugin counted; None where it was not asked, so that the list is read as it would.
        count: How many devices the host has; None where that is not known.
    """
    asked = sum(bool(entry.strip()) for entry in entries_of(value))
    reading = read_list(target, value, count)
    if got is None and (reading is None or not reading.why):
        return None
    counted = got if got is not None else reading.got if reading is not None else asked
    if counted >= asked:
        return None
    text = say_plural(
        "`{name}={value}` asks for {count} card, and a program gets {got}",
        "`{name}={value}` asks for {count} cards, and a program gets {got}",
        name=name,
        value=value,
        count=asked,
        got=counted,
    )
    why = _why(target, value, reading, counted, count)
    return text if why is None else say("{text}: {why}", text=text, why=why)


def _why(target: Target, value: str, reading: CardList | None, got: int, count: int | None) -> Message | None:
    if reading is None:
        return None
    if reading.why == UNORDERED and reading.got == got:
        return say("the numbers must rise, and {entry} does not; then no card is visible", entry=reading.entry)
    if reading.why == "space" and reading.got == got:
        return say("a space ends the list; write it without spaces")
    if reading.why == "text" and reading.got == got:
        return say("`{entry}` is no number, and ends the list", entry=reading.entry)
    if "absent" not in values_of(target.row("env", cuda.VISIBLE_DEVICES)).ends_at:
        return None
    entry = entries_of(value)[got].strip()
    if not _DIGITS.fullmatch(entry):
        return None
    if count is None:
        return say("number {entry} is not on this host, and the list ends before it", entry=entry)
    return say_plural(
        "number {entry} is not on this host, which has {count} device, and the list ends before it",
        "number {entry} is not on this host, which has {count} devices, and the list ends before it",
        entry=entry,
        count=count,
    )


def unread_variables(target: Target, names: Iterable[str]) -> list[tuple[str, Message]]:
    """Return which of some environment variables nobody reads, though guides name them, with what is said of each."""
    rows = {row.name: row for row in target.backend.table(FOLK)}
    variable = target.backend.VISIBLE_DEVICES
    return [
        (name, noted(say("nothing reads `{name}`: it has no effect", name=name), rows[name].remark))
        for name in sorted({*names} & rows.keys())
        if isinstance(variable, Unknown) or name != variable
    ]
