"""Functions by which a library asks whether the device is a certain card of NVIDIA's: it is none.

Such a function reads CUDA's capability, a number of another vendor's that a card may not have; its own answer is known
all the same, whatever number the card gives. Which functions these are is in the tables of CUDA's side.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from torchferry.backends import cuda
from torchferry.shim.patches import Patches


def patch(patches: Patches) -> None:
    """Let each of them answer no as soon as its module is imported; one that a version lacks is left out."""
    for path in cuda.asks_for_nvidia():
        module, _, name = path.rpartition(".")
        patches.when_imported(module, _step(patches, name))


def _step(patches: Patches, name: str) -> Callable[[ModuleType], None]:
    def step(module: ModuleType) -> None:
        if hasattr(module, name):
            patches.set(module, name, _no)

    return step


def _no(*args: Any, **kwargs: Any) -> bool:
    return False
