"""Weights in safetensors files, for devices that the library of that name does not know."""

from __future__ import annotations

import importlib
import os
from typing import Any

from torchferry.core.messages import say
from torchferry.device.failures import DeviceError
from torchferry.device.names import DescribedDevice
from torchferry.device.torch_import import torch


def read_safetensors(
    place: DescribedDevice, path: str | os.PathLike[str], dtype: torch.dtype | None
) -> dict[str, torch.Tensor]:
    """Return the tensors of a file on the device, by name.

    Each is read on the CPU and moved before the next one is read, so that the host holds one tensor beside the mapped
    file, and the library is never asked for a device that it may not know.

    Args:
        place: Where the tensors go.
        path: The file.
        dtype: What tensors of floating point become before they are moved; None leaves them.

    Raises:
        DeviceError: the library safetensors is not installed.
        FileNotFoundError: there is no such file.
    """
    try:
        library: Any = importlib.import_module("safetensors")
    except ImportError as error:
        raise DeviceError(
            say("{path} cannot be read without the library safetensors: {error}", path=path, error=error),
            say("pip install safetensors"),
        ) from error
    tensors = {}
    with library.safe_open(os.fspath(path), framework="pt", device="cpu") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            tensor = file.get_tensor(name)
            if dtype is not None and tensor.is_floating_point():
                tensor = tensor.to(dtype)
            tensors[name] = tensor.to(place.device)
    return tensors
