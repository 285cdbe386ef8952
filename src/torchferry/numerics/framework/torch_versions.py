"""What an older torch has elsewhere, or lacks: one answer for every version from 2.1 on."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from torchferry.core import supported_torch
from torchferry.core.messages import say

supported_torch.require(
    str(torch.__version__), say("the numerics tools")
)  # first of all: every tool imports this module

Value = TypeVar("Value")

GradScaler: Any = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
"""The scaler from which every other one derives: from torch 2.3 on it is not CUDA's."""

OWN_CLASSES = frozenset({torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)})
"""The classes of plain tensors; buffers have one of their own from torch 2.5 on."""


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


def autocast_state(kind: str) -> tuple[bool, torch.dtype] | None:
    """Return whether autocast is on for a type of device, and its dtype; None for one that has no autocast."""
    if hasattr(torch.amp, "is_autocast_available"):  # from torch 2.4 on
        if not torch.amp.is_autocast_available(kind):
            return None
        return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    if kind == "cpu":
        return torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    module: Any = torch if kind == "cuda" else getattr(torch, kind, None)
    if not hasattr(module, "is_autocast_enabled"):
        return None
    dtype_of = torch.get_autocast_gpu_dtype if module is torch else module.get_autocast_dtype
    return bool(module.is_autocast_enabled()), dtype_of()


def norms(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the Euclidean norm of each tensor, computed in float32."""
    if _NORMS_HAVE_DTYPE:
        return list(torch._foreach_norm(tensors, 2, dtype=torch.float32))
    return list(torch._foreach_norm([tensor.to(torch.float32) for tensor in tensors], 2))


_NORMS_HAVE_DTYPE = "dtype" in str(torch.ops.aten._foreach_norm.Scalar._schema)
"""Whether the norm of lists takes a dtype: from torch 2.4 on."""


_OF_EVERY_KIND = (None,) if hasattr(torch._C, "_TorchDispatchModeKey") else ()
"""What the innermost mode is asked for by: from torch 2.2 on, modes have kinds."""


def pop_dispatch_mode() -> Any:
    """Take the innermost dispatch mode off the stack, and return it."""
    return torch._C._pop_torch_dispatch_stack(*_OF_EVERY_KIND)


def _watched_by_torch(storage: torch.UntypedStorage) -> Callable[[], object]:
    reference: Any = StorageWeakRef(storage)
    return lambda: None if reference.expired() else reference


watched: Callable[[torch.UntypedStorage], Callable[[], object]] = (
    weakref.ref if hasattr(torch._C, "_TorchDispatchModeKey") else _watched_by_torch
)
"""Returns what answers None once a storage is gone. Python's reference to one ends torch 2.1 with a signal."""
