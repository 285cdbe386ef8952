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
        looped = _looked_up(function, file.tree)
        if looped is None or any(_ANY_DEVICE.match(name) for name, _ in uses):
            continue
        named = [(match["device"], node) for name, node in uses if (match := _OF_DEVICE.match(name)) is not None]
        named += looped
        devices = {device for device, _ in named} - {"random"}
        if devices and not devices & words and any(name in _OF_CPU for name, _ in uses):
            yield (
                min((node for device, node in named if device in devices), key=lambda node: node.lineno),
                tuple(sorted(devices)),
            )


def _looked_up(function: ast.AST, tree: ast.AST) -> list[tuple[str, ast.expr]] | None:
    """Return the devices that `getattr(torch, device)` is asked for in a loop over a list that is written out.

    Returns:
        Each device with the place; None where a variable may name any device, the target's too.
    """
    looked_up: list[tuple[str, ast.expr]] = []
    for node in ast.walk(function):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id != "getattr"
            or len(node.args) < 2
            or isinstance(node.args[1], ast.Constant)
        ):
            continue
        listed = _listed(node.args[1], function, tree)
        if "cuda" not in listed:
            return None
        looked_up += [(device, node) for device in listed]
    return looked_up


def _listed(variable: ast.expr, function: ast.AST, tree: ast.AST) -> tuple[str, ...]:
    """Return the texts that a loop gives a variable; none where that is not written out."""
    if not isinstance(variable, ast.Name):
        return ()
    loops = [
        node.iter
        for node in ast.walk(function)
        if isinstance(node, (ast.For, ast.comprehension))
        and isinstance(node.target, ast.Name)
        and node.target.id == variable.id
    ]
    if len(loops) != 1 or _is_assigned(variable.id, function):
        return ()
    over = loops[0]
    if isinstance(over, ast.Name):
        values = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == over.id for name in node.targets)
        ]
        if len(values) != 1 or _is_extended(over.id, tree):
            return ()
        over = values[0]
    if not isinstance(over, (ast.Tuple, ast.List, ast.Set)):
        return ()
    texts = [item.value for item in over.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return tuple(texts) if len(texts) == len(over.elts) else ()


def _is_assigned(name: str, function: ast.AST) -> bool:
    """Whether a function also gives a variable a value in another way than by a loop."""
    return any(
        isinstance(node, (ast.Assign, ast.AugAssign, ast.NamedExpr))
        and any(
            isinstance(each, ast.Name) and each.id == name
            for each in (node.targets if isinstance(node, ast.Assign) else [node.target])
        )
        for node in ast.walk(function)
    )


def _is_extended(name: str, tree: ast.AST) -> bool:
    """Whether a list of devices is changed behind its definition: `DEVICES.append(...)`, `DEVICES += [...]`."""
    return any(
        (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name)
        or (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == name
            and node.attr in ("append", "extend", "insert", "add", "update")
        )
        for node in ast.walk(tree)
    )
