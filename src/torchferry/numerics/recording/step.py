"""What a step leaves behind: one read of the device, a file with its rows, and a line that says the rest."""

from __future__ import annotations

import array
import hashlib
import importlib
import io
import math
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.numerics.recording.sketching import OfStep, Sketches, sketched_of
from torchferry.numerics.recording.storing import container
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.layout import INPUTS_MOST, LARGEST, WIDTH, Key

# What is noted in a step beside its rows.


@dataclass
class StepNotes:
    """What was noted in a step beside its rows; numbers wait on their devices.

    Attributes:
        batch: What the program was given: name, shape, dtype; the hashes of its entries are in `entries`.
        draws: Calls that took random numbers; `drawn` and `kept` have the hash and how many are not 0.
        hashed: Rows whose exact values are hashed in `hashes`.
        numbers: Norms, by what they are of.
        optimizers: What each optimizer is told.
        loss: Rows that backward began from.
    """

    batch: list[dict[str, Any]] = field(default_factory=list)
    entries: list[Tensor] = field(default_factory=list)
    draws: list[dict[str, Any]] = field(default_factory=list)
    drawn: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    hashed: list[int] = field(default_factory=list)
    hashes: list[Tensor] = field(default_factory=list)
    numbers: dict[str, Tensor] = field(default_factory=dict)
    optimizers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    loss: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sharded: bool = False

    def entries_of(self, tensor: Tensor) -> Tensor:
        """Return a tensor with one entry for each sample, as far as can be told: labels may come flattened."""
        if tensor.dim() == 0:
            return tensor.reshape(1)
        many = self.batch[0]["shape"][0] if self.batch and self.batch[0]["shape"] else 0
        if tensor.dim() == 1 and many and len(tensor) > many and len(tensor) % many == 0:
            return tensor.reshape(many, -1)
        return tensor

    def add_batch(self, name: str, tensor: Tensor, entries: Tensor, dtype: str) -> None:
        """Note a tensor of the batch."""
        self.batch.append({"name": name, "shape": list(tensor.shape), "dtype": dtype})
        self.entries.append(entries)


# The rows of one step: what was recorded, in the order in which it happened.

_LAYOUTS = 64


class Interned:
    """Values by number, in the order in which they came."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value, which is new or known."""
        number = self.numbers.get(value)
        if number is None:
            number = self.numbers[value] = len(self.numbers)
        return number

    def values(self) -> list[Any]:
        """Return the values in the order of their numbers."""
        return list(self.numbers)


class Layout(NamedTuple):
    """What the rows of a step are, and which rows each used.

    Attributes:
        keys: The values of each `Key` that occurs.
        key: For each row, the place of its key.
        inputs: Rows that were used,
        inputs_of: and by which row each.
        outputs: The rows that are what modules gave, with the path of each, in the order of the calls.
        name: The same for two equal layouts.
    """

    keys: list[Any]
    key: array.array[int]
    inputs: array.array[int]
    inputs_of: array.array[int]
    outputs: list[tuple[str, int]]
    name: str


