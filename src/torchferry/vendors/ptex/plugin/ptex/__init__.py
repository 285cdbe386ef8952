"""The package ptex as a program sees it, over a simulated Enflame T20.

Sources: T20 deployment manual (TopsRider t2x 2.5.136) in github.com/BarryZ001/MapSage_V5@4ea9c434a110 docs, which
shows `device`, `device_count` and `tops.manual_seed_all`; nothing else of it is public.
"""

from __future__ import annotations

import torch as _torch

from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__, known=False)
__version__ = _facade_support.stated_version()

from ptex import tops  # noqa: E402 - it needs the device

__all__ = ["device", "device_count", "tops"]

device_count = _plugin.elsewhere["ptex.device_count"]


def device(name: str = "xla", index: int | None = None) -> _torch.device:
    """Return a device of the card: `ptex.device("xla")` the current one, `ptex.device("xla:1")` the second."""
    chosen = _torch.device(name)
    if chosen.type != "xla":
        raise _events.refusal(RuntimeError(f"ptex.device takes xla or xla:INDEX, got {name!r}"))
    position = chosen.index if index is None else index
    return _torch.device("xla", _plugin.native.current_device() if position is None else position)


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        _events.record("unverified-api", f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
