"""What a step leaves behind: one read of the device, a file with its rows, and a line that says the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.numerics.differences import layout as names
from torchferry.numerics.recording.gathered import Gathered
from torchferry.numerics.recording.rows import Rows
from torchferry.numerics.recording.sketching import Sketches
from torchferry.numerics.recording.storing import container


class Read(NamedTuple):
    """What was on the device.

    Attributes:
        sketches: For each device.
        sums: For each device.
        whole: Integers, in the order in which they were given.
        numbers: Floating-point numbers, likewise.
    """

    sketches: list[Tensor]
    sums: list[Tensor]
    whole: list[list[int]]
    numbers: list[float]


class StepFiles:
    """The files of one step, ready to be written.

    Attributes:
        line: What `steps.jsonl` says of it.
        sketch: The sketches of its rows, None where it has none.
        sums: Their sums.
    """

    def __init__(self, number: int, how: str, rows: Rows, gathered: Gathered) -> None:
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
                one.device.type
                for one, part in zip(sketched, read.sketches, strict=True)
                if not one.judge(part[0].tolist(), part[1].tolist())
            ]
            if coarse:
                self.line["coarse"] = coarse

    def rows(self) -> bytes:
        """Return the file with the rows."""
        rows = self._rows
        assert self.sketch is not None
        assert self.sums is not None
        shapes = [list(shape) for shape in rows.shape_names.values()]
        told = [[list(one) if isinstance(one, tuple) else one for one in told] for told in rows.argument_names.values()]
        count = len(rows)
        return container(
            {
                names.SKETCH: ("float32", [count, names.WIDTH], _bytes(self.sketch)),
                names.SUM: ("float32", [count], _bytes(self.sums)),
                names.SHAPE: ("int32", [count], rows.shapes.tobytes()),
                names.ARGUMENTS: ("int32", [count], rows.arguments.tobytes()),
            },
            {"layout": rows.layout().name, "shapes": _json(shapes), "arguments": _json(told)},
        )

    def layout(self) -> tuple[str, bytes]:
        """Return name and content of the file that says what the rows are."""
        layout = self._rows.layout()
        many = len(layout.inputs)
        content = container(
            {
                names.KEY: ("int32", [len(layout.key)], layout.key.tobytes()),
                names.INPUTS: ("int32", [many], layout.inputs.tobytes()),
                names.INPUTS_OF: ("int32", [many], layout.inputs_of.tobytes()),
            },
            {"keys": _json(layout.keys)},
        )
        return f"layout-{layout.name}.safetensors", content


def _noted(gathered: Gathered, read: Read) -> dict[str, Any]:
    """Return the line's part that is no rows."""
    line: dict[str, Any] = {}
    whole = iter(read.whole)
    batch = [{**one, "hashes": [_hexadecimal(value) for value in next(whole)]} for one in gathered.batch]
    drawn = [_hexadecimal(next(whole)[0]) for _ in gathered.draws]
    kept = [next(whole)[0] for _ in gathered.draws]
    draws = [
        {**draw, "hash": value, "kept": count} for draw, value, count in zip(gathered.draws, drawn, kept, strict=True)
    ]
    hashes = {str(row): _hexadecimal(next(whole)[0]) for row in gathered.hashed}
    found = {
        "batch": batch,
        "draws": draws,
        "hashes": hashes,
        "numbers": dict(zip(gathered.numbers, read.numbers, strict=True)),
        "optimizers": gathered.optimizers,
        "loss": gathered.loss,
        "notes": gathered.notes,
        "sharded": gathered.sharded,
    }
    line.update({name: value for name, value in found.items() if value})
    return line


def _in_order(read: Read, sketched: list[Sketches], places: list[tuple[Sketches, int]]) -> tuple[Tensor, Tensor]:
    """Return sketches and sums in the order of the rows, whichever device they were on."""
    first: dict[Sketches, int] = {}
    begin = 0
    for one, part in zip(sketched, read.sums, strict=True):
        first[one], begin = begin, begin + len(part)
    index = torch.tensor([first[one] + place for one, place in places])
    return torch.cat(read.sketches)[index], torch.cat(read.sums)[index]


def _read(sketched: dict[Sketches, tuple[Tensor, Tensor]], integers: list[Tensor], floats: list[Tensor]) -> Read:
    """Bring everything to the CPU: one copy for each device."""
    devices: dict[torch.device, list[tuple[tuple[str, int], Tensor]]] = {}
    for name, tensor in _parts(sketched, integers, floats):
        devices.setdefault(tensor.device, []).append((name, tensor))
    found: dict[tuple[str, int], Tensor] = {}
    for same in devices.values():
        host = torch.cat([tensor.contiguous().view(torch.int32) for _, tensor in same]).cpu()
        begin = 0
        for name, tensor in same:
            end = begin + tensor.numel() * tensor.element_size() // 4
            found[name] = host[begin:end].clone().view(tensor.dtype)
            begin = end
    return Read(
        [found[("sketch", place)].view(-1, names.WIDTH) for place in range(len(sketched))],
        [found[("sum", place)] for place in range(len(sketched))],
        [found[("whole", place)].tolist() for place in range(len(integers))],
        [float(found[("number", place)]) for place in range(len(floats))],
    )


def _parts(
    sketched: dict[Sketches, tuple[Tensor, Tensor]], integers: list[Tensor], floats: list[Tensor]
) -> Iterator[tuple[tuple[str, int], Tensor]]:
    for place, (sketches, sums) in enumerate(sketched.values()):
        yield ("sketch", place), sketches
        yield ("sum", place), sums
    for place, tensor in enumerate(integers):
        yield ("whole", place), tensor.reshape(-1)
    for place, tensor in enumerate(floats):
        yield ("number", place), tensor.reshape(1).to(torch.float32)


def _hexadecimal(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:016x}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().numpy().tobytes()
