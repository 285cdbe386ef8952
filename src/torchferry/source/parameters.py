"""The lists of which pytest makes tests, with what they hold where a variable, a sum or a choice of lists is given::

DEVICES = ["cpu"]
if torch.cuda.is_available():
    DEVICES.append("cuda")

@pytest.mark.parametrize("device", DEVICES)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchferry.core.record import NamedTuple
from torchferry.source.nodes import nodes_in
from torchferry.source.python import PythonFile

_DEEPEST = 8
"""Lists in lists that are followed."""


class ParameterList(NamedTuple):
    """What is given for the parameters of a test or a fixture.

    Attributes:
        pytest: How the file names pytest there.
        values: The expression that is given.
        elements: What it holds, wherever that is written; of a choice what either side holds.
        parts: The expressions on the way that say what it holds, itself and the elements among them.
        shared: Whether a variable that holds some of it is also used for something else.
    """

    pytest: str
    values: ast.expr
    elements: tuple[ast.expr, ...]
    parts: tuple[ast.expr, ...]
    shared: bool


def parameter_lists(file: PythonFile) -> Iterator[ParameterList]:
    """Yield the lists of parameters of which it is known what they hold."""
    given = list(_given(file))
    uses = {id(node) for _, values in given for node in nodes_in(values)}
    for name, values in given:
        reader = _HeldElements(file)
        elements = reader.elements(values, 0)
        if elements is not None:
            shared = any(id(use) not in uses for variable in reader.variables for use in reader.loads(variable))
            yield ParameterList(name, values, tuple(elements), (*reader.parts, *elements), shared)


def _given(file: PythonFile) -> Iterator[tuple[str, ast.expr]]:
    for name in ("parametrize", "fixture"):
        for attribute in file.attributes.get(name, ()):
            call = file.parents.get(attribute)
            if not isinstance(call, ast.Call) or call.func is not attribute:
                continue
            owner = file.text(attribute.value)
            keyword = "params" if name == "fixture" else "argvalues"
            values = next((each.value for each in call.keywords if each.arg == keyword), None)
            if name == "fixture" and values is not None and owner == "pytest":
                yield owner, values
            elif name == "parametrize" and owner.endswith(".mark"):
                if values is None and len(call.args) > 1:
                    values = call.args[1]
                if values is not None:
                    yield owner.removesuffix(".mark"), values


class _HeldElements:
    """Finds what an expression holds, and the variables on the way."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.variables: set[str] = set()
        self.parts: list[ast.expr] = []

    def elements(self, values: ast.expr, depth: int) -> list[ast.expr] | None:
        """Return what a list holds; None where that is not known. Of a part of a literal, nothing is known then."""
        if depth > _DEEPEST:
            return None
        self.parts.append(values)
        if isinstance(values, (ast.List, ast.Tuple)):
            inner: list[ast.expr] = []
            for each in values.elts:
                inner += (self.elements(each.value, depth + 1) or ()) if isinstance(each, ast.Starred) else (each,)
            return inner
        parts: list[ast.expr] = []
        if isinstance(values, ast.Name):
            held = self._held(values.id)
            if held is None:
                return None
            parts = held
        elif isinstance(values, ast.IfExp):
            parts = [values.body, values.orelse]
        elif isinstance(values, ast.BinOp) and isinstance(values.op, ast.Add):
            parts = [values.left, values.right]
        else:
            return None
        several = [self.elements(part, depth + 1) for part in parts]
        return None if None in several else [each for some in several for each in some or ()]

    def _held(self, name: str) -> list[ast.expr] | None:
        """Return the lists that a variable of the module is given; None where something else may give it another."""
        if name in self.file.binders:
            return None
        self.variables.add(name)
        lists: list[ast.expr] = []
        for node in self.file.names.get(name, ()):
            if isinstance(node.ctx, ast.Load):
                added = self._added(node)
                if added is not None:
                    lists.append(added)
                continue
            statement = self.file.parents[node]
            if not isinstance(self.file.scope(node), ast.Module):
                return None
            is_whole = isinstance(statement, ast.Assign) and statement.targets == [node]
            if not is_whole and not isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
                return None
            value: ast.expr | None = getattr(statement, "value", None)
            if value is not None:
                lists.append(value)
        return lists or None

    def loads(self, name: str) -> Iterator[ast.Name]:
        """Yield the uses of a variable that do not add to it."""
        for node in self.file.names.get(name, ()):
            if isinstance(node.ctx, ast.Load) and self._added(node) is None:
                yield node

    def _added(self, use: ast.Name) -> ast.expr | None:
        """Return the list that a use adds to a variable: `DEVICES.append("cuda")`, `DEVICES.extend(["cuda"])`."""
        attribute = self.file.parents.get(use)
        if not isinstance(attribute, ast.Attribute):
            return None
        call = self.file.parents.get(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute or len(call.args) != 1:
            return None
        if attribute.attr == "extend":
            return call.args[0]
        return ast.List(elts=call.args, ctx=ast.Load()) if attribute.attr == "append" else None
