"""What `torch.cuda` offers, done on a simulated device: one file a family, each generic over the device's name.

Which of these names the plugin of a target has is not decided here: `torchferry.rehearsal.plugin_namespace` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchferry.rehearsal.device_module import amp, devices, extras, graphs, markers, memory, random, streams, tensors
from torchferry.rehearsal.device_module.context import DeviceContext

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native
    from torchferry.rehearsal.profile import Profile

__all__ = ["implementations"]

_FAMILIES = (amp, devices, extras, graphs, markers, memory, random, streams, tensors)


def implementations(native: Native, profile: Profile) -> dict[str, object]:
    """Return everything that can be rehearsed, by its name relative to `torch.cuda`, such as `amp.autocast`."""
    context = DeviceContext(native, profile)
    names: dict[str, object] = {}
    for family in _FAMILIES:
        names.update(family.implementations(context))
    return names
