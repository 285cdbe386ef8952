"""The rows of one step: what was recorded, in the order in which it happened."""

from __future__ import annotations

import array
import hashlib
import threading
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchferry.numerics.recording.sketching import OfStep, Sketches
from torchferry.numerics.runlog.layout import INPUTS_MOST, LARGEST

_LAYOUTS = 64


class Interned:
    """Values by number, in the order in which they came."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value, which is new or known."""
        found = self.numbers.get(value)
        if found is None:
            found = self.numbers[value] = len(self.numbers)
        return found

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
        name: The same for two equal layouts.
    """

    keys: list[Any]
    key: array.array[int]
    inputs: array.array[int]
    inputs_of: array.array[int]
    name: str


class Rows:
    """Collects the rows of a step; several threads may add at once, as autograd does with several devices."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sketches: dict[torch.device, Sketches] = {}
        self._keys = Interned()
        self._dtypes: dict[torch.dtype, str] = {}
        self._layouts: dict[tuple[bytes, ...], Layout] = {}
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
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.keys)

    def dtype(self, dtype: torch.dtype) -> str:
        """Return `float32`."""
        found = self._dtypes.get(dtype)
        if found is None:
            found = self._dtypes[dtype] = str(dtype).removeprefix("torch.")
        return found

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
            self.shapes.append(self.shape_names.number(tensor.shape))
            self.arguments.append(self.argument_names.number(arguments))
            for other in sorted(used)[:INPUTS_MOST] if len(used) > 1 else used:
                self.inputs.append(other)
                self.inputs_of.append(row)
            return row

    def layout(self) -> Layout:
        """Return what the rows of this step are."""
        parts = (self.keys.tobytes(), self.inputs.tobytes(), self.inputs_of.tobytes())
        found = self._layouts.get(parts)
        if found is None:
            every = self._keys.values()
            used = {number: place for place, number in enumerate(dict.fromkeys(self.keys))}
            keys = [every[number] for number in used]
            key = array.array("i", (used[number] for number in self.keys))
            named = hashlib.blake2b(repr(keys).encode(), digest_size=8)
            for part in (key.tobytes(), *parts[1:]):
                named.update(part)
            found = Layout(keys, key, self.inputs, self.inputs_of, named.hexdigest())
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[parts] = found
        return found

    def read(self) -> tuple[dict[Sketches, OfStep], list[tuple[Sketches, int]]]:
        """Return, still on their devices, what the step has, and where each row is in it."""
        return {sketches: sketches.read() for sketches in self._sketches.values() if sketches.used}, self.places
