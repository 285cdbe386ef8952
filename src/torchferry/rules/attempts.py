"""Attempts that fail on the target, and by that choose a device or a dtype.

An import of what the target does not have, or of the driver's library, inside a `try` that copes: the handler runs
there. Where the two ways give one name a device and the CPU, or two dtypes, the attempt chooses, and the program goes
on with the other one without a word. A name that is true by the one way and false by the other is followed to the
conditions that it decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.rules.answers import (
    Outcomes,
    conditions_asking,
    kept_from,
    outcomes,
    outcomes_around,
    told_apart,
    ways_of,
)
from torchferry.rules.base import PythonContext
from torchferry.rules.guarded import catching, copes
from torchferry.source.flow.syntax import last_name, string_value

_LOADERS = frozenset({"CDLL", "LoadLibrary", "PyDLL"})
_DRIVER = lazy_regex(r"(?:.*/)?(?:lib)?(?:cuda|nvidia|nvml|nvcuda)")
_DTYPE = lazy_regex(r"torch\.(?:b?float\d+|half|float|double)\Z")
_CPU = "cpu"


class Attempt(NamedTuple):
    """An attempt that fails on the target, and what it chooses.

    Attributes:
        node: What fails.
        chooses: Where the choice is: the use of a name in this file, or what fails itself.
        module: What is imported; empty where it is the driver's library.
    """

    node: ast.AST
    chooses: ast.AST
    module: str


def choosing_attempts(context: PythonContext) -> Iterator[Attempt]:
    """Yield the attempts of a file that choose a device or a dtype, each place once."""
    seen: set[ast.AST] = set()
    for node, module in _failing(context):
        attempt = _try_around(context, node)
        if attempt is None:
            continue
        taken, otherwise = _ways(context, attempt, node)
        for place in _choices(context, taken, otherwise, node):
            if place not in seen:
                seen.add(place)
                yield Attempt(node, place, module)


def _failing(context: PythonContext) -> Iterator[tuple[ast.AST, str]]:
    """Yield what fails on the target: imports of what it does not have, and of the driver's library."""
    for statement in context.file.imports:
        if not isinstance(context.file.parents.get(statement), ast.Try):
            continue
        for alias in statement.names:
            package = alias.name
            if isinstance(statement, ast.ImportFrom):
                package = context.names.imported_module(statement)
            if context.kernel_reach.is_extension(alias) or _lacks(context, f"{package}.{alias.name}"):
                yield statement, package.lstrip(".") or alias.name
                break
    for text in context.file.strings:
        call = context.file.parents.get(text)
        if isinstance(call, ast.Call) and last_name(call.func) in _LOADERS and _DRIVER.match(str(text.value)):
            yield call, ""


def _lacks(context: PythonContext, module: str) -> bool:
    """Whether a module belongs to a package that the target does not have; one of the project's own does not."""
    top = module.partition(".")[0]
    if not top or (context.project is not None and context.project.module_path(top, context.path) is not None):
        return False
    return context.target.has_module(module) is False


def _try_around(context: PythonContext, node: ast.AST) -> ast.Try | None:
    statement = context.file.statement(node)
    parent = context.file.parents.get(statement)
    if isinstance(parent, ast.Try) and statement in parent.body and copes(parent):
        return parent
    return None


def _ways(context: PythonContext, attempt: ast.Try, node: ast.AST) -> tuple[Outcomes, Outcomes]:
    """Return what the two ways give: that on which nothing fails, and that of the handlers, which the target takes."""
    taken = outcomes([*attempt.body, *attempt.orelse])
    otherwise = outcomes_around(context, attempt)
    for handler in catching(attempt):
        otherwise.update(outcomes(handler.body))
    return taken, otherwise


def _choices(context: PythonContext, taken: Outcomes, otherwise: Outcomes, place: ast.AST) -> Iterator[ast.AST]:
    """Yield where two ways, of which the target takes the second, come to another device or dtype.

    Args:
        context: The file.
        taken: What the first way gives.
        otherwise: What the second way gives.
        place: Where the choice is, if these two ways make it, or another file.
    """
    if _choose(context, taken, otherwise):
        yield place
    for name, wanted in taken.items():
        for origin, positive in told_apart({name: wanted}, otherwise):
            for asked in conditions_asking(context, kept_from(context, origin, name, positive)):
                test = asked.context.file.parents.get(asked.condition.top)
                if asked.needed and isinstance(test, (ast.If, ast.IfExp)) and asked.condition.top is test.test:
                    ways = ways_of(asked.context, test)
                    if _choose(asked.context, *(ways if asked.positive else ways[::-1])):
                        yield asked.use if asked.context is context else place


def _choose(context: PythonContext, taken: Outcomes, otherwise: Outcomes) -> bool:
    """Whether two ways give a name another device or dtype."""
    return any(
        not isinstance(wanted, ast.alias) and not isinstance(other, ast.alias) and _differ(context, wanted, other)
        for name, wanted in taken.items()
        if (other := otherwise.get(name)) is not None
    )


def _differ(context: PythonContext, wanted: ast.expr, other: ast.expr) -> bool:
    """Whether two values are a device and the CPU, or two dtypes."""
    device, instead = _device(wanted), _device(other)
    if device and instead:
        own = ("cuda", "gpu", context.target.backend.DEVICE_TYPE)
        return instead == _CPU and device.partition(":")[0] in own
    names = context.names.qualified(wanted), context.names.qualified(other)
    return names[0] != names[1] and all(name is not None and _DTYPE.match(name) for name in names)


def _device(node: ast.expr) -> str:
    """Return the text of a device, of an f-string its beginning."""
    if isinstance(node, ast.Call) and node.args and last_name(node.func) == "device":
        node = node.args[0]
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return string_value(node) or ""
