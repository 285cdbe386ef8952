"""Find the rules: every module of every family folder that defines a `Rule` with a code."""

from __future__ import annotations

import importlib
from functools import lru_cache
from pathlib import Path

from torchferry.rules.base import Rule


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, in order of their codes.

    Raises:
        ValueError: two rules have the same code.
    """
    found: dict[str, Rule] = {}
    for module in _modules():
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module:
                code = value.__dict__.get("CODE")
                if code is None:
                    continue
                if code in found:
                    raise ValueError(f"{value.__name__} and {type(found[code]).__name__} both have the code {code}")
                found[code] = value()
    return tuple(found[code] for code in sorted(found))


def _modules() -> list[str]:
    folder = Path(__file__).parent
    return sorted(
        f"{__package__}.{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        if not path.stem.startswith("_")
    )
