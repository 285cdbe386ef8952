"""What is kept of a tensor: a sketch of 61 numbers, from which the distance of two tensors is estimated without them.

The tensor is read as rows of 61 numbers, each row gets a sign, and the rows are added. The squared distance of two such
sketches is on average the squared distance of the tensors, whatever device made them, since the signs are computed from
their position by integers (splitmix64). 61 is a prime because rows that are the same cancel: a batch of equal samples
has a period, such as 32 features, and rows of 64 would repeat it. One product on the device writes the sketch of a
large tensor into a buffer that is read once a step; nothing waits for the device. A small tensor is copied as it is,
which costs the device one call and not three; the CPU makes its sketch when the step ends.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from torchferry.numerics.runlog.layout import CODE_DISTANCE, CODES, SAMPLE, WIDTH

_ROWS = 1 << 16
"""Rows that one product takes; longer tensors are added block by block, each with its own sign."""


_COARSE = 1e-5
"""Relative error of the product on the probe from which on it is taken for one in reduced precision."""

_SLOTS = 512

_SMALL = 1 << 13
"""Elements up to which a tensor is copied, and sketched on the CPU."""

_BLOCK = WIDTH << 11
"""Numbers of a block of such copies; each begins at its own row."""

_BLOCKS = 4
"""Blocks of a step; what finds no room there is sketched on the device."""


_PLACES = 1 << 12
"""Places of copies that are known."""


class Copies(NamedTuple):
    """Small tensors of a step, as they are, in the order of `put`.

    Attributes:
        blocks: The used parts of the blocks, on the device: rows of 61 numbers, the last of a tensor filled up with 0.
        lengths: Numbers of each tensor.
    """

    blocks: list[Tensor]
    lengths: tuple[int, ...]


class OfStep(NamedTuple):
    """What a step has on one device.

    Attributes:
        made: How many sketches were made there.
        sketches: These, behind each other.
        sums: Of the same tensors.
        copies: The tensors that are still to be sketched.
    """

    made: int
    sketches: Tensor
    sums: Tensor
    copies: Copies


class _Plan(NamedTuple):
    """How rows of small tensors become sketches: the sign and the tensor of each row, and which have a sum."""

    signs: Tensor
    owners: Tensor
    summed: Tensor


@lru_cache(maxsize=64)
def _plan(lengths: tuple[int, ...]) -> _Plan:
    signs = ((pseudorandom(_SMALL // WIDTH, 1) & 1) * 2 - 1).to(torch.float64)
    rest = torch.ones(1, dtype=torch.float64)
    parts, counts = [], []
    for length in lengths:
        rows, left = divmod(length, WIDTH)
        parts += [signs[:rows], rest] if left else [signs[:rows]]
        counts.append(rows + (left > 0))
    return _Plan(
        torch.cat(parts)[:, None],
        torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(counts)),
        torch.tensor([length >= WIDTH for length in lengths], dtype=torch.float64),
    )


def sketched_of(numbers: Tensor, lengths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return sketches and sums of small tensors, as `Sketches` makes them of others.

    Args:
        numbers: Their rows, on the CPU, as in `Copies`.
        lengths: Numbers of each.
    """
    plan = _plan(lengths)
    rows = numbers.view(-1, WIDTH).to(torch.float64)
    sums = torch.zeros(len(lengths), dtype=torch.float64).index_add_(0, plan.owners, rows.sum(1)).mul_(plan.summed)
    summed = torch.zeros(len(lengths), WIDTH, dtype=torch.float64).index_add_(0, plan.owners, rows.mul_(plan.signs))
    return summed.to(torch.float32), sums.to(torch.float32)


def pseudorandom(count: int, stream: int) -> Tensor:
    """Return `count` numbers of 64 bits on the CPU, the same on every machine."""
    state = torch.arange(1, count + 1, dtype=torch.int64) * -7046029254386353131
    state += (stream * 0x632BE59BD9B4E019 + 2**63) % 2**64 - 2**63
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        state = (state ^ _shifted(state, shift)) * factor
    return state ^ _shifted(state, 31)


