"""What a step leaves behind: one read of the device, a file with its rows, and a line that says the rest."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.numerics.recording.gathered import Gathered
from torchferry.numerics.recording.rows import Rows
from torchferry.numerics.recording.sketching import OfStep, Sketches, sketched_of
from torchferry.numerics.recording.storing import container
from torchferry.numerics.runlog import layout as names


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
                for one, part, made in zip(sketched, read.sketches, read.made, strict=True)
                if made and not one.judge(part[0].tolist(), part[1].tolist())
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
            {"layout": rows.layout().name, "shapes": names.compact(shapes), "arguments": names.compact(told)},
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
            {"keys": names.compact(layout.keys)},
        )


def _noted(gathered: Gathered, read: Read) -> dict[str, Any]:
    """Return the line's part that is no rows."""
    line: dict[str, Any] = {}
    whole = iter(read.whole)
    batch = [{**one, "hashes": _hexadecimal(next(whole))} for one in gathered.batch]
    drawn = [_hexadecimal(next(whole))[0] for _ in gathered.draws]
    kept = [next(whole)[0] for _ in gathered.draws]
    draws = [
        {**draw, "hash": value, "kept": count} for draw, value, count in zip(gathered.draws, drawn, kept, strict=True)
    ]
    hashes = {str(row): _hexadecimal(next(whole))[0] for row in gathered.hashed}
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
    first: dict[Sketches, tuple[int, int]] = {}
    begin = 0
    for one, part, made in zip(sketched, read.sums, read.made, strict=True):
        first[one], begin = (begin, begin + made - 1), begin + len(part)
    index = torch.tensor([first[one][0] + place if place >= 0 else first[one][1] - place for one, place in places])
    return _joined(read.sketches)[index], _joined(read.sums)[index]


def _read(sketched: dict[Sketches, OfStep], integers: list[Tensor], floats: list[Tensor]) -> Read:
    """Bring everything to the CPU: one copy for each device."""
    devices: dict[torch.device, list[tuple[tuple[Any, ...], Tensor]]] = {}
    for name, tensor in _parts(sketched, integers, floats):
        devices.setdefault(tensor.device, []).append((name, tensor))
    found: dict[tuple[Any, ...], Tensor] = {}
    for same in devices.values():
        host = torch.cat([tensor.contiguous().view(torch.int32) for _, tensor in same]).cpu()
        sizes = [tensor.numel() * tensor.element_size() // 4 for _, tensor in same]
        for (name, tensor), part in zip(same, host.split(sizes), strict=True):
            wide = tensor.element_size() > 4  # which may begin at any 4 bytes here
            found[name] = (part.clone() if wide else part).view(tensor.dtype)
    sketches, sums, made = [], [], []
    for place, step in enumerate(sketched.values()):
        parts = [(found["sketch", place].view(-1, names.WIDTH), found["sum", place])] if step.made else []
        made.append(step.made)
        if step.copies.lengths:
            blocks = [found["copies", place, number] for number in range(len(step.copies.blocks))]
            parts.append(sketched_of(_joined(blocks), step.copies.lengths))
        sketches.append(_joined([part for part, _ in parts]))
        sums.append(_joined([part for _, part in parts]))
    return Read(
        sketches,
        sums,
        made,
        [found["whole", place].tolist() for place in range(len(integers))],
        [float(found["number", place]) for place in range(len(floats))],
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
