"""An environment variable of CUDA, read or set in Python.

`os.environ["CUDA_VISIBLE_DEVICES"]`, `CUDA_LAUNCH_BLOCKING`, `PYTORCH_CUDA_ALLOC_CONF`, `NCCL_*`. Set, they do nothing
on the target: a program meant for card 3 takes card 0 of everybody else. Each plugin has its own names; values may
differ too, which the finding says; a value that the target's variable refuses is left to you. So is what a string
assigns, `"CUDA_VISIBLE_DEVICES=0"`, where it is not known what reads it.

Why: The variable has no effect on the target. The program may use cards of other people.

References:
- table env
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.budget import spend
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.default_texts import choices_of
from torchferry.rules.device.strings import asked_when_run, literal_span, word_edits
from torchferry.rules.environment.built_variable import built_variables
from torchferry.rules.environment.variables import VARIABLE, VariableReplacement, replacement, replacement_of_any
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.family import Portability
from torchferry.rules.texts import is_text
from torchferry.source.flow.assembled import folded
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import assigned_value
from torchferry.source.python_commands import started_commands

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class CudaEnvironment(Rule):
    """Finds environment variables of CUDA in Python."""

    CODE = "ENV101"
    EFFECT = Effect.WRONG
    ANSWERS = (say("use the target's variable"), say("leave the variable out"))
    NEEDS_COUNTERPART = True
    PORTABILITY = Portability.IN_PYTHON
    WORDS = (
        *("CUDA_", "NCCL_", "NVIDIA_", "CUDNN_", "CUBLAS_", "DIFFUSERS_ATT"),
        *('"CUDA"', "'CUDA'", '"NCCL"', "'NCCL'"),  # a name that is put together
    )

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string that is such a variable, and each keyword of `dict(os.environ, ...)`."""
        for node in context.file.strings:
            if not isinstance(node.value, str) or is_text(context, node):
                continue
            assignment = _ASSIGNMENT.search(node.value)
            if VARIABLE.match(node.value):
                yield from self._string(context, node, node.value)
            elif assignment is not None and VARIABLE.match(assignment["name"]):
                yield from self._assignment(context, node, assignment["name"], assignment["value"])
        for whole, name in built_variables(context):
            yield from self._built(context, whole, name)
        for name, keywords in context.file.keywords.items():
            if VARIABLE.match(name):
                for keyword in keywords:
                    yield from self._keyword(context, keyword, name)

    def _string(self, context: PythonContext, node: ast.Constant, name: str) -> Iterable[Finding]:
        given = _given(context, node)
        instead = replacement_of_any(context.target, name, () if given is None else _texts_of(context, given))
        if instead is None:
            return
        is_kept = isinstance(context.file.parents.get(node), (ast.Subscript, ast.Call))  # by what runs in this process
        group = name if instead.is_outside and is_kept else ""
        for finding in self._found(context, node, name, instead):
            # what is read of a variable that keeps its name is read under that name
            yield finding._replace(group=group or finding.group, needs=(name,) if given is None else finding.needs)

    def _built(self, context: PythonContext, whole: ast.expr, name: str) -> Iterable[Finding]:
        """Report a name that is put together; where the target has another, that is written in one piece."""
        given = _given(context, whole)
        instead = replacement_of_any(context.target, name, () if given is None else _texts_of(context, given))
        if instead is None or exemption_for(context, whole) is not None:
            return
        span = context.file.span(whole)
        edits = [Edit(*span, f'"{instead.use}"')] if instead.use and not context.target.module else []
        grade = instead.grade if edits or not instead.use else Grade.MANUAL
        yield self.finding(context, span, instead.message, grade, edits, effect=instead.effect)

    def _found(
        self, context: PythonContext, node: ast.Constant, name: str, instead: VariableReplacement
    ) -> Iterable[Finding]:
        span = literal_span(context, node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=name, reason=exemption.reason)
            yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            return
        if context.target.module and not instead.refused:
            yield self._portable(context, node, name, instead)
            return
        edits = word_edits(context, node, name, instead.use) if instead.use else []
        yield self.finding(context, span, instead.message, instead.grade, edits, effect=instead.effect)

    def _assignment(self, context: PythonContext, node: ast.Constant, name: str, value: str) -> Iterable[Finding]:
        """Report `NAME=value` in a string that the rules for command lines do not see."""
        is_part = isinstance(context.file.parents.get(node), ast.JoinedStr)
        instead = replacement(context.target, name, None if is_part and not value else value)
        if instead is None or exemption_for(context, node) is not None:
            return
        start, end = literal_span(context, node)
        view, _ = started_commands(context.file, context.names)
        if view[start:end].strip():
            return
        edits = word_edits(context, node, name, instead.use) if instead.use and not context.target.module else []
        grade = instead.grade if not instead.use else Grade.UNSAFE if edits else Grade.MANUAL
        yield self.finding(context, (start, end), instead.message, grade, edits, effect=instead.effect)

    def _portable(self, context: PythonContext, node: ast.Constant, name: str, instead: VariableReplacement) -> Finding:
        """Ask for the variable when the program runs, where portable code has a name for it."""
        if name != _VISIBLE:
            message = say(
                "only CUDA reads `{found}`; where the program is started, set the variable that {target} reads",
                found=name,
                target=context.target.title,
            )
            is_idle = instead.effect is Effect.NOTHING
            grade, effect = (Grade.NOTE, Effect.NOTHING) if is_idle else (Grade.MANUAL, Effect.UNKNOWN)
            return self.finding(context, literal_span(context, node), message, grade, effect=effect)
        use = f"{context.target.module}.visible_devices_variable()"
        message = say("`{name}` is `{use}` on {target}", name=name, use=use, target=context.target.title)
        grade = Grade.UNSAFE if instead.grade is Grade.UNSAFE else Grade.SAFE
        return asked_when_run(self, context, node, use, message, grade)

    def _keyword(self, context: PythonContext, keyword: ast.keyword, name: str) -> Iterable[Finding]:
        instead = replacement_of_any(context.target, name, _texts_of(context, keyword.value))
        call = context.file.parents.get(keyword)
        if instead is None or not isinstance(call, ast.Call) or exemption_for(context, call) is not None:
            return
        taker = last_name(call.func)
        if taker not in _TAKES_ANY and any(argument for argument in context.file.arguments.get(name, ())):
            return  # a parameter of the project's own
        start, _ = context.file.span(keyword)
        span = (start, start + len(name))
        edits = [Edit(*span, instead.use)] if instead.use and not context.target.module else []
        sure = instead.grade if taker in _TAKES_ANY else Grade.UNSAFE
        grade = instead.grade if not instead.use else sure if edits else Grade.MANUAL
        yield self.finding(context, span, instead.message, grade, edits, effect=instead.effect)


