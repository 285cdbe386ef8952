"""Parameters, buffers, gradients and optimizers: what a run starts from, and what each step makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchferry.numerics.framework.modules import ModulePaths

_LARGEST = 1 << 15
"""Parameters that are followed by name."""


def local(tensor: Tensor) -> Tensor | None:
    """Return the values of a tensor that lie here: of a DTensor, its part; None where there are none to read."""
    part = getattr(tensor, "_local_tensor", None)
    tensor = (part if isinstance(part, Tensor) else tensor).detach()
    if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer):
        return None
    if tensor.device.type == "meta" or tensor.is_nested or tensor.layout is not torch.strided or tensor.numel() == 0:
        return None
    return tensor if tensor.dtype.is_floating_point or tensor.dtype.is_complex else None


class Tracked:
    """The parameters and buffers of the modules that have run, by their paths."""

    def __init__(self, paths: ModulePaths) -> None:
        self._paths = paths
        self._roots: set[int] = set()
        self.parameters: dict[str, nn.Parameter] = {}
        self.buffers: dict[str, Tensor] = {}
        self.sharded = False

    def add(self, root: nn.Module) -> bool:
        """Take in what an outermost module holds; returns whether it was new."""
        if id(root) in self._roots:
            return False
        self._roots.add(id(root))
        for module in root.modules():
            path = self._paths.of(module)
            for name, parameter in module._parameters.items():
                if parameter is not None and len(self.parameters) < _LARGEST:
                    self.parameters.setdefault(self._paths.parameter(parameter) or f"{path}.{name}", parameter)
                    self.sharded = self.sharded or name == "_flat_param" or hasattr(parameter, "_local_tensor")
            for name, buffer in module._buffers.items():
                if buffer is not None and len(self.buffers) < _LARGEST:
                    self.buffers.setdefault(f"{path}.{name}", buffer)
        return True

    def gradients(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and gradient of each parameter that has one."""
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                part = local(parameter.grad)
                if part is not None:
                    yield name, part


def settings(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Return what each group of parameters is told: numbers and switches, and how many parameters it has."""
    groups = []
    for group in optimizer.param_groups:
        told = {key: _number(value) for key, value in group.items() if key != "params"}
        groups.append({"parameters": len(group["params"]), **told})
    return groups


def states(optimizer: Optimizer) -> dict[str, list[Tensor]]:
    """Return the optimizer's tensors of one element or more for each parameter, by their names: `exp_avg`."""
    found: dict[str, list[Tensor]] = {}
    for state in optimizer.state.values():
        if not isinstance(state, dict):
            continue
        for name, value in state.items():
            part = local(value) if isinstance(value, Tensor) else None
            if part is not None and part.numel() > 1:
                found.setdefault(str(name), []).append(part)
    return found


def norm(parts: list[Tensor]) -> Tensor:
    """Return the norm of all elements of some tensors, as one number on the first one's device."""
    norms = torch._foreach_norm(parts)
    device = norms[0].device
    found: Tensor = torch.linalg.vector_norm(torch.stack([one.to(device, torch.float32) for one in norms]))
    return found


def _number(value: Any) -> Any:
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and value.device.type == "cpu" else "a tensor"
    if isinstance(value, (list, tuple)):
        return [_number(part) for part in value]
    return value if isinstance(value, (bool, int, float, str)) or value is None else type(value).__name__
