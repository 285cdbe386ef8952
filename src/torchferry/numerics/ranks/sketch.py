"""A number for the bits of a tensor, made on its device: tensors with the same number are the same, bit for bit.

The bits are read as integers and summed with odd random weights modulo 2**64, so that the order in which a device adds
changes nothing. Two different tensors share a number by a chance of about 2**-64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_BLOCK = 2**20
"""Elements that are summed at a time: 8 MiB of weights, and as much for the products."""

_NEXT = -7046029254386353131
"""0x9E3779B97F4A7C15, the odd number nearest to 2**64 over the golden ratio, as a signed one: sets blocks apart."""

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_WEIGHTS: dict[torch.device, Tensor] = {}


def sketches(tensors: Sequence[Tensor | None]) -> Tensor:
    """Return int64[n, 2] on the CPU: for each tensor the number of its bits, and the bits of its norm as float64.

    A tensor that is not there has a number of its own. The device is waited for once for each device.
    """
    made = [_sketch(tensor) for tensor in tensors]
    rows = torch.zeros(len(made), 2, dtype=torch.int64)
    for device in {number.device for number, _ in made}:
        own = [index for index, (number, _) in enumerate(made) if number.device == device]
        numbers = torch.stack([made[index][0] for index in own]).cpu()
        norms = torch.stack([made[index][1] for index in own]).cpu()
        rows[own, 0] = numbers
        rows[own, 1] = norms.to(torch.float64).view(torch.int64)
    return rows


def _sketch(tensor: Tensor | None) -> tuple[Tensor, Tensor]:
    if tensor is None:
        return torch.tensor(-1, dtype=torch.int64), torch.tensor(0.0)
    try:
        return _on(tensor.detach())
    except (RuntimeError, NotImplementedError):  # a card without 64-bit integers
        return _on(tensor.detach().cpu())


def _on(tensor: Tensor) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        whole = tensor.contiguous().flatten()
        bits = whole.view(_INTEGERS[whole.element_size()])
        weights = _weights(tensor.device)
        number = torch.zeros((), dtype=torch.int64, device=tensor.device)
        for block in bits.split(_BLOCK):
            number = number * _NEXT + (block.to(torch.int64) * weights[: block.numel()]).sum()
        floating = whole.is_floating_point() and whole.element_size() > 1
        norm = torch.linalg.vector_norm(whole.float()) if floating else torch.zeros((), device=tensor.device)
        return number, norm.float()


def _weights(device: torch.device) -> Tensor:
    if device not in _WEIGHTS:
        source = torch.Generator().manual_seed(20)
        drawn = torch.randint(-(2**63), 2**63 - 1, (_BLOCK,), generator=source)
        _WEIGHTS[device] = (drawn | 1).to(device)
    return _WEIGHTS[device]
