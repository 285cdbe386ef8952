"""Whether a top-level module can be imported, without importing it."""

from __future__ import annotations

import contextlib
import importlib.util


def is_importable(module: str) -> bool:
    """Whether a module is there; a folder of its name beside a program, which holds no package, is none."""
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(module)
        return spec is not None and spec.origin is not None
    return False
