"""A number for the bits of a tensor, made on its device: tensors with the same number are the same, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchferry.numerics.recording.hashing import Hasher

_HASHER = Hasher()


def sketches(tensors: Sequence[Tensor | None]) -> Tensor:
    """Return int64[n, 2] on the CPU: for each tensor the hash of its bits, and the bits of its norm as float64.

    A tensor that is not there has a number of its own. The device is waited for once for each device.
    """
    with torch.no_grad():
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
    tensor = tensor.detach()
    number = _HASHER.whole(tensor)[0]
    numbers = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    floating = numbers.is_floating_point() and numbers.element_size() > 1
    norm = torch.linalg.vector_norm(numbers.float()) if floating else torch.zeros(())
    return number, norm.float().to(number.device)
