"""Work of a model that the CPU did: which module it was, and which line of the program called it.

The device counts what the CPU does in matrix products, convolutions, attention and recurrent layers. It is a model's
where a module with parameters is being called, or where gradients are involved: what prepares data on the CPU has
neither, and is where it belongs.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

from torchferry.core.userlines import Place, UserLines
from torchferry.rehearsal import events
from torchferry.rehearsal.event_kinds import NATIVE

KIND = "host-work"
"""The kind of these events; their amount is in floating point operations."""

_CALL = torch.nn.Module._call_impl.__code__
_WRAPPERS = ("torch.nn.parallel.", "torch.distributed.", "torch._dynamo.")
"""Modules that hold the program's own model; naming them would say nothing."""


def receive(kind: int, subject: bytes, detail: bytes, amount: int) -> None:
    """Count an event of the C++ device; called from any thread."""
    if NATIVE.get(kind) != KIND:
        events.receive(kind, subject, detail, amount)
        return
    found = whose(sys._getframe(1), events.recorder.lines, phase=subject.decode())
    if found is not None:
        events.recorder.add(KIND, found[0], "", amount, found[1])


_OF_GRADIENTS = {"forward": "tensors that need gradients", "backward": "backward"}


def whose(frame: FrameType | None, lines: UserLines, *, phase: str) -> tuple[str, Place] | None:
    """Return what the work that is done in `frame` is part of, and the user's line; None for what is no model's.

    Args:
        frame: The innermost frame.
        lines: Which lines are the user's.
        phase: `forward` where tensors need gradients, `backward` where gradients are computed; empty without any.
    """
    inner = frame
    found: tuple[str, FrameType] | None = None
    while frame is not None:
        if frame.f_code is _CALL:
            name = _on_host(frame.f_locals.get("self"))
            found = (name, frame) if name else found
        frame = frame.f_back
    if found is not None:
        return f"model `{found[0]}`", lines.of(found[1])
    return (_OF_GRADIENTS[phase], lines.of(inner)) if phase in _OF_GRADIENTS else None


def _on_host(module: Any) -> str:
    """Return the name of a module's class where its parameters are on the CPU; empty where it has none there."""
    kind = type(module)
    if not isinstance(module, torch.nn.Module) or kind.__module__.startswith(_WRAPPERS):
        return ""
    parameter = next(module.parameters(), None)
    return kind.__name__ if parameter is not None and parameter.device.type == "cpu" else ""
