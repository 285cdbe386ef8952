"""Whether a document that others wrote has the values that a reader takes from it, and where it has not.

A shape is written as the document is:

    {"name": str, "seconds?": float, "files": [{"path": str}], "counts": {str: int}, "torch": (dict, None)}

A class represents a value of it; `float` for any finite number; `object` for anything. A tuple represents one of
several shapes, a list of one shape for a list, a list of more for a list of just these, `{str: shape}` for an object
with any names. A name with `?` may be absent; names that the shape lacks are left to newer versions.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

_NAMES = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object", list: "a list",
}  # fmt: skip
_SHOWN = 60


class ShapeError(ValueError):
    """A value does not have its shape; the message says where, and what was expected."""


def checked(value: Any, shape: Any, place: str = "$") -> Any:
    """Return a value that has a shape.

    Raises:
        ShapeError: it has not.
    """
    if isinstance(shape, tuple):
        if not any(_fits(value, each) for each in shape):
            raise _error(value, place, " or ".join(_name(each) for each in shape))
    elif isinstance(shape, list):
        _check_list(value, shape, place)
    elif isinstance(shape, dict):
        _check_object(value, shape, place)
    elif not _is_of(value, shape):
        raise _error(value, place, _name(shape))
    return value


def _fits(value: Any, shape: Any) -> bool:
    try:
        checked(value, shape)
    except ShapeError:
        return False
    return True


def _check_list(value: Any, shape: list[Any], place: str) -> None:
    if not isinstance(value, list):
        raise _error(value, place, "a list")
    if len(shape) > 1 and len(value) != len(shape):
        raise ShapeError(f"{place} has {len(value)} values, not {len(shape)}")
    for number, entry in enumerate(value):
        checked(entry, shape[number] if len(shape) > 1 else shape[0], f"{place}[{number}]")


def _check_object(value: Any, shape: dict[Any, Any], place: str) -> None:
    if not isinstance(value, dict):
        raise _error(value, place, "an object")
    if str in shape:
        for name, entry in value.items():
            checked(entry, shape[str], f"{place}.{name[:_SHOWN]}")
        return
    for name, inner in shape.items():
        key = name.removesuffix("?")
        if key in value:
            checked(value[key], inner, f"{place}.{key}")
        elif key == name:
            raise ShapeError(f"{place} has no `{name}`")


def _is_of(value: Any, shape: Any) -> bool:
    if shape is None or shape is object:
        return shape is object or value is None
    if shape is float:
        return type(value) is int or (type(value) is float and isfinite(value))
    if shape is int:
        return type(value) is int
    return isinstance(value, shape)


def _name(shape: Any) -> str:
    if isinstance(shape, (list, dict)):
        return _NAMES[type(shape)]
    return "null" if shape is None else _NAMES.get(shape, str(shape))


def _error(value: Any, place: str, expected: str) -> ShapeError:
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else _name(type(value))
    return ShapeError(f"{place} is {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'}, not {expected}")
