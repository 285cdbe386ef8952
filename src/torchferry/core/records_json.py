"""Records as JSON text, and back: for what is kept between runs and read where nobody vouches for it.

Nothing is executed and nothing is imported by a name in the text: classes are looked for by their place in a list that
the reader gives. Equal records that are one object are written once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from torchferry.core.json_text import parsed_json

_ENUM, _RECORD, _TUPLE, _LIST, _MAPPING, _AGAIN = range(6)


class RecordsError(ValueError):
    """A value is no record, or a text holds none; the message says what."""


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
        RecordsError: it is no such text.
    """
    kinds = list(classes)
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
            record = kind_of(value[1], tuple)(*[whole(item) for item in value[2:]])
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
