"""An environment variable of CUDA, read or set in Python.

`os.environ["CUDA_VISIBLE_DEVICES"]`, `CUDA_LAUNCH_BLOCKING`, `PYTORCH_CUDA_ALLOC_CONF`, `NCCL_*`. Set, they do nothing
on the target: a program meant for card 3 takes card 0 of everybody else. Each plugin has its own names; values may
differ too, which the finding says; a value that the target's variable refuses is left to you.

Why: The variable has no effect on the target. The program may use cards of other people.

References:
- table env
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import asked_when_run, literal_span, word_edits
from torchferry.rules.environment.variables import VARIABLE, replacement
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.family import Portability
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import assigned_value

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class CudaEnvironment(Rule):
    """Finds environment variables of CUDA in Python."""

    CODE = "ENV101"
    EFFECT = Effect.WRONG
    PORTABILITY = Portability.IN_PYTHON
    WORDS = ("CUDA_", "NCCL_", "NVIDIA_", "CUDNN_", "CUBLAS_", "DIFFUSERS_ATT")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string that is such a variable, and each keyword of `dict(os.environ, ...)`."""
        for node in context.file.strings:
            if isinstance(node.value, str) and VARIABLE.match(node.value) and not is_text(context, node):
                yield from self._string(context, node, node.value)
        for name, keywords in context.file.keywords.items():
            if VARIABLE.match(name):
                for keyword in keywords:
                    yield from self._keyword(context, keyword, name)

    def _string(self, context: PythonContext, node: ast.Constant, name: str) -> Iterable[Finding]:
        instead = replacement(context.target, name, _value_of(context, node))
        if instead is None:
            return
        span = literal_span(context, node)
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=name, reason=exemption.reason)
            yield self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
            return
        if context.target.module and not instead.refused:
            yield self._portable(context, node, name)
            return
        edits = word_edits(context, node, name, instead.use) if instead.use else []
        yield self.finding(context, span, instead.message, instead.grade, edits, effect=instead.effect)

    def _portable(self, context: PythonContext, node: ast.Constant, name: str) -> Finding:
        """Ask for the variable when the program runs, where portable code has a name for it."""
        if name != _VISIBLE:
            message = say(
                "only CUDA reads `{found}`; for {target} set its own variable where the program is started",
                found=name,
                target=context.target.title,
            )
            return self.finding(context, literal_span(context, node), message, Grade.NOTE, effect=Effect.UNKNOWN)
        use = f"{context.target.module}.visible_devices_variable()"
        message = say("`{name}` is `{use}` on {target}", name=name, use=use, target=context.target.title)
        return asked_when_run(self, context, node, use, message)

    def _keyword(self, context: PythonContext, keyword: ast.keyword, name: str) -> Iterable[Finding]:
        instead = replacement(context.target, name, _text_of(context, keyword.value))
        call = context.file.parents.get(keyword)
        if instead is None or not isinstance(call, ast.Call) or last_name(call.func) not in ("dict", "update"):
            return
        start, _ = context.file.span(keyword)
        span = (start, start + len(name))
        edits = [Edit(*span, instead.use)] if instead.use and not context.target.module else []
        grade = Grade.MANUAL if instead.use and not edits else instead.grade
        yield self.finding(context, span, instead.message, grade, edits, effect=instead.effect)


_READS = frozenset({"get", "getenv", "pop"})
"""Functions whose second argument is what they return where the variable is not set."""


def _value_of(context: PythonContext, node: ast.Constant) -> str | None:
    """Return the value that a variable is given at a place, where it is written there."""
    parent = context.file.parents.get(node)
    if isinstance(parent, ast.Subscript) and parent.slice is node:
        statement = context.file.parents.get(parent)
        return _text_of(context, statement.value) if isinstance(statement, ast.Assign) else None
    if isinstance(parent, ast.Call) and parent.args[:1] == [node] and len(parent.args) > 1:
        # setdefault, putenv, setenv
        return None if last_name(parent.func) in _READS else _text_of(context, parent.args[1])
    if isinstance(parent, ast.Dict) and node in parent.keys:
        return _text_of(context, parent.values[parent.keys.index(node)])
    return None


def _text_of(context: PythonContext, expression: ast.expr) -> str | None:
    """Return a text, with `{}` for what is put into it; of a choice or a variable the one that is no number."""
    if isinstance(expression, ast.JoinedStr):
        return "".join(string_value(part) or "{}" for part in expression.values)
    choices: list[ast.expr | None] = []
    if isinstance(expression, ast.IfExp):
        choices = [expression.body, expression.orelse]
    elif isinstance(expression, ast.BoolOp):
        choices = [*expression.values]
    elif isinstance(expression, ast.Name):
        choices = [assigned_value(context.file, binding) for binding in context.names.bindings(expression)]
    elif isinstance(expression, ast.Call) and last_name(expression.func) == "str" and len(expression.args) == 1:
        return ast.unparse(expression.args[0]) if _is_number(expression.args[0]) else None
    else:
        return string_value(expression)
    texts = [string_value(choice) for choice in choices if choice is not None]
    return next((text for text in texts if text is not None and not text[:1].isdigit()), texts[0] if texts else None)


def _is_number(expression: ast.expr) -> bool:
    return isinstance(expression.operand if isinstance(expression, ast.UnaryOp) else expression, ast.Constant)
