"""Records as JSON text, and back: for what is kept between runs and read where nobody vouches for it.

Nothing is executed and nothing is imported by a name in the text: classes are looked for by their place in a list that
the reader gives. Equal records that are one object are written once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from torchferry.core.json_text import parsed_json

_ENUM, _RECORD, _TUPLE, _LIST, _MAPPING, _AGAIN = range(6)


class RecordsError(ValueError):
    """A value is no record, or a text holds none; the message says what."""


_Check = Callable[[Any], bool]
_PLAIN: dict[str, type] = {"str": str, "int": int, "bool": bool, "float": float, "None": type(None)}

_ALIASES = {"Value": "str | Bilingual | Message"}
"""Names of annotations that represent others: what a placeholder of a message may be filled with."""


class _Types:
    """Checks values by the annotations of records, which are texts.

    Args:
        classes: The classes that they may name; any other name is not checked.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        self._classes = {each.__name__: each for each in classes}
        self._checks: dict[str, _Check] = {}

    def check(self, text: str) -> _Check:
        """Return the check for an annotation: plain types, classes, `tuple[...]`, `Mapping[...]`, and `X | Y`."""
        if text not in self._checks:
            self._checks[text] = self._made(text)
        return self._checks[text]

    def _made(self, text: str) -> _Check:
        parts = _split(_ALIASES.get(text, text), "|")
        if len(parts) > 1:
            others = [self.check(part) for part in parts]
            return lambda value: any(check(value) for check in others)
        name, bracket, inner = text.partition("[")
        if name in _PLAIN:
            plain = _PLAIN[name]
            return lambda value: type(value) is plain
        if name in self._classes:
            kind = self._classes[name]
            return lambda value: isinstance(value, kind)
        items = [self.check(part) for part in _split(inner.removesuffix("]"), ",") if part != "..."] if bracket else []
        if name == "tuple" and inner.endswith(", ...]"):
            return lambda value: type(value) is tuple and all(map(items[0], value))
        if name == "tuple":
            return lambda value: (
                type(value) is tuple
                and len(value) == len(items)
                and all(check(item) for check, item in zip(items, value, strict=True))
            )
        if name in ("Mapping", "dict"):
            return lambda value: (
                isinstance(value, dict) and all(items[0](key) and items[1](item) for key, item in value.items())
            )
        return lambda value: True


def _split(text: str, mark: str) -> list[str]:
    """Split an annotation at a sign that is in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def records_to_json(value: object, classes: Iterable[type]) -> str:
    """Return a record as text.

    Args:
        value: Records (`core.record`), enumerations, tuples, lists, mappings, texts, numbers, truth values and None.
        classes: The classes of records and enumerations that it may hold, as `records_from_json` is given them.

    Raises:
        RecordsError: it holds something else.
    """
    numbers = {kind: number for number, kind in enumerate(classes)}
    written: dict[int, int] = {}

    def plain(value: Any) -> Any:
        if value is None or type(value) in (str, int, bool, float):
            return value
        number = numbers.get(type(value))
        if isinstance(value, Enum):
            if number is None:
                raise RecordsError(f"{type(value).__qualname__} is not in the list of classes")
            return [_ENUM, number, value.name]
        if isinstance(value, tuple):
            again = written.get(id(value))
            if again is not None:
                return [_AGAIN, again]
            if number is None and type(value) is not tuple:
                raise RecordsError(f"{type(value).__qualname__} is not in the list of classes")
            items = [plain(item) for item in value]
            written[id(value)] = len(written)
            return [_TUPLE, *items] if number is None else [_RECORD, number, *items]
        if isinstance(value, list):
            return [_LIST, *map(plain, value)]
        if isinstance(value, Mapping):
            return [_MAPPING, *([plain(key), plain(item)] for key, item in value.items())]
        raise RecordsError(f"{type(value).__qualname__} is no record")

    return json.dumps(plain(value), separators=(",", ":"))


def records_from_json(text: str | bytes, classes: Iterable[type]) -> Any:
    """Return the record that a text holds.

    Args:
        text: What `records_to_json` has written.
        classes: The same classes in the same order.

    Raises:
        RecordsError: it is no such text, or a record has a value of another type than it says.
    """
    kinds = list(classes)
    types = _Types(kinds)
    checks: dict[type, list[_Check]] = {}
    read: list[Any] = []

    def kind_of(number: Any, base: type) -> Any:
        if type(number) is not int or number < 0 or not issubclass(kinds[number], base):
            raise RecordsError("no such class")
        return kinds[number]

    def whole(value: Any) -> Any:
        if type(value) is not list:
            if isinstance(value, dict):
                raise RecordsError("an object of JSON")
            return value
        tag = value[0]
        if tag == _AGAIN:
            return read[value[1]]
        if tag == _RECORD:
            kind = kind_of(value[1], tuple)
            record = kind(*[whole(item) for item in value[2:]])
            if kind not in checks:
                checks[kind] = [types.check(text) for text in kind.__annotations__.values()]
            if not all(check(item) for check, item in zip(checks[kind], record, strict=True)):
                raise RecordsError(f"{kind.__qualname__} with a value of another type")
            read.append(record)
            return record
        if tag == _TUPLE:
            items = tuple([whole(item) for item in value[1:]])
            read.append(items)
            return items
        if tag == _ENUM:
            return kind_of(value[1], Enum)[value[2]]
        if tag == _LIST:
            return [whole(item) for item in value[1:]]
        if tag == _MAPPING:
            return {whole(key): whole(item) for key, item in value[1:]}
        raise RecordsError("an unknown mark")

    try:
        return whole(parsed_json(text))
    except RecordsError:
        raise
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordsError(str(error)) from None
