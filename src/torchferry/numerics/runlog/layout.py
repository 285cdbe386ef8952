"""How a record lies in its folder: names that the recording and the comparison share. No torch here.

    FOLDER/rank-0/begin.json      environment and settings of the rank, at its first step
    FOLDER/rank-0/steps.jsonl     a line for each step: loss, batch, optimizer, the file of its rows
    FOLDER/rank-0/step-00000000.safetensors   sketches and sums, a row for each result of an operator
    FOLDER/rank-0/layout-<hash>.safetensors   what the rows are; many steps share one
    FOLDER/rank-0/end.json        how it ended; a program that was killed leaves none

A step's file is complete before its line is written, so that what a killed program left is read up to its last line.
Since version 3 each document and each line of `steps.jsonl` ends with its own CRC-32, and a line has under `files` the
CRC-32 of each file that its step needs. They find what a copy, a disk or an editor changed; they resist no attacker.
Since version 4 there are rows of integers and booleans, of optimizer states, and of parameters after their update.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

FORMAT = "torchferry record"
VERSION = 4
WITHOUT_STATES = 3
"""The version before, which has neither integers nor what optimizers made; it is still read."""

WITHOUT_CHECKSUMS = 2
"""The version before that, which is still read."""

BEGIN = "begin.json"
STEPS = "steps.jsonl"
END = "end.json"
RANK = "rank-"

SKETCH, SUM, SHAPE, ARGUMENTS = "sketch", "sum", "shape", "arguments"
"""Tensors of a step: float32 [rows, 61] and [rows]; int32 [rows], places in the lists of the step's metadata."""

KEY, INPUTS, INPUTS_OF = "key", "inputs", "inputs_of"
"""Tensors of a layout: int32 [rows], places in the list of keys of its metadata; the rows whose results a row used."""

OUTPUTS = "outputs"
"""Of a layout's metadata: pairs of a module's path and the row that is what it gave, in the order of the calls."""

FILES = "files"
"""Of a line: checksums of the files of its step, by name."""

compact = json.JSONEncoder(separators=(",", ":")).encode
"""Gives the JSON of a value, without spaces; made once, where `json.dumps` would make it for each value."""

_SEAL = b',"crc32":"'

LARGEST = 1 << 15
"""Rows of a step; what comes after is counted and not recorded."""

INPUTS_MOST = 12
"""Rows that one row is said to have used; more are not told apart."""

WIDTH = 61
"""Numbers in a sketch: the estimate of a distance is right within a tenth, in most cases."""

SAMPLE = 1 << 16
"""Elements, from the first on, whose sum is kept: it tells an error with one sign from rounding."""

GRADIENT, PARAMETER, BUFFER, STATE, UPDATE = "gradient", "parameter", "buffer", "optimizer state", "update"
"""Phases of rows that are no results of operators. The tensor of an update is the parameter after it; as a file is
read, the parameter before it is taken away."""

SIGNS = "signs"
"""The phase of the signs of a gradient. They say which of its elements are rounding alone, which no norm shows: an
optimizer such as Adam makes of these updates of full length. They are compared for that, and not judged."""

HELD = frozenset({PARAMETER, BUFFER, STATE, UPDATE, SIGNS})
"""Of these, what is left of steps before, or made for later ones."""

SCORES = 99
"""The number, as that of a result, of the elements that an operator such as `topk` chose; the indices come before."""

CODES = 251
"""An integer is recorded as a code of its rest by this prime, so that a sketch of whole numbers is exact everywhere."""

CODE_DISTANCE = 10_404
"""Mean square of the difference of the codes of two integers that differ."""

FLOATING = ("float", "bfloat", "complex")
"""How the names of dtypes begin whose numbers have fractions."""


class Key(NamedTuple):
    """What a row is, the same in every step.

    Attributes:
        phase: A phase of `attribution`, or one of those above for what is no operator's result.
        module: Path of the module, or of the parameter.
        operator: `aten.addmm`.
        source: In backward: what is differentiated.
        result: Which of the operator's results.
        dtype: `float32`.
        draws: Whether the operator took random numbers.
    """

    phase: str
    module: str
    operator: str
    source: str
    result: int
    dtype: str
    draws: bool

    @property
    def base(self) -> str:
        """The operator without what varies between devices: `add` for `aten.add_.Tensor`."""
        return _base(self.operator)

    @property
    def source_base(self) -> str:
        """The same of what is differentiated; empty in forward."""
        return _base(self.source)


def _base(operator: str) -> str:
    parts = operator.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).rstrip("_") or operator


def checksum(data: bytes) -> str:
    """Return the CRC-32 of bytes, in hexadecimal."""
    return f"{zlib.crc32(data):08x}"


def sealed(document: dict[str, Any]) -> bytes:
    """Return a document, which is not empty, as a line of JSON that ends with its own checksum."""
    text = compact(document).encode()
    return b'%s%s%s"}' % (text[:-1], _SEAL, checksum(text).encode())


def is_sealed(data: bytes) -> bool:
    """Whether the checksum of a line, without the end of the line, is that of its document."""
    text, mark, seal = data.rpartition(_SEAL)
    return bool(mark) and seal == b'%s"}' % checksum(text + b"}").encode()
