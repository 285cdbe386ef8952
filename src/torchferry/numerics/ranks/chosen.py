"""Which tensors of a model must be the same on all ranks, and why the others need not be."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from torchferry.core.messages import Message, say

PARAMETER, GRADIENT, BUFFER = "parameter", "gradient", "buffer"


@dataclass
class Chosen:
    """What is compared of a model.

    Attributes:
        names: Kind and name of each tensor, `("gradient", "blocks.0.weight")`.
        tensors: The tensors; None for a gradient that is not there.
        left_out: Why tensors are not compared, with their names.
    """

    names: list[tuple[str, str]] = field(default_factory=list)
    tensors: list[Tensor | None] = field(default_factory=list)
    left_out: dict[Message, list[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str, tensor: Tensor | None) -> None:
        """Compare a tensor, or say why not."""
        reason = None if tensor is None else _unfit(tensor)
        if reason is not None:
            self.leave(reason, name)
        else:
            self.names.append((kind, name))
            self.tensors.append(tensor)

    def leave(self, reason: Message, name: str) -> None:
        """Note that a tensor is not compared."""
        self.left_out.setdefault(reason, []).append(name)


def choose(model: nn.Module, gradients: bool, buffers: bool) -> Chosen:
    """Return what of a model must be the same on all ranks."""
    chosen = Chosen()
    ignored, prefix = _ignored(model)
    sharded = _sharded(model)
    for name, parameter in model.named_parameters():
        short = name.removeprefix(prefix)
        if short in ignored:
            chosen.leave(say("DistributedDataParallel is told to ignore them"), short)
        elif any(name == path or name.startswith(f"{path}.") or not path for path in sharded):
            chosen.leave(say("each rank has a part of them (FSDP)"), short)
        else:
            chosen.add(PARAMETER, short, parameter)
            if gradients and parameter.requires_grad and chosen.names[-1:] == [(PARAMETER, short)]:
                chosen.add(GRADIENT, short, parameter.grad)
    for name, buffer in model.named_buffers():
        short = name.removeprefix(prefix)
        if short in ignored:
            chosen.leave(say("DistributedDataParallel is told to ignore them"), short)
        elif buffers:
            chosen.add(BUFFER, short, buffer)
        else:
            chosen.leave(say("buffers are each rank's own between two forwards; they are compared on request"), short)
    return chosen


def _ignored(model: nn.Module) -> tuple[frozenset[str], str]:
    """Return the names that DistributedDataParallel leaves alone, and what it puts in front of names."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return frozenset(getattr(model, "parameters_to_ignore", ())), "module."
    return frozenset(), ""


def _sharded(model: nn.Module) -> list[str]:
    """Return the paths of modules whose parameters FSDP (the first one) has cut up; the second one has DTensors."""
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except ImportError:
        return []
    return [name for name, module in model.named_modules() if isinstance(module, FullyShardedDataParallel)]


def _unfit(tensor: Tensor) -> Message | None:
    if type(tensor) not in {Tensor, nn.Parameter, nn.Buffer}:
        if hasattr(tensor, "placements"):
            return say("each rank has a part of them (DTensor)")
        return say("they are of a class of their own, {kind}", kind=type(tensor).__name__)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return say("they are sparse, quantized or nested")
    if tensor.device.type == "meta":
        return say("they have no values (meta)")
    return None
