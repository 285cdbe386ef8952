"""A name that NumPy no longer has: `np.float`, `np.int`, `np.bool`, `np.NaN`, `np.product`.

NumPy 1.24 removed the aliases of Python's own types, and 2.0 a hundred more names. The torch of the target's plugin
comes with such a NumPy unless the project pins an older one. The replacement means the same in every NumPy. `np.bool`
returned in 2.0 as NumPy's own type; where a dtype is expected, `bool` means the same.

Why: The program raises AttributeError with the NumPy that comes with the target's torch.

References:
- NumPy 1.24.0 release notes: expired deprecations of NumPy 1.20; the aliases were the builtins themselves
- NumPy 2.0.0 migration guide: table of removed names and what each was
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.removed._names import RemovedNamesRule


class RemovedFromNumpy(RemovedNamesRule):
    """Finds names that NumPy no longer has."""

    CODE = "TCH103"
    EFFECT = Effect.RAISES
    ONLY_WITH_TORCH = True
    PACKAGES = ("numpy",)
    WORDS = (
        *(f"np.{name}" for name in ("float", "int", "bool", "object", "str", "complex", "unicode", "cfloat")),
        *(f"numpy.{name}" for name in ("float", "int", "bool", "object", "str", "complex", "unicode", "cfloat")),
        "typeDict", ".Inf", ".NaN", ".NAN", ".PINF", ".NINF", ".infty", ".product", ".cumproduct", ".alltrue",
        ".sometrue", ".round_", "np.mat(", "numpy.mat(", "asfarray", "find_common_type", "msort", "np.cast", "sctype",
        "np.Float64", "string_",
    )  # fmt: skip