_READS = frozenset({"get", "getenv", "pop"})
"""Functions whose second argument is what they return where the variable is not set."""

_TAKES_ANY = frozenset({"dict", "update", "OrderedDict"})
"""Functions that make items of their keyword arguments."""

_ASSIGNMENT = lazy_regex(r"(?:\A|&&|;)[ \t]*(?:(?:export|env)[ \t]+)?(?P<name>[A-Z][A-Z0-9_]*)=(?P<value>[^\s;&|]*)")

_VALUES = ("value", "val", "v")
"""Keywords by which a variable is given its value."""


def _given(context: PythonContext, node: ast.expr) -> ast.expr | None:
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        statement = context.file.parents.get(parent)
        return statement.value if isinstance(statement, ast.Assign) else None
    if isinstance(parent, ast.keyword):
        call = context.file.parents.get(parent)
        others = call.keywords if isinstance(call, ast.Call) else []
        return next((other.value for other in others if other.arg in _VALUES), None)
    if isinstance(parent, ast.Call) and node in parent.args[:-1] and last_name(parent.func) not in _READS:
        return parent.args[parent.args.index(node) + 1]  # setdefault, putenv, setenv; setitem(os.environ, name, value)
    if isinstance(parent, ast.Call) and parent.args[-1:] == [node]:
        return next((keyword.value for keyword in parent.keywords if keyword.arg in _VALUES), None)
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return parent.values[parent.keys.index(node)]
    if isinstance(parent, ast.Tuple) and len(parent.elts) == 2 and parent.elts[0] is node:
        return parent.elts[1]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        uses = context.names.uses_of(parent.targets[0])
        values = (_given(context, use) for use in uses if not isinstance(context.file.parents.get(use), ast.Assign))
        return next((value for value in values if value is not None), None)
    return None


