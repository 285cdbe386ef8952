"""A name below `torch.cuda` that no table lists.

It may be private (`torch.cuda._lazy_init`), newer than the tables, or misspelt. Whether the plugin has it is
UNKNOWN; with `--unsafe-fixes` it is renamed like its neighbours.

Why: The name may not exist in the plugin. Then the program raises AttributeError when it reaches the line.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import CUDA_NAMES, ReferenceRule


class CudaNameUnlisted(ReferenceRule):
    """Finds names of `torch.cuda` that the tables do not know."""

    CODE = "CUD106"
    EFFECT = Effect.UNKNOWN
    WORDS = CUDA_NAMES
    GROUPS = ("unlisted",)
