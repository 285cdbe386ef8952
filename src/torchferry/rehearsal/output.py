"""Printing, saving and loading of tensors: each is one event, whatever torch does inside for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torchferry.rehearsal import events


def watch() -> None:
    """Count what torch does to print a tensor as one wait, and what it does to save or load objects as one copy."""
    printing: Any = torch._tensor_str
    serialization: Any = torch.serialization
    printing._str = _as_one(printing._str, "synchronisation", "printing a tensor")
    for name, kind, subject in (
        ("_save", "to-host", "torch.save"),
        ("_legacy_save", "to-host", "torch.save"),
        ("_load", "to-device", "torch.load"),
        ("_legacy_load", "to-device", "torch.load"),
    ):
        setattr(serialization, name, _as_one(getattr(serialization, name), kind, subject))


def _as_one(original: Callable[..., Any], kind: str, subject: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        with events.as_one(kind, subject):
            return original(*args, **kwargs)

    return call
