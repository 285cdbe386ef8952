"""What is kept of a tensor: a sketch of 61 numbers, from which the distance of two tensors is estimated without them.

The tensor is read as rows of 61 numbers, each row gets a sign, and the rows are added. The squared distance of two such
sketches is on average the squared distance of the tensors, whatever device made them, since the signs are computed from
their position by integers (splitmix64). 61 is a prime because rows that are the same cancel: a batch of equal samples
has a period, such as 32 features, and rows of 64 would repeat it. One product on the device writes the sketch into a
buffer that is read once a step; nothing waits for the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchferry.numerics.differences.layout import SAMPLE, WIDTH

_ROWS = 1 << 16
"""Rows that one product takes; longer tensors are added block by block, each with a sign of its own."""


_COARSE = 1e-5
"""Relative error of the product on the probe from which on it is taken for one in reduced precision."""

_SLOTS = 512


def pseudorandom(count: int, stream: int) -> Tensor:
    """Return `count` numbers of 64 bits on the CPU, the same on every machine."""
    state = torch.arange(1, count + 1, dtype=torch.int64) * -7046029254386353131
    state += (stream * 0x632BE59BD9B4E019 + 2**63) % 2**64 - 2**63
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        state = (state ^ _shifted(state, shift)) * factor
    return state ^ _shifted(state, 31)


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
            self._probe = (pseudorandom(WIDTH * WIDTH, 3) >> 40).to(torch.float32).to(device) * 2.0**-23
        self._prefixes: dict[int, Tensor] = {}
        self._sketches: list[Tensor] = []
        self._sums: list[Tensor] = []
        self._free: list[tuple[Tensor, Tensor]] = []
        self.probe()
        by_product, by_sum = self.read()[0].view(2, WIDTH).tolist()
        self.judge(by_product, by_sum)

    def probe(self) -> None:
        """Sketch a known tensor in both ways, as the first two of a step."""
        coarse, self.coarse = self.coarse, False
        self.put(self._probe)
        self.coarse = True
        self.put(self._probe)
        self.coarse = coarse

    def judge(self, by_product: list[float], by_sum: list[float]) -> bool:
        """Return whether the sketches of the step can be trusted, and choose how those of the next are made."""
        far = math.dist(by_product, by_sum)
        size = math.hypot(*by_sum)
        trusted = self.coarse or not far > _COARSE * size
        self.coarse = far > _COARSE * size
        return trusted

    def put(self, tensor: Tensor) -> int:
        """Sketch a tensor of floating-point or complex numbers, and return where it will be found.

        Of one with fewer than 61 elements the values themselves are kept, without their sum.
        """
        place = self.count
        self.count = place + 1
        if place >= len(self._free):
            self._grow()
        sketch, total = self._free[place]
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.dtype is not torch.float32:
            tensor = tensor.to(torch.float32)
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        length = tensor.numel()
        if length < WIDTH:
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

    def read(self) -> tuple[Tensor, Tensor]:
        """Return sketches and sums of the step, on the device, in the order of `put`, and begin anew."""
        count, self.count = self.count, 0
        blocks = -(-count // _SLOTS)
        sketches = torch.cat(self._sketches[:blocks])[:count].reshape(-1)
        sums = torch.cat(self._sums[:blocks])[:count]
        for block in range(blocks):
            self._sketches[block].zero_()
            self._sums[block].zero_()
        return sketches, sums

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
        found = self._prefixes.get(rows)
        if found is None:
            found = self._prefixes[rows] = self._signs[:rows]
        return found

    def _grow(self) -> None:
        with torch.inference_mode(False):
            sketches = torch.zeros(_SLOTS, WIDTH, dtype=torch.float32, device=self.device)
            sums = torch.zeros(_SLOTS, dtype=torch.float32, device=self.device)
            self._sketches.append(sketches)
            self._sums.append(sums)
            self._free.extend(zip(sketches.unbind(), sums.unbind(), strict=True))
