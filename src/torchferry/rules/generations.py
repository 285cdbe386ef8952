"""Where code reads the generation of an NVIDIA card: its compute capability, its name, its properties."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext
from torchferry.rules.references import renamed_references
from torchferry.rules.value_steps import TracedExpression, ValueUse
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Reference
from torchferry.source.nodes import nodes_in

CAPABILITY = f"{cuda.NAMESPACE}.get_device_capability"
PROPERTIES = f"{cuda.NAMESPACE}.get_device_properties"
NAME = f"{cuda.NAMESPACE}.get_device_name"

_ASKED = {
    CAPABILITY: say("the compute capability"),
    NAME: say("the name"),
}
_OF_FIELDS = {"major": CAPABILITY, "minor": CAPABILITY, "name": NAME}


class CapabilityRead(NamedTuple):
    """One use of a function that tells about the card.

    Attributes:
        reference: The function's name, where it is called.
        field: The field of the properties that is read; empty for the other functions.
        place: Where the value is read, in this file.
        asked: What is asked of the card, for messages; None where it does not tell the generation.
        uses: The uses of the value that decide something by it, or may refuse None, in source order.
        is_renamed: Whether the target's name of the function is there.
        has_default: Whether something else is read where the properties have no such field.
    """

    reference: Reference
    field: str
    place: ast.AST
    asked: Message | None
    uses: tuple[ValueUse, ...]
    is_renamed: bool = False
    has_default: bool = False

    @property
    def is_compared(self) -> bool:
        """Whether the value takes part in a comparison, directly or through names."""
        return any(isinstance(use.question, ast.Compare) for use in self.uses)


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
        if reference.name != PROPERTIES and reference.name not in _ASKED:
            continue
        followed = context.values.of(call)
        if reference.name != PROPERTIES:
            yield CapabilityRead(reference, "", call, _ASKED[reference.name], followed.uses)
            continue
        fields = {(field.node, name): field for held in followed.values for name, field in _field_of(held)}
        for (_, name), field in sorted(fields.items(), key=lambda item: _position(item[1])):
            uses = context.values.follow(field).uses
            asked = _ASKED.get(_OF_FIELDS.get(name, ""))
            has_default = isinstance(field.node, ast.Call) and len(field.node.args) > 2
            yield CapabilityRead(
                reference,
                name,
                field.left_at or field.node,
                asked,
                uses,
                has_default=has_default or _is_asked_for(field),
            )


def _position(place: TracedExpression) -> tuple[int, int]:
    node = place.left_at or place.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _field_of(held: TracedExpression) -> Iterator[tuple[str, TracedExpression]]:
    """Yield the field of the properties that is read of an expression that holds them."""
    above = held.file.parents.get(held.node)
    if isinstance(above, ast.Attribute) and isinstance(above.ctx, ast.Load):
        if not above.attr.startswith("_"):
            yield above.attr, held._replace(node=above)
    elif isinstance(above, ast.Call) and last_name(above.func) == "getattr" and above.args[:1] == [held.node]:
        name = string_value(above.args[1]) if len(above.args) > 1 else None
        if name:
            yield name, held._replace(node=above)


def _is_asked_for(field: TracedExpression) -> bool:
    """Whether a field is read only where the properties have it, by a question around the place or by its exception."""
    name = field.node.attr if isinstance(field.node, ast.Attribute) else ""
    child: ast.AST = field.node
    parent = field.file.parents.get(child)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        test = (
            parent.test
            if isinstance(parent, (ast.If, ast.IfExp))
            else parent
            if isinstance(parent, ast.BoolOp)
            else None
        )
        for call in nodes_in(test) if test is not None else ():
            if isinstance(call, ast.Call) and last_name(call.func) == "hasattr" and len(call.args) == 2:
                if string_value(call.args[1]) == name:
                    return True
        if isinstance(parent, ast.Try) and child in parent.body and any(map(_catches_absence, parent.handlers)):
            return True
        child, parent = parent, field.file.parents.get(parent)
    return False


def _catches_absence(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(
        isinstance(part, ast.Name) and part.id in ("AttributeError", "Exception", "BaseException")
        for part in nodes_in(handler.type)
    )
