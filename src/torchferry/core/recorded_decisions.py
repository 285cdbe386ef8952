"""What people decided about places that torchferry left to them: a file of the project, under version control with it.

A decision holds for the places that it names by their anchors, on one target. Where the code of a place has changed,
the decision does not hold for it any more, and the place is asked about again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchferry.core import toml
from torchferry.core.errors import UsageError
from torchferry.core.finding import Anchor
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple

FILE = "torchferry-decisions.toml"

ACCEPT, FIX = "accept", "fix"
CHOICES = (ACCEPT, FIX)

_HEAD = "# What was decided about places that torchferry leaves to people. `torchferry decide` writes this file.\n"
_TEXTS = ("id", "target", "choice", "by", "why")
_KEYS = frozenset({*_TEXTS, "places"})
_LONGEST = 2_000
"""Characters of one text: more than anybody writes as a reason."""


class DecidedPlace(NamedTuple):
    """A place that was decided about: its file relative to the decisions' one, the rule, and its anchor there."""

    path: str
    code: str
    anchor: Anchor


class RecordedDecision(NamedTuple):
    """What was decided.

    Attributes:
        id: What the report called it.
        target: The target's name.
        choice: `accept`: the places stay as they are; `fix`: the fixes there are right.
        by: Who decided.
        why: The reason; empty where none was given.
        places: The places.
    """

    id: str
    target: str
    choice: str
    by: str
    why: str
    places: frozenset[DecidedPlace]

    def holds_for(self, path: str, code: str, anchor: Anchor) -> bool:
        """Whether a place is among those that were decided about."""
        return DecidedPlace(path, code, anchor) in self.places


def read_decisions(root: Path) -> tuple[RecordedDecision, ...]:
    """Return the decisions of a project; none where it has no such file.

    Raises:
        UsageError: the file cannot be read, is no TOML (it may hold a conflict of git), or contradicts itself.
    """
    path = root / FILE
    try:
        document = toml.load(path)
    except FileNotFoundError:
        return ()
    except (toml.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            say("{path} is not TOML: {error}", path=path, error=error),
            say("correct it, or remove it and decide again"),
        ) from None
    except OSError as error:
        raise UsageError(say("{path} cannot be read: {error}", path=path, error=error.strerror)) from None
    entries = document.get("decision", [])
    if set(document) - {"decision"} or not isinstance(entries, list):
        raise UsageError(
            say("{path} is not a file of decisions: it has other keys than `decision`", path=path),
            say("remove them, or remove the file and decide again"),
        )
    decisions = tuple(_decision(path, number, entry) for number, entry in enumerate(entries, 1))
    _refuse_contradictions(path, decisions)
    return decisions


def _decision(path: Path, number: int, entry: Any) -> RecordedDecision:
    problem = UsageError(
        say("{path}: decision {number} is not complete or has a wrong value", path=path, number=number),
        say(
            "it needs the strings {names} and the list `places`; correct it or remove it",
            names=", ".join(f"`{name}`" for name in _TEXTS),
        ),
    )
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise problem
    texts = {name: entry[name] for name in _TEXTS}
    places = entry["places"]
    if any(not isinstance(text, str) or len(text) > _LONGEST for text in texts.values()) or not isinstance(
        places, list
    ):
        raise problem
    if texts["choice"] not in CHOICES:
        raise problem
    if not texts["by"].strip():
        raise UsageError(
            say("{path}: decision {number} does not say who decided", path=path, number=number),
            say('write the name: `by = "..."`'),
        )
    return RecordedDecision(**texts, places=frozenset(_place(place, problem) for place in places))


def _place(place: Any, problem: UsageError) -> DecidedPlace:
    """Return a place that is written as `[PATH, CODE, SYMBOL, TEXT, ORDINAL]`."""
    if not isinstance(place, list) or [type(part) for part in place] != [str, str, str, str, int]:
        raise problem
    path, code, symbol, text, ordinal = place
    return DecidedPlace(path, code, Anchor(symbol, text, ordinal))


def _refuse_contradictions(path: Path, decisions: Iterable[RecordedDecision]) -> None:
    choices: dict[tuple[str, DecidedPlace], RecordedDecision] = {}
    for decision in decisions:
        for place in decision.places:
            other = choices.setdefault((decision.target, place), decision)
            if other.choice != decision.choice:
                raise UsageError(
                    say(
                        "{path}: {first} decided `{one}` for a place of `{id}`, and {second} decided `{other}`",
                        path=path,
                        first=other.by,
                        one=other.choice,
                        id=decision.id,
                        second=decision.by,
                        other=decision.choice,
                    ),
                    say("remove one of the two"),
                )


def with_decision(decisions: Iterable[RecordedDecision], new: RecordedDecision) -> tuple[RecordedDecision, ...]:
    """Return decisions with a new one, which replaces what was decided about its places before."""
    others = []
    for each in decisions:
        left = each if each.target != new.target else each._replace(places=each.places - new.places)
        if left.places:
            others.append(left)
    return (*others, new)


def decisions_text(decisions: Iterable[RecordedDecision]) -> str:
    """Return the file of decisions, in an order that does not depend on when they were made."""
    ordered = sorted(decisions, key=lambda each: (each.target, each.id, each.choice, each.by, each.why))
    return "".join((_HEAD, *(f"\n{decision_text(each)}" for each in ordered)))


def decision_text(decision: RecordedDecision) -> str:
    """Return one decision as it is in the file."""
    parts = ["[[decision]]\n"]
    parts += [f"{name} = {_quoted(getattr(decision, name))}\n" for name in _TEXTS]
    parts.append("places = [\n")
    parts += [f"  [{_written(place)}],\n" for place in sorted(decision.places)]
    parts.append("]\n")
    return "".join(parts)


def _written(place: DecidedPlace) -> str:
    symbol, text, ordinal = place.anchor
    return ", ".join([*map(_quoted, (place.path, place.code, symbol, text)), str(ordinal)])


def _quoted(text: str) -> str:
    """Return a text as TOML writes it: as JSON does, with all that nobody can see as numbers."""
    quoted = json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(each) for each in quoted)


def _escaped(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) <= 0xFFFF else f"\\U{ord(letter):08x}"
