"""What a program asks of a tensor's device while its code is traced: `torch.compile`, `torch.export`, `make_fx`.

A tracer answers these questions from its own record of the tensor, past the attributes of `torch.Tensor`. The one who
asks is the module whose code is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.devices import Devices
from torchferry.shim.patch_tensors import shown_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

_OWN_DEVICE = (
    ("torch._subclasses.fake_tensor", "FakeTensor"),
    ("torch.nn.utils._expanded_weights.expanded_weights_impl", "ExpandedWeight"),
    ("torch.distributed.tensor._shards_wrapper", "LocalShardsWrapper"),
)
"""torch's tensor classes with an attribute `device` of their own: `torch.export` and `make_fx` trace with the first."""


_COMPILER = "torch._inductor.compile_fx"
"""Module of inductor, the default backend of `torch.compile`, and its function `compile_fx`."""


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect each tracer, once it is imported; a torch whose tracer is built otherwise keeps its own answers."""
    devices = resolver.devices

    def step(module: ModuleType) -> None:
        tensor = module.TensorVariable
        for name in ("method_attr_device", "method_attr_is_cuda"):
            original = vars(tensor).get(name)
            if original is not None:
                patches.set(tensor, name, _shown(original, name, module, devices, viewers))

    patches.when_imported("torch._dynamo.variables.tensor", step)
    for path, name in _OWN_DEVICE:
        patches.when_imported(path, _show_device(patches, name, devices, viewers))

    def explain(module: ModuleType) -> None:
        patches.set(module, "compile_fx", _explained(module.compile_fx, resolver.target))

    patches.when_imported(_COMPILER, explain)


def _explained(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Return inductor's entry; where it fails for want of a code generator or of Triton, the reason is said."""

    @functools.wraps(original)
    def compile_fx(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as error:
            reason = _reason(error, target) if _concerns(args, target.backend.DEVICE_TYPE) else None
            if reason is None:
                raise
            text = say("{reason}; TORCH_COMPILE_DISABLE=1 runs the program without torch.compile", reason=reason)
            raise NotImplementedError(f"torchferry: {noted(text, target.api('torch.compile').remark)}") from error

    return compile_fx


def _reason(error: BaseException, target: Target) -> Message | None:
    from torch._inductor.codegen.common import get_scheduling_for_device

    device = target.backend.DEVICE_TYPE
    if get_scheduling_for_device(device) is None:
        return say(
            "`torch.compile` with inductor generates no code for {target}: the installed plugin registers nothing for"
            " `{device}`",
            target=target.title,
            device=device,
        )
    if "triton" in f"{type(error).__name__} {error}".lower():
        return say("`torch.compile` with inductor fails on {target}: {error}", target=target.title, error=error)
    return None


def _concerns(args: tuple[Any, ...], device: str) -> bool:
    """Whether a graph, or what it is given, has a tensor on the card."""
    graph = getattr(args[0], "graph", None) if args else None
    values = [value for node in getattr(graph, "nodes", ()) for value in (node.meta.get("example_value"),)]
    given = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
    return any(isinstance(value, torch.Tensor) and value.device.type == device for value in (*values, *given))


def _show_device(patches: Patches, name: str, devices: Devices, viewers: Viewers) -> Callable[[ModuleType], None]:
    def step(module: ModuleType) -> None:
        kind: Any = getattr(module, name, None)
        own = vars(kind).get("device") if isinstance(kind, type) else None
        if isinstance(own, property) and own.fget is not None:
            patches.set(kind, "device", property(shown_device(own.fget, devices, viewers), own.fset, own.fdel))

    return step


def _shown(
    original: Callable[..., Any], name: str, module: ModuleType, devices: Devices, viewers: Viewers
) -> Callable[..., Any]:
    asks_device = name == "method_attr_device"

    @functools.wraps(original)
    def method_attr(self: Any, tx: Any) -> Any:
        shown = devices.to_cuda.get(self.device)
        if shown is None or viewers.decide(tx.f_globals.get("__name__", "")):
            return original(self, tx)
        return module.VariableTracker.build(tx, shown if asks_device else shown.type == cuda.DEVICE_TYPE)

    return method_attr