def _texts_of(context: PythonContext, expression: ast.expr) -> tuple[str, ...]:
    """Return the texts that a value may be, with `{}` for what is put into them; those that are no numbers first."""
    choices = [*choices_of(context, expression)]
    met = {expression}
    for each in choices:  # a variable may be what another one is given
        if isinstance(each, ast.Name) and each not in met:
            spend()
            met.add(each)
            choices += choices_of(context, each)
    texts = [text for each in choices if (text := _text_of(context, each)) is not None]
    return tuple(sorted(dict.fromkeys(texts), key=lambda text: text[:1].isdigit()))


_UNREAD = "{}"
"""What stands for a part of a text that nobody can tell, and for a list of such parts."""
_UNREAD_LIST = "{},{}"

_FIELDS = lazy_regex(r"%(?:\(\w+\))?[sdir]|\{\w*\}")
_ORDERED = frozenset({"sorted", "range"})
_DEEPEST = 6


def _text_of(context: PythonContext, expression: ast.expr, depth: int = 0) -> str | None:
    """Return the text of a value, with `{}` for what is not known of it; None where nothing is."""
    whole = folded(expression)
    if whole is not None or depth > _DEEPEST:
        return whole
    if isinstance(expression, ast.Constant):
        return str(expression.value) if type(expression.value) is int else None
    if isinstance(expression, ast.UnaryOp):
        return ast.unparse(expression) if isinstance(expression.operand, ast.Constant) else None
    if isinstance(expression, ast.JoinedStr):
        parts = (value.value if isinstance(value, ast.FormattedValue) else value for value in expression.values)
        return "".join(_text_of(context, part, depth + 1) or _UNREAD for part in parts)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add):
        sides = [_text_of(context, side, depth + 1) for side in (expression.left, expression.right)]
        return None if sides == [None, None] else "".join(side if side is not None else _UNREAD for side in sides)
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mod):
        right = expression.right
        return _filled(context, expression.left, right.elts if isinstance(right, ast.Tuple) else [right], depth)
    if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Slice):  # str([1, 0])[1:-1]
        inner = expression.value
        is_text = isinstance(inner, ast.Call) and last_name(inner.func) in ("str", "repr") and len(inner.args) == 1
        return _listed(context, inner.args[0], depth) if is_text else None  # type: ignore[attr-defined]
    if not isinstance(expression, ast.Call):
        return None
    if isinstance(expression.func, ast.Attribute) and expression.func.attr == "format":
        return _filled(context, expression.func.value, expression.args, depth)
    if _is_joined_by_commas(expression):
        return _listed(context, expression.args[0], depth)
    if last_name(expression.func) == "str" and len(expression.args) == 1:
        return _text_of(context, expression.args[0], depth + 1)
    return None


def _filled(context: PythonContext, template: ast.expr, values: list[ast.expr], depth: int) -> str | None:
    """Return the text of a template with the texts of what is put into it, one after the other."""
    text = string_value(template)
    if text is None:
        return None
    texts = iter([_text_of(context, value, depth + 1) or _UNREAD for value in values])
    return _FIELDS.sub(lambda _: next(texts, _UNREAD), text)


def _listed(context: PythonContext, items: ast.expr, depth: int) -> str:
    """Return the text of items with commas between them; a list of which nothing is known has more than one."""
    if isinstance(items, ast.Call) and last_name(items.func) == "map" and len(items.args) == 2:
        items = items.args[1]
    if isinstance(items, (ast.GeneratorExp, ast.ListComp)) and len(items.generators) == 1:
        items = items.generators[0].iter
    if isinstance(items, ast.Call) and last_name(items.func) in _ORDERED:
        return _UNREAD
    if isinstance(items, ast.Name):
        values = [assigned_value(context.file, binding) for binding in context.names.bindings(items)]
        items = values[0] if len(values) == 1 and values[0] is not None else items
    if not isinstance(items, (ast.List, ast.Tuple)):
        return _UNREAD_LIST
    return ",".join(_text_of(context, item, depth + 1) or _UNREAD for item in items.elts)


def _is_joined_by_commas(call: ast.Call) -> bool:
    joins = isinstance(call.func, ast.Attribute) and call.func.attr == "join" and len(call.args) == 1
    return joins and string_value(call.func.value) == ","  # type: ignore[attr-defined]