class StepRows:
    """Collects the rows of a step; several threads may add at once, as autograd does with several devices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sketches: dict[torch.device, Sketches] = {}
        self._keys = Interned()
        self._dtypes: dict[torch.dtype, str] = {}
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        self.clear()

    def clear(self) -> None:
        """Begin a step."""
        self.keys = array.array("i")
        self.shapes = array.array("i")
        self.arguments = array.array("i")
        self.places: list[tuple[Sketches, int]] = []
        self.inputs = array.array("i")
        self.inputs_of = array.array("i")
        self.shape_names = Interned()
        self.argument_names = Interned()
        self.outputs: list[tuple[str, int]] = []
        self.in_order = array.array("q")
        """How many numbers each row has that lies in memory in its own order; 0 for another."""
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.keys)

    def dtype(self, dtype: torch.dtype) -> str:
        """Return `float32`."""
        name = self._dtypes.get(dtype)
        if name is None:
            name = self._dtypes[dtype] = str(dtype).removeprefix("torch.")
        return name

    def add(self, key: tuple[Any, ...], tensor: Tensor, arguments: Any = (), used: Any = ()) -> int:
        """Record a tensor; returns its row, or -1 where the step has too many.

        Args:
            key: The values of a `Key`.
            tensor: Its values are read now.
            arguments: What the operator was told besides tensors; hashable.
            used: Rows whose results the operator read.
        """
        with self._lock:
            row = len(self.keys)
            if row >= LARGEST:
                self.dropped += 1
                return -1
            sketches = self._sketches.get(tensor.device)
            if sketches is None:
                sketches = self._sketches[tensor.device] = Sketches(tensor.device)
            self.places.append((sketches, sketches.put(tensor)))
            self.keys.append(self._keys.number(key))
            self.in_order.append(tensor.numel() if tensor.is_contiguous() else 0)
            self.shapes.append(self.shape_names.number(tensor.shape))
            self.arguments.append(self.argument_names.number(arguments))
            for other in sorted(used)[:INPUTS_MOST] if len(used) > 1 else used:
                self.inputs.append(other)
                self.inputs_of.append(row)
            return row

    def gave(self, path: str, row: int, tensor: Tensor) -> None:
        """Note that a row is what a module gave, if both lie in memory in the same order: it may have another shape."""
        with self._lock:
            if tensor.is_contiguous() and tensor.numel() == self.in_order[row]:
                self.outputs.append((path, row))

    def layout(self) -> Layout:
        """Return what the rows of this step are."""
        parts = (self.keys.tobytes(), self.inputs.tobytes(), self.inputs_of.tobytes(), tuple(self.outputs))
        layout = self._layouts.get(parts)
        if layout is None:
            every = self._keys.values()
            used = {number: place for place, number in enumerate(dict.fromkeys(self.keys))}
            keys = [every[number] for number in used]
            key = array.array("i", (used[number] for number in self.keys))
            named = hashlib.blake2b(repr(keys).encode(), digest_size=8)
            for part in (key.tobytes(), *parts[1:3], repr(self.outputs).encode()):
                named.update(part)
            layout = Layout(keys, key, self.inputs, self.inputs_of, self.outputs, named.hexdigest())
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[parts] = layout
        return layout

    def read(self) -> tuple[dict[Sketches, OfStep], list[tuple[Sketches, int]]]:
        """Return, still on their devices, what the step has, and where each row is in it."""
        return {sketches: sketches.read() for sketches in self._sketches.values() if sketches.used}, self.places


# The rows of a step as a table, for tools that read parquet.


def require() -> Any:
    """Return pyarrow.

    Raises:
        UsageError: it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise UsageError(
            say("pyarrow is needed to write tables: {error}", error=error), say("`pip install pyarrow`")
        ) from None


def table(rows: StepRows, step: int, sketch: Tensor, sums: Tensor) -> bytes:
    """Return a parquet file with a line for each row.

    Its columns say what the row is, its shape, its norm as the sketch estimates it (that of fewer than 64 elements is
    exact), and the sum of its first 65,536 elements.

    Args:
        rows: What was recorded.
        step: Number of the step.
        sketch: float32 [rows, 64].
        sums: float32 [rows].
    """
    arrow = require()
    layout = rows.layout()
    keys = [Key(*layout.keys[place]) for place in layout.key]
    shapes = [list(shape) for shape in rows.shape_names.values()]
    columns: dict[str, list[Any]] = {name: [getattr(key, name) for key in keys] for name in Key._fields}
    columns["step"] = [step] * len(keys)
    columns["shape"] = [shapes[place] for place in rows.shapes]
    columns["norm"] = sketch.norm(dim=1).tolist()
    kept = [_numbers(shape, key) < WIDTH for shape, key in zip(columns["shape"], keys, strict=True)]
    columns["sum"] = torch.where(torch.tensor(kept), sketch.sum(dim=1), sums).tolist()
    out = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(arrow.table(columns), out)
    return out.getvalue()


