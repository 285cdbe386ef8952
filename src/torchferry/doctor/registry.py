"""Finding the checks: every module of `checks`, in the order of their codes' families."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from torchferry.doctor import checks
from torchferry.doctor.check import SIDES, Check

_FAMILIES = (
    "driver",
    "node",
    "tool",
    "card",
    "sdk",
    "library",
    "environment",
    "system",
    "container",
    "python",
    "probe",
)


@lru_cache(maxsize=1)
def all_checks() -> tuple[Check, ...]:
    """Return all checks in the order of the report."""
    checks_found = [_check_of(info.name) for info in pkgutil.iter_modules(checks.__path__)]
    order = list(SIDES)
    return tuple(sorted(checks_found, key=lambda check: (order.index(check.side), _family(check.code), check.rank)))


def _check_of(name: str) -> Check:
    """Return the check of a module of `checks`.

    Raises:
        TypeError: it has none, or several.
    """
    module = importlib.import_module(f"{checks.__name__}.{name}")
    own = [value for value in vars(module).values() if isinstance(value, Check)]
    if len(own) != 1:
        raise TypeError(f"{module.__name__} has {len(own)} checks, and ought to have one")
    return own[0]


def _family(code: str) -> int:
    return _FAMILIES.index(code.partition(".")[0])
