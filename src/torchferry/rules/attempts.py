"""Attempts that fail on the target, and by that choose a device or a dtype.

An import of what the target does not have, or of the driver's library, inside a `try` that copes: the handler runs
there. Where the two ways give one name a device and the CPU, or two dtypes, the attempt chooses, and the program goes
on with the other one without a word. A name that is true by the one way and false by the other is followed to the
conditions that it decides.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from torchferry.core.budget import spend
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple
from torchferry.rules.answers import elsewhere
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import condition_of, stored_uses
from torchferry.rules.guarded import catching, copes
from torchferry.source.flow.syntax import last_name, string_value

_LOADERS = frozenset({"CDLL", "LoadLibrary", "PyDLL"})
_DRIVER = lazy_regex(r"(?:.*/)?(?:lib)?(?:cuda|nvidia|nvml|nvcuda)")
_DTYPE = lazy_regex(r"torch\.(?:b?float\d+|half|float|double)\Z")
_CPU = "cpu"

_Outcomes = dict[str, ast.expr | ast.alias]
"""What a way gives each name, and, under the empty name, what it returns."""


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
        for place in _choices(context, taken, otherwise, node, set()):
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


def _ways(context: PythonContext, attempt: ast.Try, node: ast.AST) -> tuple[_Outcomes, _Outcomes]:
    """Return what the two ways give: that on which nothing fails, and that of the handlers, which the target takes."""
    taken = _outcomes([*attempt.body, *attempt.orelse])
    otherwise = _outcomes_around(context, attempt)
    for handler in catching(attempt):
        otherwise.update(_outcomes(handler.body))
    return taken, otherwise


def _beside(context: PythonContext, statement: ast.stmt) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """Return the statements before and behind one in the same body."""
    parent = context.file.parents.get(statement)
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list) and statement in body:
            place = body.index(statement)
            return body[:place], body[place + 1 :]
    return (), ()


def _outcomes_around(context: PythonContext, statement: ast.stmt) -> _Outcomes:
    """Return what the statements before one give, and what is returned right behind it."""
    before, behind = _beside(context, statement)
    earlier = _outcomes(before)
    earlier.pop("", None)
    return {**earlier, **(_outcomes(behind[:1]) if behind and isinstance(behind[0], ast.Return) else {})}


def _outcomes(statements: Sequence[ast.stmt]) -> _Outcomes:
    given: _Outcomes = {}
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            given.update((alias.asname or alias.name.partition(".")[0], alias) for alias in statement.names)
        elif isinstance(statement, ast.Assign):
            given.update((ast.unparse(target), statement.value) for target in statement.targets)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            given[ast.unparse(statement.target)] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            given[""] = statement.value
    return given


def _choices(
    context: PythonContext, taken: _Outcomes, otherwise: _Outcomes, place: ast.AST, met: set[ast.expr]
) -> Iterator[ast.AST]:
    """Yield where two ways, of which the target takes the second, come to another device or dtype.

    Args:
        context: The file.
        taken: What the first way gives.
        otherwise: What the second way gives.
        place: Where the choice is, if these two ways make it.
        met: Uses of names that were followed already.
    """
    for name in (name for name in taken if name in otherwise):
        wanted, other = taken[name], otherwise[name]
        if isinstance(other, ast.alias):
            continue
        if not isinstance(wanted, ast.alias) and _differ(context, wanted, other):
            yield place
        elif _is_true(wanted) and _is_false(other):
            yield from _decided(context, _uses(context, wanted), met)
            if any(True for where, use in elsewhere(context, name) for _ in _decided(where, [use], met)):
                yield place


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


def _uses(context: PythonContext, answer: ast.expr | ast.alias) -> list[ast.expr]:
    """Return the uses of the name that is true by one way alone, or the calls of the function that returns it."""
    return [*context.names.uses_of_import(answer)] if isinstance(answer, ast.alias) else stored_uses(context, answer)


def _is_true(node: ast.expr | ast.alias) -> bool:
    return not isinstance(node, ast.Constant) or bool(node.value)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _decided(context: PythonContext, answers: Iterable[ast.expr], met: set[ast.expr]) -> Iterator[ast.AST]:
    """Yield which of some uses of a name that is true by one way alone, or of a function that returns it, choose."""
    waiting = deque(answers)
    while waiting:
        use = waiting.popleft()
        if use in met:
            continue
        spend()
        met.add(use)
        condition = condition_of(context, use, answer=True)
        if condition is None or not condition.needed:
            continue
        parent = context.file.parents.get(condition.top)
        if isinstance(parent, ast.IfExp) and condition.top is parent.test:
            ways: tuple[_Outcomes, _Outcomes] = {"": parent.body}, {"": parent.orelse}
        elif isinstance(parent, ast.If) and condition.top is parent.test:
            ways = _branches(context, parent)
        else:
            waiting += stored_uses(context, condition.top)
            continue
        if not condition.positive:
            ways = ways[1], ways[0]
        yield from _choices(context, *ways, use, met)


def _branches(context: PythonContext, test: ast.If) -> tuple[_Outcomes, _Outcomes]:
    around = _outcomes_around(context, test)
    return {**around, **_outcomes(test.body)}, {**around, **_outcomes(test.orelse)}
