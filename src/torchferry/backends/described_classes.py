"""The classes that are made from descriptions, as attributes of this module: where a pickle looks for them."""

from __future__ import annotations

from torchferry.backends.base import Backend
from torchferry.backends.registry import load, names


def __getattr__(name: str) -> type[Backend]:
    """Return the class of a target, which is an attribute of this module where it is pickled."""
    if not name.startswith("__") and name in names():
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
