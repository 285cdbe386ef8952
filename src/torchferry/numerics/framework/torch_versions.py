"""What an older torch has elsewhere, or lacks: one answer for every version from 2.1 on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TypeVar

import torch

Value = TypeVar("Value")

GradScaler: Any = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
"""The scaler from which every other one derives: from torch 2.3 on it is not CUDA's."""


def accelerator() -> str:
    """Return the type of this process' accelerator, as torch names it; `cpu` where it has none."""
    if hasattr(torch._C, "_get_accelerator"):  # from torch 2.4 on
        return str(torch._C._get_accelerator().type)
    plugin = torch._C._get_privateuse1_backend_name()
    if hasattr(torch, plugin):
        return str(plugin)
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_module(kind: str) -> Any:
    """Return the module of a device type, such as `torch.cuda`.

    Raises:
        AttributeError, RuntimeError: there is none.
    """
    return torch.get_device_module(kind) if hasattr(torch, "get_device_module") else getattr(torch, kind)


def is_compiling() -> bool:
    """Whether the code is being compiled or exported, rather than run."""
    if hasattr(torch.compiler, "is_compiling"):  # from torch 2.3 on
        return torch.compiler.is_compiling()
    return is_dynamo_compiling()


def is_dynamo_compiling() -> bool:
    """Whether Dynamo traces the code."""
    if hasattr(torch.compiler, "is_dynamo_compiling"):
        return torch.compiler.is_dynamo_compiling()
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and bool(dynamo.is_compiling())


def by_dtype(values: Mapping[str, Value]) -> dict[torch.dtype, Value]:
    """Return values by dtype, given those by its name; dtypes that this torch lacks are left out."""
    return {getattr(torch, name): value for name, value in values.items() if hasattr(torch, name)}
