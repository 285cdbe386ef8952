"""Operators: which of them a program needs, which of those a plugin has, and what to do about the others.

Importing this package loads no torch: what a run needs is read from a file, what a plugin has from the vendor's tables.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Load what runs inside a program with torch when it is requested."""
    if name == "cpu_fallback":
        from torchferry.ops.fallback import cpu_fallback

        return cpu_fallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
