"""Calls that make process groups, by torch's name or by that of the plugin's own copy of the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.backends.base import Backend
from torchferry.rules.base import PythonContext, calls_to


def calls_of_groups(context: PythonContext) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of functions of `torch.distributed` and of the target's own, with the function's name."""
    modules = dict.fromkeys((Backend.DISTRIBUTED, context.target.backend.DISTRIBUTED))
    for package in dict.fromkeys(module.partition(".")[0] for module in modules):
        for full_name, call in calls_to(context, package):
            owner, _, name = full_name.rpartition(".")
            if owner in modules:
                yield name, call