def codes() -> Tensor:
    """Return a code for each rest of an integer by `CODES`: the whole numbers from -125 to 125 in an order of no order.

    Sums of as many codes as a sketch adds are exact in float32, and a code in bfloat16: two sketches of the same
    integers are the same on every device, and the distance of others says how many integers differ.
    """
    order = torch.argsort(pseudorandom(CODES, 7))
    return (order - CODES // 2).to(torch.float32)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Shift to the right as unsigned numbers are shifted."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


class Sketches:
    """The sketches of one step on one device, in buffers that are kept from step to step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.count = 0
        self.coarse = False
        """Whether products of this device round their inputs: the sketch is then made without one, which costs more."""
        with torch.inference_mode(False), torch.no_grad():
            signs = (pseudorandom(_ROWS, 1) & 1) * 2 - 1
            self._signs = signs.to(torch.float32).to(device)
            self._blocks = ((pseudorandom(1 << 12, 2) & 1) * 2 - 1).tolist()
            self._nothing = torch.empty(0, dtype=torch.float32, device=device)
            self._codes = codes().to(device)
            self._probe = (pseudorandom(WIDTH * WIDTH, 3) >> 40).to(torch.float32).to(device) * 2.0**-23
        self._prefixes: dict[int, Tensor] = {}
        self._sketches: list[Tensor] = []
        self._sums: list[Tensor] = []
        self._free: list[tuple[Tensor, Tensor]] = []
        self._blocks_of_copies: list[Tensor] = []
        self._places: dict[tuple[int, int, torch.Size, tuple[int, ...]], Tensor] = {}
        self._block, self._end = 0, 0
        self._ends: list[int] = []
        self._lengths: list[int] = []
        self._do_probe()
        by_product, by_sum = self.read().sketches.view(2, WIDTH).tolist()
        self.judge(by_product, by_sum)

    @property
    def used(self) -> bool:
        """Whether anything was put in since the last `read`."""
        return self.count > 0 or bool(self._lengths)

    def _do_probe(self) -> None:
        """Sketch a known tensor in both ways, as the first two that a step sketches here."""
        coarse, self.coarse = self.coarse, False
        self._sketch(self._probe)
        self.coarse = True
        self._sketch(self._probe)
        self.coarse = coarse

    def judge(self, by_product: list[float], by_sum: list[float]) -> bool:
        """Return whether the sketches of the step can be trusted, and choose how those of the next are made."""
        far = math.dist(by_product, by_sum)
        size = math.hypot(*by_sum)
        trusted = self.coarse or not far > _COARSE * size
        self.coarse = far > _COARSE * size
        return trusted

    def put(self, tensor: Tensor) -> int:
        """Take in a tensor, and return where it will be found.

        That is a place among the sketches, or below 0 the one with number -1 - place among the copies. Of a tensor with
        fewer than 61 elements the values themselves are kept, without their sum.
        """
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        elif not tensor.dtype.is_floating_point:
            tensor = self._coded(tensor)
        length = tensor.numel()
        if length <= _SMALL and self._copied(tensor, length):
            self._lengths.append(length)
            return -len(self._lengths)
        if self.count == 0:
            self._do_probe()
        return self._sketch(tensor)

    def read(self) -> OfStep:
        """Return what the step has, on the device, and begin anew."""
        count, self.count = self.count, 0
        blocks = -(-count // _SLOTS)
        sketches = torch.cat(self._sketches[:blocks])[:count].reshape(-1) if count else self._nothing
        sums = torch.cat(self._sums[:blocks])[:count] if count else self._nothing
        for block in range(blocks):
            self._sketches[block].zero_()
            self._sums[block].zero_()
        copies: list[Tensor] = []
        if self._lengths:
            for numbers, end in zip(self._blocks_of_copies, (*self._ends, self._end), strict=False):
                used = numbers[:end]
                copies.append(used.clone())
                used.zero_()
        step = OfStep(count, sketches, sums, Copies(copies, tuple(self._lengths)))
        self._block, self._end, self._ends, self._lengths = 0, 0, [], []
        return step

    def _coded(self, tensor: Tensor) -> Tensor:
        """Return the codes of integers or booleans."""
        if tensor.dtype is torch.bool:
            return tensor.to(torch.float32).mul_(math.isqrt(CODE_DISTANCE))
        return self._codes[tensor.to(torch.int64).remainder(CODES)]

    def _copied(self, tensor: Tensor, length: int) -> bool:
        """Copy a small tensor, if there is room."""
        begin, end = self._end, self._end + -(-length // WIDTH) * WIDTH
        if end > _BLOCK:
            if self._block + 1 == _BLOCKS:
                return False
            self._ends.append(begin)
            self._block, begin, end = self._block + 1, 0, end - begin
        if self._block == len(self._blocks_of_copies):
            with torch.inference_mode(False):
                self._blocks_of_copies.append(torch.zeros(_BLOCK, dtype=torch.float32, device=self.device))
        self._place(tensor, begin, length).copy_(tensor)
        self._end = end
        return True

    def _place(self, tensor: Tensor, begin: int, length: int) -> Tensor:
        """Return where a small tensor is copied to; a step like the one before has the same places."""
        if not tensor.is_contiguous():
            return self._blocks_of_copies[self._block][begin : begin + length].view(tensor.shape)
        shape, stride = tensor.shape, tensor.stride()
        key = (self._block, begin, shape, stride)
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= _PLACES:
                self._places.clear()
            with torch.inference_mode(False):
                place = self._blocks_of_copies[self._block].as_strided(shape, stride, begin)
            self._places[key] = place
        return place

    def _sketch(self, tensor: Tensor) -> int:
        """Sketch a tensor on the device."""
        place = self.count
        self.count = place + 1
        if place >= len(self._free):
            self._grow()
        sketch, total = self._free[place]
        if tensor.dtype is not torch.float32:
            tensor = tensor.to(torch.float32)
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        length = tensor.numel()
        if length < WIDTH:  # no room was left among the copies
            sketch[:length].copy_(tensor.reshape(length))
            return place
        rows = length // WIDTH
        if rows <= _ROWS and not self.coarse:
            torch.mv(tensor.as_strided((WIDTH, rows), (1, WIDTH)), self._prefix(rows), out=sketch)
        else:
            self._in_blocks(tensor, rows, sketch)
        rest = length - rows * WIDTH
        if rest:
            sketch[:rest].add_(tensor.as_strided((rest,), (1,), tensor.storage_offset() + rows * WIDTH))
        torch.sum(tensor.as_strided((min(length, SAMPLE),), (1,)), 0, out=total)
        return place

    def _in_blocks(self, tensor: Tensor, rows: int, sketch: Tensor) -> None:
        begin = tensor.storage_offset()
        for number, first in enumerate(range(0, rows, _ROWS)):
            many = min(_ROWS, rows - first)
            place = begin + first * WIDTH
            if self.coarse:
                block = tensor.as_strided((many, WIDTH), (WIDTH, 1), place)
                part = torch.mul(block, self._prefix(many)[:, None]).sum(0)
            else:
                part = torch.mv(tensor.as_strided((WIDTH, many), (1, WIDTH), place), self._prefix(many))
            sketch.add_(part, alpha=self._blocks[number % len(self._blocks)] if number else 1)

    def _prefix(self, rows: int) -> Tensor:
        prefix = self._prefixes.get(rows)
        if prefix is None:
            prefix = self._prefixes[rows] = self._signs[:rows]
        return prefix

    def _grow(self) -> None:
        with torch.inference_mode(False):
            sketches = torch.zeros(_SLOTS, WIDTH, dtype=torch.float32, device=self.device)
            sums = torch.zeros(_SLOTS, dtype=torch.float32, device=self.device)
            self._sketches.append(sketches)
            self._sums.append(sums)
            self._free.extend(zip(sketches.unbind(), sums.unbind(), strict=True))


# Hashes of tensors that are made where the tensors lie, without waiting, and are the same on every device.
#
# A hash is a sum of bit patterns times odd-looking 64-bit weights, with overflow: integer sums do not depend on the
# order of addition, so that any device gets the same. It finds changes; it does not resist an attacker.

_PIECE = 1 << 12
_AT_ONCE = 1 << 20
"""Elements that are widened to 64 bits at a time."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Hasher:
    """Hashes tensors; keeps its weights on each device."""

    def __init__(self) -> None:
        self._weights: dict[tuple[torch.device, int], Tensor] = {}

    def rows(self, tensor: Tensor) -> Tensor:
        """Return a hash of each entry of the first dimension, or of the whole where there is none."""
        try:
            return self._rows(tensor)
        except (RuntimeError, NotImplementedError):  # a device without 64-bit integers
            return self._rows(tensor.cpu())

    def whole(self, tensor: Tensor) -> Tensor:
        """Return one hash of all elements, as a tensor of one number."""
        try:
            return self._whole(tensor)
        except (RuntimeError, NotImplementedError):
            return self._whole(tensor.cpu())

    def _rows(self, tensor: Tensor) -> Tensor:
        bits = _bits(tensor)
        count = tensor.shape[0] if tensor.dim() else 1
        bits = bits.reshape(count, -1)
        if bits.shape[1] == 0 or count == 0:
            return torch.zeros(count, dtype=torch.int64, device=tensor.device)
        many = max(1, _AT_ONCE // bits.shape[1])
        if many >= count and bits.shape[1] <= _AT_ONCE:
            return self._hashed(bits)
        if bits.shape[1] > _AT_ONCE:
            return torch.stack([self._long(row) for row in bits])
        return torch.cat([self._hashed(bits[first : first + many]) for first in range(0, count, many)])

    def _whole(self, tensor: Tensor) -> Tensor:
        bits = _bits(tensor).reshape(-1)
        if bits.numel() == 0:
            return torch.zeros(1, dtype=torch.int64, device=tensor.device)
        return self._long(bits).reshape(1)

    def _long(self, bits: Tensor) -> Tensor:
        parts = [self._hashed(bits[first : first + _AT_ONCE].reshape(1, -1)) for first in range(0, len(bits), _AT_ONCE)]
        return (torch.cat(parts) * self._weight(bits.device, len(parts), 6)).sum()

    def _hashed(self, bits: Tensor) -> Tensor:
        """Hash each row of a matrix: pieces first, then the pieces' hashes."""
        wide = bits.to(torch.int64)
        rows, length = wide.shape
        device = bits.device
        if length <= _PIECE:
            return (wide * self._weight(device, length, 4)).sum(1)
        pieces, rest = divmod(length, _PIECE)
        body = wide[:, : pieces * _PIECE].reshape(rows, pieces, _PIECE)
        sums = (body * self._weight(device, _PIECE, 4)).sum(2)
        hashed = (sums * self._weight(device, pieces, 5)).sum(1)
        if rest:
            tail = (wide[:, pieces * _PIECE :] * self._weight(device, rest, 4)).sum(1)
            hashed = hashed + tail * int(pseudorandom(pieces + 1, 5)[-1])
        return hashed

    def _weight(self, device: torch.device, count: int, stream: int) -> Tensor:
        weight = self._weights.get((device, stream))
        if weight is None or len(weight) < count:
            weight = self._weights[(device, stream)] = pseudorandom(max(count, _PIECE), stream).to(device)
        return weight[:count]


def _bits(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype is torch.bool:
        return tensor.to(torch.uint8)
    tensor = tensor.contiguous()
    if tensor.dtype in _INTEGERS.values():
        return tensor
    return tensor.reshape(-1).view(_INTEGERS[tensor.element_size()]).reshape(tensor.shape)
