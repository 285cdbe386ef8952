"""What values a target's environment variable takes, of those that CUDA's takes: one answer for rules and redirect.

A row of `env.toml` says it in its column `values`, of which every part may be left out::

    values = { numbers = "ascending" }                     # numbers of cards and nothing else; or "any" order
    values = { numbers = "ascending", ends_at = ["absent"], void_if = ["unordered"] }     # how a list is read
    values = { keys = ["max_split_size_mb"] }              # `key:value` pairs with these keys alone
    values = { refuses = ["cudaMallocAsync"] }             # a value with this text is an error
    values = { excludes = { expandable_segments = ["max_split_size_mb"] } }   # the first, if true, beside the others
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.core.record import NamedTuple

_HIDES_EVERY_CARD = lazy_regex(r"(?:-1|none|void|NoDevFiles)?\Z", re.IGNORECASE)
"""Values with which a program sees no card, whoever made it."""

_NVIDIA_CARD = lazy_regex(r"(?:.*,[ \t]*)?(?:GPU|MIG)-", re.IGNORECASE)
"""Values that name a card of NVIDIA, or a part of one, by its UUID."""

_MOST_DIGITS = 9
"""Digits of the number of a card."""

_IN_BRACKETS = lazy_regex(r"\[[^\[\]]*\]")
"""A value of one key that has commas of its own: `roundup_power2_divisions:[256:1,512:2]`."""


_OPEN = lazy_regex(r"\$\{[^{}]*\}|\$\([^()]*\)|\$\w+|`[^`]*`|\{[^{}]*\}|<[^<>]*>|[$`{<]")
"""What a shell, or a program, puts into a value when it runs."""

_DEFAULT = lazy_regex(r"\$\{\w+:?[-=]([^{}]*)\}")
"""What a shell puts there where its variable is not set: the `1,0` of `${1:-1,0}`."""

_HOLE = "\0"


UNORDERED = "unordered"
"""A number in a list of cards that is no larger than the one before."""


class TakenValues(NamedTuple):
    """What a target's variable takes; see the module.

    Attributes:
        numbers: `any` or `ascending` where it takes numbers of cards alone; empty where that is not said.
        keys: The keys that it knows; empty where that is not said.
        refuses: Texts that no value may have.
        excludes: Keys that, if true, exclude each of some others.
        ends_at: What ends a list of cards: a number that is not on the host (`absent`), a `text`, a `space`.
        void_if: What leaves no card at all: a number that is no larger than the one before (`unordered`).
    """

    numbers: str = ""
    keys: Sequence[str] = ()
    refuses: Sequence[str] = ()
    excludes: Mapping[str, Sequence[str]] = {}
    ends_at: Sequence[str] = ()
    void_if: Sequence[str] = ()


def values_of(row: Row) -> TakenValues:
    """Return what the variable of a row takes.

    Raises:
        TypeError: the row says it in words that are not known.
    """
    return TakenValues(**row.extra.get("values", {}))


def hides_every_card(value: str) -> bool:
    """Whether a list of cards has none."""
    return _HIDES_EVERY_CARD.match(value.strip()) is not None


def names_nvidia_card(value: str) -> bool:
    """Whether a list of cards names one of NVIDIA's by its UUID."""
    return _NVIDIA_CARD.match(value.strip()) is not None


def _is_number(entry: str) -> bool:
    """Whether an entry is the number of a card; Python reads no number of thousands of digits."""
    return entry.isdecimal() and len(entry) <= _MOST_DIGITS


def card_numbers(value: str) -> list[int] | None:
    """Return the numbers of a list of cards that has nothing else; None for other texts."""
    entries = [entry.strip() for entry in value.split(",")]
    return [int(entry) for entry in entries] if all(map(_is_number, entries)) else None


def cards_listed(value: str) -> list[int]:
    """Return the numbers of a list of cards as CUDA reads it: up to the first entry that is none."""
    numbers: list[int] = []
    for entry in (part.strip() for part in value.split(",")):
        if not _is_number(entry):
            break
        numbers.append(int(entry))
    return numbers


