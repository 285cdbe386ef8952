"""Whether the program captures a graph of the device's: then nothing is computed, and nobody may wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch


def capturing() -> bool:
    """Whether what the program calls now goes into a graph. To be asked once a step or call of a model."""
    try:
        kind = torch._C._get_accelerator().type
        asks = _question(kind) if kind != "cpu" else None
        return asks is not None and asks()
    except (AttributeError, RuntimeError):  # no device that could, or none that is ready
        return False


@lru_cache
def _question(kind: str) -> Callable[[], bool] | None:
    """Return a device's own question, or None where it captures no graphs."""
    module = torch.get_device_module(kind)
    asks = getattr(module, "is_current_stream_capturing", None)
    if asks is None:
        return None
    begun = getattr(module, "is_initialized", None)
    return lambda: (begun is None or bool(begun())) and bool(asks())
