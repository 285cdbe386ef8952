"""Which names a file takes from the module with the portable names."""

from __future__ import annotations

import re

from torchferry.core.lazy_regex import lazy_regex

EVERY = "*"
"""What represents all names: `from device_utils import *`."""

WHOLE = "whole_module"
"""The name of the module itself, as a value: which names it is asked for cannot be told."""

_NAME = lazy_regex(r"[\w*]+")
_COMMENT = lazy_regex(r"#[^\n]*")


def names_used(text: str, module: str) -> set[str]:
    """Return the names that a text takes from a module; a text that only mentions one counts too.

    Args:
        text: The source of a Python file, or a notebook as it is.
        module: The module, dotted. It may also be imported relatively, or under another name.
    """
    stem = module.rpartition(".")[2]
    if stem not in text:
        return set()
    owners = {re.escape(stem)}
    owners |= {re.escape(alias) for alias in re.findall(rf"\b{re.escape(stem)}[ \t]+as[ \t]+(\w+)", text)}
    owner = f"(?:{'|'.join(sorted(owners))})"
    used = set(re.findall(rf"(?<!\w){owner}[ \t]*\.[ \t]*(\w+)", text))
    used |= set(re.findall(rf"\b(?:get|has)attr\([ \t]*(?:[\w.]+\.)?{owner}[ \t]*,[ \t]*\\?[\"'](\w+)", text))
    imports = rf"\bfrom[ \t]+[\w.]*(?<!\w){re.escape(stem)}[ \t]+import[ \t]*(?:\(([^)]*)\)|([\w*, \t]+))"
    for many, names in re.findall(imports, text):
        for part in _COMMENT.sub("", many or names).split(","):
            match = _NAME.search(part)
            if match is not None:
                used.add(match.group())
    return used | {EVERY} if WHOLE in used else used
