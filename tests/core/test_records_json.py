"""Records as text: what is read is what was written, and nothing else is read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchferry.core.record import NamedTuple
from torchferry.core.records_json import RecordsError, records_from_json, records_to_json


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    name: str
    value: object = None


class Other(NamedTuple):
    name: str


CLASSES = [Colour, Point]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(Colour),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner)
        | st.builds(Point, st.text(max_size=3), inner)
    ),
)


def types(value: object) -> object:
    """Return a value with the classes of its parts: a list is no tuple, and 1 no True."""
    if isinstance(value, (list, tuple)):
        return type(value), [types(part) for part in value]
    if isinstance(value, Mapping):
        return type(value), [(key, types(part)) for key, part in value.items()]
    return type(value), value


@given(VALUES)
def test_what_is_read_is_what_was_written(value: object) -> None:
    assert types(records_from_json(records_to_json(value, CLASSES), CLASSES)) == types(value)


def test_what_is_one_object_is_written_once_and_read_as_one() -> None:
    point = Point("a" * 100)
    text = records_to_json((point, [point, point]), CLASSES)
    first, (second, third) = records_from_json(text, CLASSES)
    assert first is second is third
    assert text.count("a" * 100) == 1


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), b"x", Other("a"), [Other("a")], Point], ids=lambda value: type(value).__name__
)
def test_what_is_no_record_is_refused(value: object) -> None:
    with pytest.raises(RecordsError):
        records_to_json(value, CLASSES)


class Typed(NamedTuple):
    number: int
    texts: tuple[str, ...] = ()
    pair: tuple[int, Colour] | None = None
    points: Mapping[str, Point] = {}


RIGHT = [Typed(1), Typed(1, ("a", "b"), (2, Colour.RED), {"a": Point("b")})]
WRONG: list[tuple[object, ...]] = [
    ("1",), (True,), (1, ("a", 2)), (1, ["a"]), (1, (), (1, 2)), (1, (), (1, Colour.RED, 3)), (1, (), None, {"a": "b"}),
    (1, (), None, ()),
]  # fmt: skip


@pytest.mark.parametrize("values", WRONG, ids=repr)
def test_a_value_of_another_type_is_an_error(values: tuple[Any, ...]) -> None:
    with pytest.raises(RecordsError):
        records_from_json(records_to_json(Typed(*values), [*CLASSES, Typed]), [*CLASSES, Typed])


@pytest.mark.parametrize("typed", RIGHT, ids=repr)
def test_values_of_their_types_are_read(typed: Typed) -> None:
    assert records_from_json(records_to_json(typed, [*CLASSES, Typed]), [*CLASSES, Typed]) == typed


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a": 1}', "[]", "[9]", "[1]", "[1, 7]", "[1, 1]", "[1, 1, 2, 3, 4]", '[0, 0, "GREEN"]',
     '[0, 1, "name"]', "[5, 0]",
     '["a"]', "[2, [5, 1]]", "[4, [1, 2, 3]]", "[4, 1]", "[4, [[3], 1]]", "[" * 100_000, "[null]",
     "[0, 0, 1]", "[1, -3, 2]"],
)  # fmt: skip
def test_what_is_no_text_of_records_is_an_error(text: str) -> None:
    with pytest.raises(RecordsError):
        records_from_json(text, CLASSES)