def refusal(target: Target, row: Row, value: str) -> Message | None:
    """Return why a value of CUDA's variable is none for the target's own, or None where nothing is known of it.

    Args:
        target: The target.
        row: The row of CUDA's variable in the target's table.
        value: Its value, as it is written; of what a shell puts in, the default alone is known.
    """
    with_holes = _OPEN.sub(_HOLE, value)
    if with_holes == value:
        return _refusal(target, row, value, value)
    refused = _refusal(target, row, value, with_holes)
    defaults = _DEFAULT.sub(r"\1", value)
    if refused is None and defaults != value:
        refused = _refusal(target, row, value, _OPEN.sub(_HOLE, defaults))
    return refused


def is_open(row: Row, value: str) -> bool:
    """Whether the target's variable may refuse a value because of what is put into a part of it.

    A value of which nothing is written is whatever the user of a program gives, and none of the program's own.
    """
    text = _OPEN.sub(_HOLE, value)
    entries = [entry.strip() for entry in _IN_BRACKETS.sub("", text).split(",")]
    if _HOLE not in text:
        return False
    takes = values_of(row)
    if takes.numbers:
        return takes.numbers == "ascending" and len(entries) > 1
    given = {key.strip(): setting for key, _, setting in (entry.partition(":") for entry in entries)}
    if len(entries) > 1 and any(_HOLE in key for key in given):
        return bool(takes.keys or takes.refuses or takes.excludes)
    if takes.refuses and _HOLE in given.get(_BACKEND, ""):
        return True
    return any(
        _HOLE in given.get(key, "") and any(other in given for other in others)
        for key, others in takes.excludes.items()
    )


_BACKEND = "backend"
"""The key whose values are texts: which allocator is to be used."""


def _refusal(target: Target, row: Row, value: str, text: str) -> Message | None:
    """Return why a value is refused, by its text with holes for what is not known."""
    if not text.strip() or text.strip() == _HOLE:
        return None
    takes = values_of(row)
    entries = [entry.strip() for entry in text.split(",")]
    if takes.numbers:
        return _not_numbers(target, row, value, takes.numbers == "ascending", entries)
    for word in takes.refuses:
        if word in text:
            return say(
                "`{name}={value}`: `{use}` takes no `{text}` on {target}; {note}",
                name=row.name, value=value, use=row.use, text=word, target=target.title, note=row.remark or "",
            )  # fmt: skip
    entries = [entry.strip() for entry in _IN_BRACKETS.sub("", text).split(",")]
    given = {key.strip(): setting.strip() for key, _, setting in (entry.partition(":") for entry in entries)}
    unknown = [key for key in given if key and _HOLE not in key and takes.keys and key not in takes.keys]
    if unknown:
        return say(
            "`{name}={value}`: `{use}` has no setting `{key}` on {target}, and an unknown one is an error; omit it",
            name=row.name, value=value, use=row.use, key=unknown[0], target=target.title,
        )  # fmt: skip
    for key, others in takes.excludes.items():
        excluded = [other for other in others if other in given]
        if given.get(key, "").lower() == "true" and excluded:
            return say(
                "`{name}={value}`: `{use}` refuses `{key}` together with `{other}` on {target}; set only one",
                name=row.name, value=value, use=row.use, key=key, other=excluded[0], target=target.title,
            )  # fmt: skip
    return None


def _not_numbers(target: Target, row: Row, value: str, ascending: bool, entries: list[str]) -> Message | None:
    entries = [entry for entry in entries if entry and _HOLE not in entry]
    if not all(map(_is_number, entries)):
        message = say(
            "`{name}={value}`: `{use}` takes only card numbers on {target}; name the cards by number",
            name=row.name, value=value, use=row.use, target=target.title,
        )  # fmt: skip
        return noted(message, row.remark)
    numbers = [*map(int, entries)]
    if ascending and numbers != sorted(set(numbers)):
        return say(
            "`{name}={value}`: `{use}` accepts only ascending numbers on {target}, and with others no card is visible; "
            "choose the cards in order",
            name=row.name, value=value, use=row.use, target=target.title,
        )  # fmt: skip
    return None