def _numbers(shape: list[int], key: Key) -> int:
    """Return how many numbers were sketched: a complex element is two."""
    return math.prod(shape) * (1 + key.dtype.startswith("complex"))


class Read(NamedTuple):
    """What was on the device.

    Attributes:
        sketches: For each device, those that were made there and then those of what was copied.
        sums: For each device, likewise.
        made: For each device, how many were made there.
        whole: Integers, in the order in which they were given.
        numbers: Floating-point numbers, likewise.
    """

    sketches: list[Tensor]
    sums: list[Tensor]
    made: list[int]
    whole: list[list[int]]
    numbers: list[float]


class StepFiles:
    """The files of one step, ready to be written.

    Attributes:
        line: What `steps.jsonl` says of it.
        sketch: The sketches of its rows, None where it has none.
        sums: Their sums.
    """

    def __init__(self, number: int, how: str, rows: StepRows, gathered: StepNotes) -> None:
        """Read the device, once."""
        sketched, places = rows.read()
        integers = [*gathered.entries, *gathered.drawn, *gathered.kept, *gathered.hashes]
        read = _read(sketched, integers, list(gathered.numbers.values()))
        self._rows = rows
        self.line: dict[str, Any] = {"step": number, "ended_by": how, **_noted(gathered, read)}
        self.sketch: Tensor | None = None
        self.sums: Tensor | None = None
        if rows.dropped:
            self.line["dropped"] = rows.dropped
        if len(rows):
            self.line["rows"] = f"step-{number:08d}.safetensors"
            self.sketch, self.sums = _in_order(read, list(sketched), places)
            coarse = [
                sketches.device.type
                for sketches, part, made in zip(sketched, read.sketches, read.made, strict=True)
                if made and not sketches.judge(part[0].tolist(), part[1].tolist())
            ]
            if coarse:
                self.line["coarse"] = coarse

    def rows(self) -> bytes:
        """Return the file with the rows."""
        rows = self._rows
        assert self.sketch is not None
        assert self.sums is not None
        shapes = [list(shape) for shape in rows.shape_names.values()]
        arguments = [
            [list(judgement) if isinstance(judgement, tuple) else judgement for judgement in arguments]
            for arguments in rows.argument_names.values()
        ]
        count = len(rows)
        return container(
            {
                names.SKETCH: ("float32", [count, names.WIDTH], _bytes(self.sketch)),
                names.SUM: ("float32", [count], _bytes(self.sums)),
                names.SHAPE: ("int32", [count], rows.shapes.tobytes()),
                names.ARGUMENTS: ("int32", [count], rows.arguments.tobytes()),
            },
            {"layout": rows.layout().name, "shapes": names.compact(shapes), "arguments": names.compact(arguments)},
        )

    def layout_name(self) -> str:
        """Return the name of the file that says what the rows are; many steps share one."""
        return f"layout-{self._rows.layout().name}.safetensors"

    def layout(self) -> bytes:
        """Return what it says."""
        layout = self._rows.layout()
        many = len(layout.inputs)
        return container(
            {
                names.KEY: ("int32", [len(layout.key)], layout.key.tobytes()),
                names.INPUTS: ("int32", [many], layout.inputs.tobytes()),
                names.INPUTS_OF: ("int32", [many], layout.inputs_of.tobytes()),
            },
            {"keys": names.compact(layout.keys), names.OUTPUTS: names.compact(layout.outputs)},
        )


