"""The card's functions in ptex, of which one is public; a few more are given, and reported as not verified."""

from __future__ import annotations

from torchferry.rehearsal import events as _events
from torchferry.rehearsal.plugin_namespace import current as _current

_FUNCTIONS = _current().elsewhere
_UNVERIFIED = ("current_device", "device_count", "is_available", "set_device", "synchronize")

manual_seed_all = _FUNCTIONS["ptex.tops.manual_seed_all"]


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        _events.record("unverified-api", f"{__name__}.{name}")
    if name in _UNVERIFIED:
        home = "ptex" if name == "device_count" else "torch_gcu"
        return _FUNCTIONS[f"{home}.{name}"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
