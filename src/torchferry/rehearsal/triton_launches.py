"""What Triton kernels are launched with in a rehearsal, kept so that `torchferry triton check` can compile them.

Of each argument what decides how Triton compiles a kernel is kept: the dtype of a tensor and whether it begins at a
multiple of 16 bytes, the type of a number and whether it is 1 or a multiple of 16, the value of a constant.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

_MOST = 1_000
"""Kinds of launches that a process keeps; further ones are counted."""

_ALIGNED = 16
_INT32 = 2**31

_LONGEST = 200
"""Characters of a text that is a constant."""


class LaunchRecord:
    """The launches of this process."""

    def __init__(self) -> None:
        self._launches: dict[str, dict[str, Any]] = {}
        self._left_out = 0

    def add(self, function: Any, given: Mapping[str, Any], place: tuple[str, int]) -> None:
        """Keep a launch, or count it where it is of a kind that was there.

        Args:
            function: The kernel's function.
            given: Its arguments by name.
            place: The file and the line of the launch.
        """
        annotations = getattr(function, "__annotations__", {})
        constants = {name for name in given if "constexpr" in _text_of(annotations.get(name, ""))}
        arguments = [_described(name, value, name in constants) for name, value in given.items()]
        kinds = [_without_number(each) for each in arguments]
        key = repr((function.__qualname__, function.__code__.co_filename, kinds))
        known = self._launches.get(key)
        if known is not None:
            known["times"] += 1
        elif len(self._launches) >= _MOST:
            self._left_out += 1
        else:
            self._launches[key] = {
                "kernel": function.__name__,
                "file": function.__code__.co_filename,
                "line": _definition_line(function),
                "place_file": place[0],
                "place_line": place[1],
                "times": 1,
                "arguments": arguments,
            }

    def document(self) -> dict[str, object]:
        """Return the launches in values that JSON has."""
        if not self._launches:
            return {}
        return {"triton_launches": [*self._launches.values()], "triton_launches_left_out": self._left_out}


def _text_of(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else str(getattr(annotation, "__name__", annotation))


def _definition_line(function: Any) -> int:
    """Return the line of `def`, which is below the decorators."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return int(function.__code__.co_firstlineno)
    before = next((number for number, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    return first + before


def _described(name: str, value: Any, is_constant: bool) -> dict[str, Any]:
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    dtype = getattr(value, "dtype", None)
    if dtype is not None and hasattr(value, "data_ptr"):
        kind = str(dtype).removeprefix("torch.")
        return {"name": name, "kind": "tensor", "type": kind, "aligned": value.data_ptr() % _ALIGNED == 0}
    if value is None or isinstance(value, bool) or (is_constant and isinstance(value, (int, float))):
        return {"name": name, "kind": "value", "value": value}
    if isinstance(value, int):
        kind = "i32" if -_INT32 <= value < _INT32 else "i64" if value < 2**63 else "u64"
        return {"name": name, "kind": "scalar", "type": kind, "value": value}
    if isinstance(value, float):
        return {"name": name, "kind": "scalar", "type": "fp32"}
    if isinstance(value, str) and len(value) <= _LONGEST:
        return {"name": name, "kind": "value", "value": value}
    if type(value).__name__ == "dtype" and hasattr(value, "primitive_bitwidth"):
        return {"name": name, "kind": "dtype", "type": _full_name(str(value))}
    return {"name": name, "kind": "unknown", "type": type(value).__name__}


def _without_number(described: dict[str, Any]) -> dict[str, Any]:
    """Return an argument without its number, but for what Triton compiles a kernel of its own for."""
    value = described.get("value")
    if described["kind"] != "scalar" or value is None:
        return described
    return {**described, "value": 1 if value == 1 else _ALIGNED if value % _ALIGNED == 0 else 0}


def _full_name(short: str) -> str:
    """Return the name in `triton.language` of what Triton writes as `fp32`."""
    for start, whole in (("fp8", "float8"), ("fp", "float"), ("bf", "bfloat"), ("uint", "uint"), ("int", "int")):
        if short.startswith(start):
            return whole + short.removeprefix(start)
    return short


record = LaunchRecord()
"""The launches of this process."""
