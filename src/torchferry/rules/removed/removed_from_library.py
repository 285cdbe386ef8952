"""A name that newer versions of Python, SciPy or Pillow no longer have: `collections.Mapping`, `scipy.misc.imread`.

The newest torch of a plugin needs a newer Python than a program of 2018 knew, and what is installed beside it is newer
too, unless the project asks for an older one. Names that moved are written where they stand now; both are there in
every
version that a plugin's torch runs on.

Why: The import fails with the versions that the target's torch needs.

References:
- Python 3.10, What's New: aliases to collections.abc removed from collections
- Pillow 10.0.0 release notes: constants removed; ANTIALIAS was LANCZOS
"""

from __future__ import annotations

from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromLibrary(RemovedNamesRule):
    """Finds names that newer versions of Python, SciPy and Pillow no longer have."""

    CODE = "TCH104"
    PACKAGES = ("python", "scipy", "pillow")
    WORDS = (
        "collections.", "from collections import", "getargspec", "scipy.misc", "from scipy import", "ANTIALIAS",
        "Image.LINEAR", "Image.CUBIC",
    )  # fmt: skip
