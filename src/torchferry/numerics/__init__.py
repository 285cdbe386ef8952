"""Numerics: which operator was the first to be wrong, in which module, since which step, on any device."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "CompareWithCPU": "torchferry.numerics.compare",
    "open_module_tracker": "torchferry.numerics.compare",
    "ModuleInfo": "torchferry.numerics.compare",
    "NanInfTracker": "torchferry.numerics.nan.tracker",
    "Recorder": "torchferry.numerics.recording",
    "compare_for_single_op": "torchferry.numerics.replay",
    "nan_inf_track_for_single_op": "torchferry.numerics.replay",
    "check_equal_across_ranks": "torchferry.numerics.ranks",
}
"""What is meant to be used in programs, and where it is: imported when it is requested, since it imports torch."""

__all__ = sorted(_NAMES)  # noqa: PLE0605 - a list, made of the names above


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_NAMES[name]), name)
