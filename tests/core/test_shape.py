"""Shapes of documents: what fits, and where something does not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from torchferry.core.shape import ShapeError, checked

FITS: list[tuple[Any, Any]] = [
    ("a", str), (1, int), (1, float), (1.5, float), (True, bool), (None, None), ([], list), ({}, dict),
    ([None], object), (None, (str, None)), ([], [str]), (["a"], [str]), (["a", 1], [str, int]), ({}, {"a?": str}),
    ({"b": 1}, {"a?": str}), ({"a": {"b": [1]}}, {"a": {"b": [int]}}), ({"x": 1, "y": 2}, {str: int}),
    ({"device": 1}, ({"device": object}, str)),
]  # fmt: skip
DIFFERS: list[tuple[Any, Any, str]] = [
    (1, str, "$ is 1, not a text"),
    (True, int, "$ is True, not a whole number"),
    (1.0, int, "$ is 1.0, not a whole number"),
    (True, float, "not a number"),
    (math.nan, float, "$ is nan, not a number"),
    (math.inf, float, "not a number"),
    (0, bool, "not true or false"),
    ([1, "a"], [int], "$[1] is 'a', not a whole number"),
    ("ab", [str], "$ is 'ab', not a list"),
    (["a"], [str, int], "$ has 1 values, not 2"),
    ({"a": {"b": [1, {}]}}, {"a": {"b": [int]}}, "$.a.b[1] is an object, not a whole number"),
    ({"x": "1"}, {str: int}, "$.x is '1', not a whole number"),
    ({}, {"a": str}, "$ has no `a`"),
    ({"a": 1}, {"a?": str}, "$.a is 1, not a text"),
    ([], {"a?": str}, "$ is a list, not an object"),
    (1, (str, None), "$ is 1, not a text or null"),
    ("a" * 500, int, "..."),
]


@pytest.mark.parametrize(("value", "shape"), FITS)
def test_what_fits_is_returned(value: Any, shape: Any) -> None:
    assert checked(value, shape) is value


@pytest.mark.parametrize(("value", "shape", "message"), DIFFERS)
def test_what_differs_is_named_with_its_place(value: Any, shape: Any, message: str) -> None:
    with pytest.raises(ShapeError) as caught:
        checked(value, shape)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200
