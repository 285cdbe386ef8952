"""The functions of a device that gathers operations into graphs; a simulated one does everything at once.

Source: github.com/mango-MilkT/torch_gcu@14a99843d05c: core/model.py, core/debug.py, core/experiment.py.
"""

from __future__ import annotations

import enum
from typing import Any

import torch

from torchferry.rehearsal import events as _events
from torchferry.rehearsal.plugin_namespace import current as _current

__all__ = [
    "JitRunMode",
    "add_trace_point",
    "clear_graph_caches",
    "collect_amp_training_params",
    "collect_buffers",
    "dump_glob_hbm_use_info",
    "dump_hbm_alloc_info",
    "fetch_gradients",
    "optimizer_step",
    "set_graph_threshold",
    "set_scalar_cached_enable",
    "sync_lived_tensor",
    "unlazy",
]


class JitRunMode(enum.Enum):
    """How a graph is run: and waited for, or not, or after the one before."""

    SYNC = 0
    ASYNC = 1
    SAFEASYNC = 2


def _expect(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise _events.refusal(TypeError(f"Param must be {kind}, got {type(value)}"))


def _on_card(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "xla"


def unlazy(tensors: list[torch.Tensor], mode: JitRunMode = JitRunMode.SAFEASYNC) -> None:
    """Compute what the tensors need.

    Raises:
        TypeError: not a list or tuple of tensors of the card.
    """
    if not isinstance(tensors, (list, tuple)) or not all(map(_on_card, tensors)):
        raise _events.refusal(TypeError("Tensors must be a list of GCU tensor."))


def sync_lived_tensor(device: object = None, mode: JitRunMode = JitRunMode.SAFEASYNC) -> None:
    """Compute every tensor that is alive on the device."""


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    extra_output: object = None,
    optimizer_args: dict[str, Any] | None = None,
    model: torch.nn.Module | None = None,
    mode: JitRunMode = JitRunMode.SAFEASYNC,
    device: object = None,
) -> object:
    """Step the optimizer and compute the graph; return what `step` returns."""
    _expect(optimizer, torch.optim.Optimizer)
    if model is not None:
        _expect(model, torch.nn.Module)
    return optimizer.step(**(optimizer_args or {}))


def collect_buffers(model: torch.nn.Module) -> list[torch.Tensor]:
    """Return the buffers of a model."""
    _expect(model, torch.nn.Module)
    return [buffer.data for buffer in model.buffers()]


def collect_amp_training_params(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> list[torch.Tensor]:
    """Return the tensors that a step in mixed precision changes."""
    _expect(model, torch.nn.Module)
    _expect(optimizer, torch.optim.Optimizer)
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            found.append(parameter.data)
            found += [value for value in optimizer.state[parameter].values() if isinstance(value, torch.Tensor)]
    return [*found, *collect_buffers(model), scaler._scale, scaler._growth_tracker]


def fetch_gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Return the gradients that the optimizer uses."""
    _expect(optimizer, torch.optim.Optimizer)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [parameter.grad.data for parameter in parameters if parameter.grad is not None]


def set_scalar_cached_enable(enabled: bool) -> None:
    """Say whether scalars are kept on the card, which changes nothing here."""


def set_graph_threshold(threshold: int) -> None:
    """Say after how many operations a graph is run, which changes nothing here."""


def clear_graph_caches() -> None:
    """Forget compiled graphs, of which there are none here."""


def add_trace_point(trace_info: str = "", sleep_time: float = 1) -> None:
    """Mark an instant in the vendor's profiler."""


def dump_hbm_alloc_info(device: int | None = None) -> None:
    """Print what the plugin holds on a card."""
    native = _current().native
    index = native.current_device() if device is None else torch.device("xla", device).index
    stats = native.memory(index)
    print(f"xla:{index}: {stats.allocated} bytes in tensors, {stats.reserved} bytes reserved (rehearsed)")


def dump_glob_hbm_use_info(device: int | None = None) -> None:
    """Print what is used of a card."""
    dump_hbm_alloc_info(device)
