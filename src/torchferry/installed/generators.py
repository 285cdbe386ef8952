"""Where a package keeps the states of random generators for a list of devices that lacks the target.

A resumed run has the states of before, or draws other numbers from there on. A library that names each device by itself
(`torch.cuda.get_rng_state_all()`, `torch.xpu...`) leaves out the cards that it does not name, and nothing says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.names import DEFINITIONS, Names
from torchferry.source.python import PythonFile

READERS = ("get_rng_state", "get_rng_state_all")
"""Functions that return the state of one generator, and of those of all devices."""

_OF_DEVICE = lazy_regex(r"torch\.(?P<device>[a-z]\w*)(?:\.random)?\.get_rng_state(?:_all)?\Z")
_OF_CPU = frozenset({"torch.get_rng_state", "torch.random.get_rng_state"})
_ANY_DEVICE = lazy_regex(r"torch\.(?:accelerator\.|get_device_module\b)")


def device_lists(file: PythonFile, names: Names, words: frozenset[str]) -> Iterator[tuple[ast.expr, tuple[str, ...]]]:
    """Yield where a function keeps the state of the CPU's generator and those of named devices without the target's.

    Args:
        file: The file.
        names: Its names.
        words: By which code speaks of the target.

    Yields:
        The first such name, and the devices that are named.
    """
    if not any(reader in file.source.text for reader in READERS):
        return
    by_function: dict[ast.AST, list[tuple[str, ast.expr]]] = {}
    for reference in names.references("torch"):
        function = file.parents.get(reference.node)
        while function is not None and not isinstance(function, DEFINITIONS):
            function = file.parents.get(function)
        if function is not None and isinstance(reference.node, ast.expr):
            by_function.setdefault(function, []).append((reference.name, reference.node))
    for function, uses in by_function.items():
        if _takes_any(function) or any(_ANY_DEVICE.match(name) for name, _ in uses):
            continue
        named = [(match["device"], node) for name, node in uses if (match := _OF_DEVICE.match(name)) is not None]
        devices = {device for device, _ in named} - {"random"}
        if devices and not devices & words and any(name in _OF_CPU for name, _ in uses):
            yield (
                min((node for device, node in named if device in devices), key=lambda node: node.lineno),
                tuple(sorted(devices)),
            )


def _takes_any(function: ast.AST) -> bool:
    """Whether a function also asks a module for its state that a variable names: `getattr(torch, device)`."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and not isinstance(node.args[1], ast.Constant)
        for node in ast.walk(function)
    )
