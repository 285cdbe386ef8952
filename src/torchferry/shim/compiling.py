"""`torch.compile`: what a program asks of a tensor's device while its code is traced.

torch answers these questions from its own record of the tensor, past the tensor's attributes. The one who asks is the
module whose code is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchferry.backends import cuda
from torchferry.shim.devices import Devices
from torchferry.shim.patches import Patches
from torchferry.shim.viewers import Viewers


def patch(patches: Patches, devices: Devices, viewers: Viewers) -> None:
    """Redirect the tracer, once it is imported; a torch whose tracer is built otherwise keeps its own answers."""

    def step(module: ModuleType) -> None:
        tensor = module.TensorVariable
        for name in ("method_attr_device", "method_attr_is_cuda"):
            original = vars(tensor).get(name)
            if original is not None:
                patches.set(tensor, name, _shown(original, name, module, devices, viewers))

    patches.when_imported("torch._dynamo.variables.tensor", step)


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
