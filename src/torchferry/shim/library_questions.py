"""Functions by which a library asks whether the device is a certain card of NVIDIA's: it is none.

Such a function reads CUDA's capability, a number of another vendor's that a card may not have; its own answer is known
all the same. Which functions these are is in libraries.toml (`is_nvidia`), with the versions that were read.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchferry.backends.target import Target
from torchferry.shim.patches import Patches


def patch(patches: Patches, target: Target) -> None:
    """Let each of them answer no as soon as its module is imported; one that a version lacks is left out."""
    for row in target.backend.table("libraries"):
        for path in row.extra.get("is_nvidia", ()):
            module, _, name = path.rpartition(".")
            patches.when_imported(module, _step(patches, name))


def _step(patches: Patches, name: str) -> Callable[[ModuleType], None]:
    def step(module: ModuleType) -> None:
        if hasattr(module, name):
            patches.set(module, name, _no)

    return step


def _no(*args: Any, **kwargs: Any) -> bool:
    return False