def _noted(gathered: StepNotes, read: Read) -> dict[str, Any]:
    """Return the line's part that is no rows."""
    line: dict[str, Any] = {}
    whole = iter(read.whole)
    batch = [{**noted, "hashes": _hexadecimal(next(whole))} for noted in gathered.batch]
    drawn = [_hexadecimal(next(whole))[0] for _ in gathered.draws]
    kept = [next(whole)[0] for _ in gathered.draws]
    draws = [
        {**draw, "hash": value, "kept": count} for draw, value, count in zip(gathered.draws, drawn, kept, strict=True)
    ]
    hashes = {str(row): _hexadecimal(next(whole))[0] for row in gathered.hashed}
    document = {
        "batch": batch,
        "draws": draws,
        "hashes": hashes,
        "numbers": dict(zip(gathered.numbers, read.numbers, strict=True)),
        "optimizers": gathered.optimizers,
        "loss": gathered.loss,
        "notes": gathered.notes,
        "sharded": gathered.sharded,
    }
    line.update({name: value for name, value in document.items() if value})
    return line


def _in_order(read: Read, sketched: list[Sketches], places: list[tuple[Sketches, int]]) -> tuple[Tensor, Tensor]:
    """Return sketches and sums in the order of the rows, whichever device they were on."""
    first: dict[Sketches, tuple[int, int]] = {}
    begin = 0
    for sketches, part, made in zip(sketched, read.sums, read.made, strict=True):
        first[sketches], begin = (begin, begin + made - 1), begin + len(part)
    index = torch.tensor(
        [first[device][0] + place if place >= 0 else first[device][1] - place for device, place in places]
    )
    return _joined(read.sketches)[index], _joined(read.sums)[index]


def _read(sketched: dict[Sketches, OfStep], integers: list[Tensor], floats: list[Tensor]) -> Read:
    """Bring everything to the CPU: one copy for each device."""
    devices: dict[torch.device, list[tuple[tuple[Any, ...], Tensor]]] = {}
    for name, tensor in _parts(sketched, integers, floats):
        devices.setdefault(tensor.device, []).append((name, tensor))
    by_place: dict[tuple[Any, ...], Tensor] = {}
    for same in devices.values():
        host = torch.cat([tensor.contiguous().view(torch.int32) for _, tensor in same]).cpu()
        sizes = [tensor.numel() * tensor.element_size() // 4 for _, tensor in same]
        for (name, tensor), part in zip(same, host.split(sizes), strict=True):
            wide = tensor.element_size() > 4  # which may begin at any 4 bytes here
            by_place[name] = (part.clone() if wide else part).view(tensor.dtype)
    sketches, sums, made = [], [], []
    for place, step in enumerate(sketched.values()):
        parts = [(by_place["sketch", place].view(-1, names.WIDTH), by_place["sum", place])] if step.made else []
        made.append(step.made)
        if step.copies.lengths:
            blocks = [by_place["copies", place, number] for number in range(len(step.copies.blocks))]
            parts.append(sketched_of(_joined(blocks), step.copies.lengths))
        sketches.append(_joined([part for part, _ in parts]))
        sums.append(_joined([part for _, part in parts]))
    return Read(
        sketches,
        sums,
        made,
        [by_place["whole", place].tolist() for place in range(len(integers))],
        [float(by_place["number", place]) for place in range(len(floats))],
    )


def _parts(
    sketched: dict[Sketches, OfStep], integers: list[Tensor], floats: list[Tensor]
) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    for place, step in enumerate(sketched.values()):
        if step.made:
            yield ("sketch", place), step.sketches
            yield ("sum", place), step.sums
        for number, block in enumerate(step.copies.blocks):
            yield ("copies", place, number), block
    for place, tensor in enumerate(integers):
        yield ("whole", place), tensor.reshape(-1)
    for place, tensor in enumerate(floats):
        yield ("number", place), tensor.reshape(1).to(torch.float32)


def _hexadecimal(values: list[int]) -> list[str]:
    """Return 16 digits for each."""
    text = struct.pack(f">{len(values)}q", *values).hex()
    return [text[begin : begin + 16] for begin in range(0, len(text), 16)]


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()
