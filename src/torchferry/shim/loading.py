"""`DataLoader`: the device that batches are pinned for."""

from __future__ import annotations

from torch.utils.data import DataLoader

from torchferry.shim.parameters import Parameters
from torchferry.shim.patches import Patches


def patch(patches: Patches, parameters: Parameters) -> None:
    """Redirect `pin_memory_device`."""
    patches.set(DataLoader, "__init__", parameters.translated(DataLoader.__init__))
