"""Find the rules: every module of every family folder that defines a `Rule` with a code."""

from __future__ import annotations

import importlib
import os
from functools import lru_cache
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.rules.base import Rule


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """Return one instance of every rule, in order of their codes.

    Raises:
        ValueError: two rules have the same code.
    """
    by_code: dict[str, Rule] = {}
    for module in _modules():
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module:
                code = value.__dict__.get("CODE")
                if code is None:
                    continue
                if code in by_code:
                    raise ValueError(f"{value.__name__} and {type(by_code[code]).__name__} both have the code {code}")
                by_code[code] = value()
    return tuple(by_code[code] for code in sorted(by_code))


def unknown_rule(code: str) -> UsageError:
    """Return the error for a code that no rule and no family has, with the nearest one."""
    codes = [rule.CODE for rule in rules()]
    families = {name[:3] for name in codes}
    wanted = code.upper()
    digits = wanted[:3] + wanted[3:].replace("O", "0").replace("I", "1")  # which are easily taken for each other
    import difflib  # imported late: most runs have no wrong name

    close = difflib.get_close_matches(digits, sorted({*codes, *families}), n=1)
    advice = say("`torchferry rule` lists them")
    if close:
        advice = say("did you mean `{close}`? `torchferry rule` lists them", close=close[0])
    return UsageError(say("there is no rule or family `{code}`", code=code), advice)


def _modules() -> list[str]:
    modules: list[str] = []
    with os.scandir(Path(__file__).parent) as families:
        for family in families:
            if family.is_dir():
                names = [name.removesuffix(".py") for name in os.listdir(family) if name.endswith(".py")]
                modules += [f"{__package__}.{family.name}.{name}" for name in names if not name.startswith("_")]
    return sorted(modules)
