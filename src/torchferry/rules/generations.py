"""Where code reads the generation of an NVIDIA card: its compute capability, its name, its properties."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.conditions import NUMBERS, converts, stored_uses
from torchferry.rules.references import renamed_references
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Reference

CAPABILITY = f"{cuda.NAMESPACE}.get_device_capability"
PROPERTIES = f"{cuda.NAMESPACE}.get_device_properties"
NAME = f"{cuda.NAMESPACE}.get_device_name"

_ASKED = {
    CAPABILITY: say("the compute capability"),
    NAME: say("the name of the card"),
}
_OF_FIELDS = {"major": CAPABILITY, "minor": CAPABILITY, "name": NAME}
_STEPS = (ast.Attribute, ast.Subscript, ast.Call, ast.BinOp, ast.Tuple, ast.FormattedValue, ast.JoinedStr)
_CONVERSION = lazy_regex(
    r"%(?P<key>\([^()]*\))?[-#0 +]*(?P<width>\*|(?!0)\d*)(?:\.(?:\*|\d*))?[hlL]?(?P<kind>[a-zA-Z%])"
)
_OF_NUMBERS = frozenset("diouxXeEfFgGc")
"""Conversions of `%` that refuse None."""

_DEPTH = 3
"""How many names are followed from one to the next."""


class CapabilityRead(NamedTuple):
    """One use of a function that tells about the card.

    Attributes:
        reference: The function's name, where it is called.
        value: What was read: the call, or the field of the properties.
        asked: What is asked of the card, for messages; None where it does not tell the generation.
        comparison: The first comparison that the value takes part in, directly or through names.
        calculation: The first expression that raises where the value is None.
        is_renamed: Whether the target's name of the function stands there.
    """

    reference: Reference
    value: ast.expr
    asked: Message | None
    comparison: ast.Compare | None
    calculation: ast.AST | None
    is_renamed: bool = False

    @property
    def field(self) -> str:
        """The field of the properties that is read; empty for the other functions."""
        return self.value.attr if isinstance(self.value, ast.Attribute) else ""


def readings(context: PythonContext) -> list[CapabilityRead]:
    """Return what a file asks of the card by CUDA's names, in source order."""
    return list(_readings(context, context.references.get("device", ())))


def renamed_readings(context: PythonContext) -> list[CapabilityRead]:
    """Return what a file asks of the card by the target's names, in source order."""
    references = renamed_references(context, (CAPABILITY, PROPERTIES, NAME))
    return [reading._replace(is_renamed=True) for reading in _readings(context, references)]


def _readings(context: PythonContext, references: Iterable[Reference]) -> Iterator[CapabilityRead]:
    for reference in references:
        call = context.file.parents.get(reference.node)
        if reference.is_import or not isinstance(call, ast.Call) or call.func is not reference.node:
            continue
        if reference.name == PROPERTIES:
            for held in _held(context, call):
                field = context.file.parents.get(held)
                if isinstance(field, ast.Attribute) and isinstance(field.ctx, ast.Load):
                    yield _reading(context, reference, field, _ASKED.get(_OF_FIELDS.get(field.attr, "")))
        elif reference.name in _ASKED:
            yield _reading(context, reference, call, _ASKED[reference.name])


def _reading(context: PythonContext, reference: Reference, value: ast.expr, asked: Message | None) -> CapabilityRead:
    comparison: ast.Compare | None = None
    calculation: ast.AST | None = None
    for held in _held(context, value):
        comparison = comparison or _comparison(context, held)
        calculation = calculation or _calculation(context, held)
    for part in _parts(context, value):
        comparison = comparison or _comparison(context, part)
    for derived in _made_of(context, value):
        comparison = comparison or _comparison(context, derived)
    return CapabilityRead(reference, value, asked, comparison, calculation)


def _held(context: PythonContext, value: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """Yield a value and the uses of the names that it is kept under."""
    yield value
    if depth < _DEPTH:
        for use in sorted(stored_uses(context, value), key=lambda node: (node.lineno, node.col_offset)):
            yield from _held(context, use, depth + 1)


def _parts(context: PythonContext, value: ast.expr) -> Iterator[ast.expr]:
    """Yield the uses of the names that the parts of a value are unpacked to."""
    for held in _held(context, value):
        statement = context.file.parents.get(held)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], (ast.Tuple, ast.List)):
            for name in statement.targets[0].elts:
                if isinstance(name, ast.Name):
                    yield from context.names.uses_of(name)


def _made_of(context: PythonContext, value: ast.expr) -> Iterator[ast.expr]:
    """Yield the uses of what is calculated or written from a value: `sm = major * 10 + minor`."""
    for held in [*_held(context, value), *_parts(context, value)]:
        whole: ast.expr = held
        above = context.file.parents.get(whole)
        while isinstance(above, _STEPS):
            if isinstance(above, ast.Call) and (whole is above.func or not converts(last_name(above.func))):
                break
            whole, above = above, context.file.parents.get(above)
        if whole is not held:
            for use in _held(context, whole):
                if use is not whole:
                    yield use


def _comparison(context: PythonContext, value: ast.expr) -> ast.Compare | None:
    """Return the comparison that a value is part of."""
    above = context.file.parents.get(value)
    while isinstance(above, _STEPS):
        above = context.file.parents.get(above)
    return above if isinstance(above, ast.Compare) else None


def _calculation(context: PythonContext, value: ast.expr) -> ast.AST | None:
    """Return the expression around a value that raises where the value is None; None where nothing does."""
    above = context.file.parents.get(value)
    raises = False
    if isinstance(above, ast.Compare):
        raises = any(not isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)) for operator in above.ops)
    elif isinstance(above, ast.BinOp):
        formatted = isinstance(above.op, ast.Mod) and above.right is value
        raises = not formatted or _is_number(above.left, 0, 1)
    elif isinstance(above, ast.Tuple):
        whole = context.file.parents.get(above)
        if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mod) and whole.right is above:
            raises = _is_number(whole.left, above.elts.index(value), len(above.elts))
            above = whole
    elif isinstance(above, ast.FormattedValue):
        raises = above.value is value and above.conversion == -1 and above.format_spec is not None
    elif isinstance(above, ast.Subscript):
        raises = above.value is value
    elif isinstance(above, ast.Assign):
        raises = above.value is value and isinstance(above.targets[0], (ast.Tuple, ast.List))
    elif isinstance(above, ast.Call):
        raises = value in above.args and isinstance(above.func, ast.Name) and last_name(above.func) in NUMBERS
    else:
        raises = isinstance(above, (ast.Starred, ast.UnaryOp)) and not (
            isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
        )
    return above if raises else None


def _is_number(form: ast.expr, index: int, count: int) -> bool:
    """Whether `form % values` writes one of so many values as a number."""
    text = string_value(form)
    conversions = [conversion for conversion in _CONVERSION.finditer(text or "") if conversion["kind"] != "%"]
    if len(conversions) != count or any(conversion["key"] or "*" in conversion[0] for conversion in conversions):
        return False
    return conversions[index]["kind"] in _OF_NUMBERS
