"""What of a document a client gets: the part that it asks for, chosen, counted or from a place on, within a budget.

A document is what a command reported. Its lists are parts; the rest is the head. An answer has the head, and of each
part as much as there is room for; `left_out` says of which part how much is not there, and where to go on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchferry.core.errors import UsageError, unknown_name
from torchferry.core.messages import Message, say, say_plural

BUDGET = 12_000
"""Bytes of an answer, where the client requests no other: some 3,000 tokens."""

LEAST_BUDGET, LARGEST_BUDGET = 2_000, 200_000

_NAMED = 12
"""Entries of a table in the head that is shown as it is; a longer one becomes a part."""

_WORDS = (2_000, 600, 200, 60)
"""Characters that a text may have in what does not fit: the first of these with which it does."""

_ITEMS = (40, 12, 4, 1)
"""Items that a list within an item may have, likewise."""


@dataclass(frozen=True)
class DocumentView:
    """What a client asks for.

    Attributes:
        part: The part to show; empty for the head and the beginning of each.
        where: Conditions that an item must meet: `field=text`, where the field holds the text; or a text that any of
            its fields holds.
        group_by: A field by whose values the items are counted, in place of the items.
        offset: Items of the part to pass over.
        limit: Most items of the part.
        budget: Bytes of the answer as JSON.
    """

    part: str = ""
    where: tuple[str, ...] = ()
    group_by: str = ""
    offset: int = 0
    limit: int = 50
    budget: int = BUDGET


@dataclass(frozen=True)
class DocumentShape:
    """How the documents of a tool are shown.

    Attributes:
        main: The part that `where`, `group_by`, `offset` and `limit` are about where none is named; gets what room is
            left. Empty for the first.
        first: Names of the head that come before all others.
        hidden: Names that are not shown: they say what the client knows, or hold the same twice.
        empty: By part, what it means that it is empty.
    """

    main: str = ""
    first: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    empty: Mapping[str, Message] | None = None


def size(value: object) -> int:
    """Return the bytes of a value as JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def shown(document: Mapping[str, Any], shape: DocumentShape, view: DocumentView) -> dict[str, Any]:
    """Return what of a document a client gets.

    Args:
        document: What a command reported.
        shape: How it is shown.
        view: What the client asks for.

    Raises:
        UsageError: it has no such part, or its items no such field.
    """
    head, parts = _divided(document, shape)
    main = shape.main if shape.main in parts else next(iter(parts), "")
    if view.part and view.part not in parts:
        # translators: the kind of a name that is unknown, as in "unknown part `x`"
        raise unknown_name("part", view.part, parts)
    chosen = view.part or main
    asks = bool(view.where or view.group_by or view.offset)
    if asks and not chosen:
        raise UsageError(say("this answer has no lists: leave `where`, `group_by` and `offset` out"))
    answer: dict[str, Any] = {}
    if not view.part:
        answer |= _fitting(head, view.budget // 2 - _BESIDE)
    left_out: dict[str, Any] = {}
    why: dict[str, str] = {}
    others = [] if view.part or asks else [name for name in parts if name != main]
    others.sort(key=lambda name: shape.first.index(name) if name in shape.first else len(shape.first))
    for number, name in enumerate(others):
        left = sum(bool(parts[each]) for each in others[number:])
        room = (view.budget - size(answer)) // 2 // max(1, left)
        _add(answer, left_out, name, parts[name], 0, view.limit, room)
    if chosen:
        items = _meeting(parts[chosen], view.where, chosen)
        if not items:
            why[chosen] = _why_empty(shape, chosen, len(parts[chosen]), view.where)
        elif view.offset >= len(items):
            why[chosen] = say("`offset` is behind the last item").render()
        if view.group_by:
            items = _counted(items, view.group_by, chosen)
        room = view.budget - size(answer) - size(left_out) - size(why) - _BESIDE
        _add(answer, left_out, chosen, items, view.offset, view.limit, room)
        if view.where or view.group_by:
            answer["counted" if view.group_by else "chosen"] = {"of": len(parts[chosen]), "items": len(items)}
    for name in others:
        if not parts[name] and shape.empty and name in shape.empty:
            why[name] = shape.empty[name].render()
    if why:
        answer["why_empty"] = why
    if left_out:
        answer["left_out"] = left_out
    return answer


_BESIDE = 300
"""Bytes for what an answer says about itself."""


def _divided(document: Mapping[str, Any], shape: DocumentShape) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the head of a document, and its parts: lists, and tables with many entries."""
    head: dict[str, Any] = {name: document[name] for name in shape.first if name in document}
    parts: dict[str, list[Any]] = {}
    for name, value in document.items():
        if name in shape.hidden or (name in head and not isinstance(value, list)):
            continue
        if isinstance(value, list):
            head.pop(name, None)
            parts[name] = value
        elif isinstance(value, dict) and len(value) > _NAMED:
            parts[name] = [
                {"name": key, **each} if isinstance(each, dict) else {"name": key, "value": each}
                for key, each in value.items()
            ]
        else:
            head[name] = value
    return head, parts


def _add(
    answer: dict[str, Any], left_out: dict[str, Any], name: str, items: Sequence[Any], offset: int, most: int, room: int
) -> None:
    """Put as many items of a part into an answer as there is room for, and say what is left out."""
    taken: list[Any] = []
    used = 0
    for item in items[offset : offset + most]:
        cost = size(item) + 2
        if used + cost > room:
            if taken:
                break
            item = _fitting(item, max(room, _BESIDE))  # one that never fits would be met again at each offset
            cost = size(item) + 2
        taken.append(item)
        used += cost
    answer[name] = taken
    end = offset + len(taken)
    if offset or end < len(items):
        left_out[name] = {"total": len(items), "next_offset": end if end < len(items) else None}


def _meeting(items: Sequence[Any], where: Iterable[str], part: str) -> list[Any]:
    """Return the items that meet all conditions."""
    chosen = list(items)
    fields = {field for item in items if isinstance(item, dict) for field in item}
    for condition in where:
        field, equals, text = condition.partition("=")
        if equals and field in fields:
            chosen = [item for item in chosen if isinstance(item, dict) and text.lower() in _text(item.get(field))]
        elif equals and field.isidentifier() and fields:
            raise _unknown_field(field, fields, part)
        else:
            chosen = [item for item in chosen if condition.lower() in _text(item)]
    return chosen


def _counted(items: Iterable[Any], field: str, part: str) -> list[dict[str, Any]]:
    """Return the values of a field, each with how many items have it, the most frequent first."""
    rows = [item for item in items if isinstance(item, dict)]
    if rows and not any(field in item for item in rows):
        raise _unknown_field(field, {name for item in rows for name in item}, part)
    numbers = Counter(str(item.get(field, "")) for item in rows)
    return [{field: value, "count": count} for value, count in numbers.most_common()]


def _unknown_field(field: str, fields: Iterable[str], part: str) -> UsageError:
    return UsageError(
        say("the items of `{part}` have no field `{field}`", part=part, field=field[:80]),
        say("they have: {names}", names=", ".join(sorted(fields))),
    )


def _text(value: object) -> str:
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).lower()


def _why_empty(shape: DocumentShape, part: str, total: int, where: Sequence[str]) -> str:
    if total:
        return say_plural(
            "the only item of `{part}` does not meet: {conditions}",
            "none of the {count} items of `{part}` meets: {conditions}",
            count=total,
            part=part,
            conditions="; ".join(where),
        ).render()
    if shape.empty and part in shape.empty:
        return shape.empty[part].render()
    return say("the command reported none").render()


def _fitting(value: Any, room: int) -> Any:
    """Return a value as it is where there is room, or with its texts and lists cut until there is; each cut is said."""
    for words, items in zip(_WORDS, _ITEMS, strict=True):
        if size(value) <= room:
            return value
        value = _cut(value, words, items)
    if size(value) > room and isinstance(value, dict):  # so many names that none of their values matters
        left = dict(value)
        while left and size(left) > room:
            left.popitem()
        return {**left, "...": len(value) - len(left)}
    return value if size(value) <= room else say_plural("{count} byte", "{count} bytes", count=size(value)).render()


def _cut(value: Any, words: int, items: int) -> Any:
    if isinstance(value, str):
        if len(value) <= words + _MARK:
            return value
        return f"{value[:words]}... (+{len(value) - words} characters)"
    if isinstance(value, list):
        whole = [_cut(each, words, items) for each in value[:items]]
        return whole if len(value) <= items else [*whole, f"... (+{len(value) - items})"]
    if isinstance(value, dict):
        return {_cut(key, words, items): _cut(each, words, items) for key, each in value.items()}
    return value


_MARK = 30
"""Characters of what says that a text is cut."""
