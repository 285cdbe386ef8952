"""What a run needs: each operator that it calls on the accelerator, as `ops trace` and `ops predict` write it.

The file is JSON and untrusted: its size and each of its values are checked when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torchferry.backends.operators import NAME
from torchferry.core.json_text import json_text
from torchferry.core.messages import say
from torchferry.ops.listfile import ListFormat, parsed_list, read_list

FORMAT = "torchferry operators"
VERSION = 1

_FILE = ListFormat(
    FORMAT,
    VERSION,
    64 << 20,  # a program calls some hundreds of operators, and of each a few shapes are kept
    lambda path: say("{path} is not a file that `ops trace` or `ops predict` wrote", path=path),
    say("write it again with `torchferry ops trace` or `torchferry ops predict`"),
)

MOST_SHAPES = 8
"""Kinds of arguments that are kept of one operator, the most frequent ones."""

MOST_MODULES = 8
"""Modules that are kept of one operator, those that call it most."""

TRACE, PREDICT = "trace", "predict"

COMPOSITIONS = frozenset({"implicit", "explicit", "derived", ""})

PHASES = ("forward", "backward", "recompute", "optimizer", "gradient scaling", "")
"""Where a call belongs; empty where only the device saw it."""


@dataclass(frozen=True)
class OperatorNeed:
    """What a run needs of one operator.

    Attributes:
        name: With its namespace and overload: `aten::add.Tensor`.
        calls: How often it was called.
        bytes: Bytes of its tensors on the device, inputs and results of all calls: what a fallback would copy.
        phases: Calls in each of `PHASES`.
        modules: Calls in modules, `ResNet.layer1.0.conv1`, at most `MOST_MODULES`; empty name outside of modules.
        dtypes: Names of the dtypes of its tensors.
        shapes: Calls for each kind of arguments, `float32[8,64]`, at most `MOST_SHAPES`.
        composition: What torch makes it of without a kernel: one of `COMPOSITIONS`, as in `ops.composition`.
        derived_from: The form that it is made of, where it is `derived`: `aten::add.out`.
        schema: As torch writes it; empty where torch was not asked.
        inside: Those of the calls that torch made to compose another operator, by its name: a device that has a kernel
            for that one does not need them.
    """

    name: str
    calls: int
    bytes: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)
    modules: Mapping[str, int] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    shapes: Mapping[str, int] = field(default_factory=dict)
    composition: str = ""
    derived_from: str = ""
    schema: str = ""
    inside: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RunNeeds:
    """What a run needs.

    Attributes:
        how: `trace` or `predict`.
        command: What ran: the command, or the file and function.
        torch: The torch that it ran with.
        target: Target whose composition torch followed, with its version; empty for torch's own.
        device: Type of the device that operators were seen on.
        operators: By falling number of calls.
        exit_code: How the command ended.
        processes: How many processes were seen to their end.
        broken: Processes that began and did not end well, such as killed ones.
        notes: What a reader should know of the run: the place of an error, values that were made up.
    """

    how: str
    command: tuple[str, ...]
    torch: str
    target: str
    device: str
    operators: tuple[OperatorNeed, ...]
    exit_code: int = 0
    processes: int = 1
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the run was seen to a good end."""
        return self.exit_code == 0 and not self.broken

    def to_json(self) -> str:
        """Return the run as the text of a file."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self), "complete": self.is_complete}
        return json_text(document)


def merged(parts: Iterable[Iterable[OperatorNeed]]) -> tuple[OperatorNeed, ...]:
    """Return the needs of several processes as those of one run, by falling number of calls."""
    by_name: dict[str, list[OperatorNeed]] = {}
    for part in parts:
        for need in part:
            by_name.setdefault(need.name, []).append(need)
    joined = [_joined(needs) for needs in by_name.values()]
    return tuple(sorted(joined, key=lambda need: (-need.calls, need.name)))


def _joined(needs: list[OperatorNeed]) -> OperatorNeed:
    first = needs[0]
    return OperatorNeed(
        first.name,
        sum(need.calls for need in needs),
        sum(need.bytes for need in needs),
        added(need.phases for need in needs),
        most_frequent(added(need.modules for need in needs), MOST_MODULES),
        tuple(sorted({dtype for need in needs for dtype in need.dtypes})),
        most_frequent(added(need.shapes for need in needs), MOST_SHAPES),
        first.composition,
        first.derived_from,
        first.schema,
        added(need.inside for need in needs),
    )


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of several counts."""
    sums: dict[str, int] = {}
    for each in counts:
        for key, number in each.items():
            sums[key] = sums.get(key, 0) + number
    return sums


def most_frequent(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the largest counts, largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most])


def read(path: Path) -> RunNeeds:
    """Return what a file says.

    Raises:
        TorchferryError: it cannot be read, is no such file, is of another version, or is damaged.
    """
    return read_list(path, _FILE, _needs)


def from_document(document: Any, path: str) -> RunNeeds:
    """Return what a parsed file says.

    Raises:
        TorchferryError: it is no such file, of another version, or damaged.
    """
    return parsed_list(document, path, _FILE, _needs)


def _needs(document: dict[str, Any]) -> RunNeeds:
    operators = tuple(need_of(entry) for entry in _list(document["operators"]))
    values = {
        each.name: _checked(document[each.name], each.name) for each in fields(RunNeeds) if each.name != "operators"
    }
    return RunNeeds(operators=operators, **values)


def _checked(value: Any, name: str) -> Any:
    if name in {"command", "broken", "notes"}:
        return tuple(_text(each) for each in _list(value))
    if name in {"exit_code", "processes"}:
        return _number(value, negative=True)
    return _text(value)


def need_of(entry: Any) -> OperatorNeed:
    """Return the need that an entry of such a file says.

    Raises:
        KeyError, TypeError, ValueError: the entry lacks a value, or has one that does not fit.
    """
    name = _text(entry["name"])
    space, _, plain = name.partition("::")
    if not space.isidentifier() or NAME.fullmatch(plain) is None:
        raise ValueError(f"`{name[:80]}` is no operator's name such as `aten::add.Tensor`")
    composition = _text(entry["composition"])
    if composition not in COMPOSITIONS:
        raise ValueError(f"{name}: composition `{composition[:80]}`")
    return OperatorNeed(
        name,
        _number(entry["calls"]),
        _number(entry["bytes"]),
        _counts(entry["phases"]),
        _counts(entry["modules"]),
        tuple(_text(dtype) for dtype in _list(entry["dtypes"])),
        _counts(entry["shapes"]),
        composition,
        _text(entry["derived_from"]),
        _text(entry["schema"]),
        _counts(entry["inside"]),
    )


def _counts(value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError("counts are a table of numbers")
    return {_text(key): _number(number) for key, number in value.items()}


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is missing")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:40]!r} is no text")
    return value


def _number(value: Any, *, negative: bool = False) -> int:
    if type(value) is not int or (value < 0 and not negative):
        raise TypeError(f"{str(value)[:40]!r} is no count")
    return value
