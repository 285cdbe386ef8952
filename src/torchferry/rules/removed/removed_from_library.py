"""A name that newer versions of Python, SciPy or Pillow no longer have: `collections.Mapping`, `scipy.misc.imread`.

The newest torch of a plugin needs a newer Python than a program of 2018, and other packages are newer too unless the
project pins older ones. Names that moved are replaced by their new names, which exist in every version that a plugin's
torch supports.

Why: The import fails with the versions that the target's torch needs.

References:
- Python 3.10, What's New: aliases to collections.abc removed from collections
- Pillow 10.0.0 release notes: constants removed; ANTIALIAS was LANCZOS
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromLibrary(RemovedNamesRule):
    """Finds names that newer versions of Python, SciPy and Pillow no longer have."""

    CODE = "TCH104"
    EFFECT = Effect.RAISES
    ONLY_WITH_TORCH = True
    PACKAGES = ("python", "scipy", "pillow")
    WORDS = (
        "collections.", "from collections import", "getargspec", "scipy.misc", "from scipy import", "ANTIALIAS",
        "Image.LINEAR", "Image.CUBIC",
    )  # fmt: skip
