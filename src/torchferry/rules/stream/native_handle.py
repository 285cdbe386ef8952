"""The handle of a stream or an event, under CUDA's name.

`stream.cuda_stream`, `event.cuda_event`, `getattr(stream, "cuda_stream")`: the number with which a library outside of
torch addresses the stream. Plugins have it under a name of their own. What is given the number has to be a library
for the target, too.

In code for every device (`migrate --style portable`) the name is made of the type of the stream's device. An attribute
of the project's own that is called so stays.

Why: The plugin's class has no attribute of CUDA's name: the use raises AttributeError, and `hasattr` says no.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import quoted_for
from torchferry.rules.device.own_methods import receiver_owns
from torchferry.rules.device.strings import word_edits
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.references import attribute_span, missing
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value

_DEPTH = 4


class _Handle(NamedTuple):
    """A handle of CUDA's.

    Attributes:
        name: The attribute.
        kind: The class that has it, as the table calls it.
        word: What the name of such an object ends with.
        makers: What returns such an object, below `torch.cuda` or as a method.
    """

    name: str
    kind: str
    word: str
    makers: frozenset[str]


_HANDLES = (
    _Handle(
        "cuda_stream",
        "Stream",
        "stream",
        frozenset({"Stream", "ExternalStream", "current_stream", "default_stream", "get_stream_from_external"}),
    ),
    _Handle("cuda_event", "Event", "event", frozenset({"Event", "record_event"})),
)


class NativeHandle(Rule):
    """Finds handles of streams and events."""

    CODE = "STR103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("pass it to a library of the target"),)
    WORDS = tuple(handle.name for handle in _HANDLES)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each place that takes a handle."""
        for handle in _HANDLES:
            for node, owner in _places(context, handle):
                grade = _grade(context, handle, node, owner)
                if grade is not None:
                    yield self._report(context, handle, node, owner, grade)

    def _report(
        self,
        context: PythonContext,
        handle: _Handle,
        node: ast.Attribute | ast.Constant,
        owner: ast.expr,
        grade: Grade,
    ) -> Finding:
        span = context.file.span(node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=handle.name, reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        name = f"{cuda.NAMESPACE}.{handle.kind}.{handle.name}"
        row = context.target.of_vendor(name)
        if row.status not in REWRITTEN:
            return self.finding(context, span, missing(context, name, row), Grade.MANUAL)
        own = row.use.rpartition(".")[2]
        if context.target.module:
            shown = f'getattr({context.file.text(owner)}, {context.file.text(owner)}.device.type + "_{handle.word}")'
            edits = _portable_edits(context, node, owner, shown)
        else:
            shown = own
            edits = _renamed(context, handle, node, own)
        message = say(
            "`{found}`, the handle of a stream or an event, is `{use}` on {target}; what takes it must be a library "
            "for that device",
            found=handle.name,
            use=shown,
            target=context.target.title,
        )
        if grade is Grade.MANUAL:  # nothing says that it is a stream
            return self.finding(context, span, message, grade, effect=Effect.UNKNOWN)
        return self.finding(context, span, message, grade if edits else Grade.MANUAL, edits)


def _places(context: PythonContext, handle: _Handle) -> Iterator[tuple[ast.Attribute | ast.Constant, ast.expr]]:
    """Yield the places that take a handle, each with the object that it is taken from, in source order."""
    for attribute in sorted(context.file.attributes.get(handle.name, ()), key=lambda n: (n.lineno, n.col_offset)):
        if isinstance(attribute.ctx, ast.Load):
            yield attribute, attribute.value
    for node in context.file.strings:
        call = context.file.parents.get(node)
        if node.value == handle.name and isinstance(call, ast.Call) and call.args[1:2] == [node]:
            if last_name(call.func) in ("getattr", "hasattr"):
                yield node, call.args[0]


def _grade(
    context: PythonContext, handle: _Handle, node: ast.Attribute | ast.Constant, owner: ast.expr
) -> Grade | None:
    """Return how sure it is that an object is torch's stream or event; None where the attribute is another one."""
    if _is_known(context, handle, owner, 0):
        return Grade.SAFE
    if receiver_owns(context, owner, handle.name) or context.names.qualified(owner) is not None:
        return None
    parent = context.file.parents.get(node)
    if isinstance(parent, (ast.Attribute, ast.withitem)) or (isinstance(parent, ast.Call) and parent.func is node):
        return None  # a handle is a number
    if (_word(owner) or "").lower().endswith(handle.word):
        return Grade.UNSAFE
    if any(not isinstance(other.ctx, ast.Load) for other in context.file.attributes[handle.name]):
        return None
    return Grade.MANUAL


def _is_known(context: PythonContext, handle: _Handle, value: ast.expr, depth: int) -> bool:
    """Whether an object is a stream (or an event) of torch's for certain."""
    if depth > _DEPTH:
        return False
    if isinstance(value, ast.Call):
        qualified = context.names.qualified(value.func)
        if qualified is None:  # a method of a stream
            return last_name(value.func) in handle.makers and last_name(value.func) == "record_event"
        return qualified.startswith(f"{cuda.NAMESPACE}.") and qualified.rpartition(".")[2] in handle.makers
    if isinstance(value, ast.Name):
        bindings = context.names.reaching_bindings(value)
    elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
        own = context.file.enclosing_class(value)
        bindings = [
            stored
            for stored in context.file.attributes[value.attr]
            if isinstance(stored.ctx, ast.Store) and own is not None and context.file.enclosing_class(stored) is own
        ]
    else:
        return False
    return bool(bindings) and all(_binds(context, handle, binding, depth) for binding in bindings)


def _binds(context: PythonContext, handle: _Handle, binding: ast.AST, depth: int) -> bool:
    if isinstance(binding, ast.arg):
        qualified = context.names.qualified(binding.annotation) if binding.annotation is not None else None
        return qualified is not None and qualified in (
            f"{cuda.NAMESPACE}.{handle.kind}",
            f"{cuda.NAMESPACE}.streams.{handle.kind}",
        )
    assigned = assigned_value(context.file, binding)
    return assigned is not None and _is_known(context, handle, assigned, depth + 1)


def _word(owner: ast.expr) -> str | None:
    """Return the last identifier of what an object is taken from."""
    return last_name(owner.func if isinstance(owner, ast.Call) else owner)


def _renamed(context: PythonContext, handle: _Handle, node: ast.Attribute | ast.Constant, name: str) -> list[Edit]:
    try:
        if isinstance(node, ast.Attribute):
            return [Edit(*attribute_span(context, node), name)]
        return word_edits(context, node, handle.name, name)
    except ValueError:
        return []


def _portable_edits(
    context: PythonContext, node: ast.Attribute | ast.Constant, owner: ast.expr, text: str
) -> list[Edit]:
    """Return the edit that takes the handle by the name of the device; none where the object is computed twice."""
    if not isinstance(node, ast.Attribute) or not isinstance(owner, (ast.Name, ast.Attribute)):
        return []
    written = quoted_for(context, node, text)
    return [Edit(*context.file.span(node), written)] if written is not None else []
