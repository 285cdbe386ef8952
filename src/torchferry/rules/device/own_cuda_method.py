"""A method `cuda`, or a property `is_cuda`, that a class of the project defines.

Calls of `.cuda()` become the plugin's method name wherever the object may be a tensor or a module. An object of
this class may be among them, so the class gets the new name beside the old one: a line `npu = cuda` below the
method. Who calls `.cuda()` on it by name still can. A class that answers `is_cuda` itself gets the plugin's name for
that in the same way, where it is defined once in the class; a person decides where objects set it, and where the
question became one of `.device`.

Why: A call under the plugin's name raises AttributeError if the class has only `cuda`.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.own_methods import class_defines
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in

_QUESTION = "is_cuda"
_MOVERS = frozenset({"cuda", "to", "_apply", "apply", "pin_memory"})


class OwnCudaMethod(Rule):
    """Finds definitions of `cuda` and `is_cuda` in classes."""

    CODE = "DEV109"
    EFFECT = Effect.RAISES
    WORDS = ("def cuda", "is_cuda")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each definition."""
        for function in context.file.functions:
            owner = context.file.parents.get(function)
            if function.name != "cuda" or not isinstance(owner, ast.ClassDef) or function.decorator_list:
                continue
            if not owner.bases and not _moves_something(function):
                continue
            yield from self._report(context, function, owner)
        if _QUESTION in context.text and _is_asked(context):
            for definition in context.file.classes:
                yield from self._answers(context, definition)

    def _answers(self, context: PythonContext, owner: ast.ClassDef) -> Iterator[Finding]:
        """Yield what to do where a class answers `is_cuda` itself."""
        own = [statement for statement in owner.body if _binds(statement, _QUESTION)]
        stores = _stores(context, owner, _QUESTION)
        predicate = context.target.backend.PREDICATE
        asked = predicate if isinstance(predicate, str) else "device"
        if not (own or stores) or class_defines(owner, asked) or _stores(context, owner, asked):
            return
        if any(context.names.qualified(base) == "torch.Tensor" for base in owner.bases) and asked == "device":
            return
        place = own[0] if own else stores[0]
        start, end = context.file.span(place)
        at = context.text.find(_QUESTION, start)
        head = (at, at + len(_QUESTION))
        indent = context.text[context.source.starts[place.lineno - 1] : start]
        is_once = len(own) == 1 and not stores and not isinstance(place, ast.AnnAssign)
        decorators = getattr(place, "decorator_list", ())
        if decorators:
            indent = indent or context.text[context.source.starts[decorators[0].lineno - 1] : start]
        if not isinstance(predicate, str):
            message = say(
                "class `{name}` has its own `is_cuda`; where its objects may be asked, the question became one of "
                "`.device.type`, so the class needs a `device` too",
                name=owner.name,
            )
            yield self.finding(context, head, message, Grade.MANUAL)
            return
        message = say(
            "class `{name}` has its own `is_cuda`; it gets the name `{predicate}` too, because the question may have "
            "become `.{predicate}` where its objects are asked",
            name=owner.name,
            predicate=predicate,
        )
        if not is_once or indent.strip():
            yield self.finding(context, head, message, Grade.MANUAL)
            return
        newline = context.source.newline
        space = newline if isinstance(place, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
        edits = [Edit(end, end, f"{space}{newline}{indent}{predicate} = {_QUESTION}")]
        yield self.finding(context, head, message, Grade.SAFE, edits)

    def _report(
        self, context: PythonContext, function: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.ClassDef
    ) -> Iterable[Finding]:
        span = context.file.span(function)
        head = (span[0], context.text.index("cuda", span[0]) + len("cuda"))
        mover = context.target.backend.MOVER
        if not isinstance(mover, str):
            if class_defines(owner, "to"):
                return
            message = say(
                "class `{name}` defines its own `cuda`; calls on objects that may be of this class "
                "became `.to(...)`, so the class needs that method too",
                name=owner.name,
            )
            effect = Effect.WRONG if owner.bases else Effect.RAISES  # a base may have one, which moves less
            yield self.finding(context, head, message, Grade.MANUAL, effect=effect)
            return
        if class_defines(owner, mover):
            return
        indent = context.text[context.source.starts[function.lineno - 1] : span[0]]
        if indent.strip():
            return
        message = say(
            "class `{name}` defines its own `cuda`; it gets the name `{mover}` too, because "
            "calls of `.cuda()` on its objects may have become `.{mover}()`",
            name=owner.name,
            mover=mover,
        )
        newline = context.source.newline
        edits = [Edit(span[1], span[1], f"{newline}{newline}{indent}{mover} = cuda")]
        yield self.finding(context, head, message, Grade.SAFE, edits)


def _is_asked(context: PythonContext) -> bool:
    """Whether a file of the project may ask the question, in CUDA's spelling or in that of a migration."""
    predicate = context.target.backend.PREDICATE
    spellings = (_QUESTION, predicate if isinstance(predicate, str) else "device.type")
    return context.project is None or any(context.project.writes(f".{spelling}") for spelling in spellings)


def _stores(context: PythonContext, owner: ast.ClassDef, member: str) -> list[ast.Attribute]:
    """Return the places in a class where objects are given a member."""
    return [
        node
        for node in context.file.attributes.get(member, ())
        if isinstance(node.ctx, ast.Store) and context.file.enclosing_class(node) is owner
    ]


def _binds(statement: ast.stmt, member: str) -> bool:
    """Whether a statement of a class body gives a member its value, or says that each object has one.

    A method does not: what is called is no question that became another.
    """
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        is_property = any("property" in last_name(decorator) for decorator in statement.decorator_list)
        is_changed = any(last_name(decorator) == "setter" for decorator in statement.decorator_list)
        return statement.name == member and (is_property or is_changed)
    if isinstance(statement, ast.AnnAssign):
        return isinstance(statement.target, ast.Name) and statement.target.id == member
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == member for target in statement.targets
    )


def _moves_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method does what one that moves tensors does: it calls `cuda`, `to` or `_apply` of something."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVERS
        for node in nodes_in(function)
    )
