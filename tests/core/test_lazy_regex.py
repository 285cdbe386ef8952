"""Expressions that are compiled when they are used: each of torchferry's is right, and used as a compiled one is."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest

import torchferry
from torchferry.core.lazy_regex import LazyRegex, lazy_regex

PARTS = ("core", "backends", "source", "rules", "migration", "report", "cli")


def expressions(value: Any) -> list[LazyRegex]:
    if isinstance(value, LazyRegex):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [found for part in inner for found in expressions(part)]


def test_each_compiles() -> None:
    found = [
        expression
        for module in pkgutil.walk_packages(torchferry.__path__, "torchferry.")
        if module.name.split(".")[1] in PARTS
        for value in vars(importlib.import_module(module.name)).values()
        for expression in expressions(value)
    ]
    assert len(found) > 150
    for expression in found:
        assert isinstance(expression.compiled(), re.Pattern)


def test_it_is_used_as_a_compiled_one() -> None:
    pattern = lazy_regex(r"(?P<a>x)\d", re.IGNORECASE)
    assert pattern.pattern == r"(?P<a>x)\d"
    assert "_compiled" not in vars(pattern)
    match = pattern.match("X1")
    assert match is not None
    assert match["a"] == "X"
    assert pattern.sub("-", "ax2") == "a-"
    assert pattern.groupindex == {"a": 1}


def test_a_wrong_one_says_so_when_it_is_used() -> None:
    with pytest.raises(re.error):
        lazy_regex("(").match("")
