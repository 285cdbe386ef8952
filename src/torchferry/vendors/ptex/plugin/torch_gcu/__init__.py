"""The package torch_gcu 1.10 as a program sees it, over a simulated Enflame T20.

Names follow github.com/mango-MilkT/torch_gcu@14a99843d05c (an installed torch_gcu 1.10), read statically.
"""

from __future__ import annotations

import torch as _torch

from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__)
_functions = _plugin.elsewhere

for _name in (
    "current_device",
    "device",
    "device_of",
    "get_device_name",
    "is_available",
    "set_device",
    "synchronize",
):
    globals()[_name] = _functions[f"torch_gcu.{_name}"]
device_count = _functions["ptex.device_count"]


def manual_seed_all(seed: int) -> None:
    """Seed every card.

    Raises:
        ValueError: the seed is not below 2**32.
    """
    seed = int(seed)
    if not 0 <= seed < 2**32:
        raise _events.refusal(ValueError(f"Seed must be a unint32 number which is between 0~4294967295, got {seed}"))
    _functions["ptex.tops.manual_seed_all"](seed)


def gcu_device(device: int | _torch.device | None = None) -> _torch.device:
    """Return the device of an index, by default the current one."""
    if isinstance(device, _torch.device):
        if device.type != "xla":
            raise _events.refusal(ValueError(f"Expected a gcu device, but got: {device}"))
        device = device.index
    return _torch.device("xla", _plugin.native.current_device() if device is None else device)


def _is_gcu(self: _torch.Tensor) -> bool:
    """Whether the tensor is on a card: a method there, not a property."""
    return self.device.type == "xla"


_torch.Tensor.is_gcu = _is_gcu

from torch_gcu import _lazy as _lazy_device  # noqa: E402 - they need the functions above

globals().update({name: getattr(_lazy_device, name) for name in _lazy_device.__all__})
globals().update(_facade_support.stubs(__name__, ["get_graph", "get_hbm_alloc_size", "get_version", "metrics_report"]))

from torch_gcu import amp, distributed, nn, utils  # noqa: E402
from torch_gcu.utils import data  # noqa: E402

__all__ = ["amp", "data", "distributed", "nn", "utils"]
__getattr__ = _facade_support.missing(__name__)
