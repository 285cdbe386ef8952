"""Warnings that name the program's line."""

from __future__ import annotations

import sys
import warnings

from torchferry.core.messages import Message


def warn_user(text: Message) -> None:
    """Warn at the innermost line that is neither torchferry's nor torch's."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in {"torchferry", "torch"}:
        frame, level = frame.f_back, level + 1
    warnings.warn(f"torchferry: {text}", UserWarning, stacklevel=level)
