"""What a program asks of a tensor's device while its code is traced: `torch.compile`, `torch.export`, `make_fx`.

A tracer answers these questions from its own record of the tensor, past the attributes of `torch.Tensor`. The one who
asks is the module whose code is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchferry.backends import cuda
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.tensors import shown_device
from torchferry.shim.viewers import Viewers

_OWN_DEVICE = (
    ("torch._subclasses.fake_tensor", "FakeTensor"),
    ("torch.nn.utils._expanded_weights.expanded_weights_impl", "ExpandedWeight"),
    ("torch.distributed.tensor._shards_wrapper", "LocalShardsWrapper"),
)
"""torch's tensor classes with an attribute `device` of their own: `torch.export` and `make_fx` trace with the first."""


def patch(patches: Patches, devices: Devices, viewers: Viewers) -> None:
    """Redirect each tracer, once it is imported; a torch whose tracer is built otherwise keeps its own answers."""

    def step(module: ModuleType) -> None:
        tensor = module.TensorVariable
        for name in ("method_attr_device", "method_attr_is_cuda"):
            original = vars(tensor).get(name)
            if original is not None:
                patches.set(tensor, name, _shown(original, name, module, devices, viewers))

    patches.when_imported("torch._dynamo.variables.tensor", step)
    for path, name in _OWN_DEVICE:
        patches.when_imported(path, _show_device(patches, name, devices, viewers))


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
