"""A model compiled by `torch.compile`, or with a backend that captures CUDA graphs.

On CUDA `torch.compile` generates Triton code. A plugin does so with its vendor's Triton, or has a backend of its own,
which must be named, or none; then the call falls back or raises when the model first runs. `mode="reduce-overhead"` and
`backend="cudagraphs"` capture CUDA graphs; for the first some plugins capture graphs of their own.

Why: The model runs without compilation, or raises at its first call, which may be long after the start.

References:
- table frameworks
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_of, calls_to, keyword_of
from torchferry.rules.default_texts import evident_texts
from torchferry.rules.distributed.tensors import stays_on_cpu, values
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import unknown
from torchferry.source.flow.syntax import string_value

_COMPILERS = frozenset({"torch.compile", "torch._dynamo.optimize"})

_COMPILES = "in (False, None, 0)"
"""Of which values of `disable` a call compiles."""

_ARGUMENTS = frozenset({"mode", "fullgraph", "dynamic", "backend", "options", "disable"})
"""What `torch.nn.Module.compile` takes, and the method of this name of few other classes."""

_FOR_CUDA = frozenset({"inductor", "cudagraphs", "tensorrt", "torch_tensorrt"})
"""Backends that compile for CUDA, on a card."""

_NVIDIAS_OWN = _FOR_CUDA - {"inductor"}
"""Those that no plugin serves."""

_CUDA_GRAPHS = frozenset({"cudagraphs", "reduce-overhead", "max-autotune"})

_AHEAD = frozenset(
    f"torch.{module}.{name}"
    for module in ("_inductor", "_export")
    for name in ("aoti_compile_and_package", "aot_compile", "aoti_load_package", "aot_load")
)
"""Functions that compile a model for its device ahead of time, or load what they made."""


class ModelCompiled(Rule):
    """Finds `torch.compile`."""

    CODE = "CMP101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("another backend of `torch.compile`"), say("do not compile"))
    WORDS = (
        "torch.compile", "import compile", "_dynamo", ".compile()", ".compile(mode", ".compile(backend",
        ".compile(dynamic", ".compile(fullgraph", "aoti_", "aot_compile",
    )  # fmt: skip

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, by what the target's table says."""
        row = context.target.api("torch.compile")
        for function, call in _uses(context):
            if exemption_reason(context, function) is not None:
                continue
            named = _backend(call, function)
            texts = set() if named is None else evident_texts(context, named)
            graphs = self._cuda_graphs(call) if call is not None else None
            span = context.file.span(function)
            note = row.remark or say("check that the compiled model runs and gives the same results")
            if graphs is not None and graphs not in row.extra.get("graphs", ()):
                message = say(
                    "`{graphs}` captures CUDA graphs; on {target}: {note}",
                    graphs=graphs,
                    target=context.target.title,
                    note=note,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
            elif row.status in ("missing", "partial"):
                message = say("`torch.compile` on {target}: {note}", target=context.target.title, note=note)
                for_cuda = bool(texts & _FOR_CUDA) if named is not None else _takes_default(context, call)
                if row.status == "missing" or (for_cuda and not _is_for_cpu(context, call)):
                    asked = _asked_to_disable(call)
                    place = span if asked is None else context.file.span(asked)
                    when = "" if asked is None else _COMPILES
                    yield self.finding(context, place, message, Grade.MANUAL, when=when)
                else:
                    yield self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)
            elif row.status == "unknown":
                message = say("whether `torch.compile` supports {target} is UNKNOWN", target=context.target.title)
                yield self.finding(context, span, message, Grade.MANUAL, effect=Effect.UNKNOWN)
            elif row.note:
                message = say("`torch.compile` on {target}: {note}", target=context.target.title, note=note)
                if texts & _NVIDIAS_OWN and not _is_for_cpu(context, call):
                    yield self.finding(context, span, message, Grade.MANUAL)
                else:
                    yield self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)

        for name, call in calls_to(context):
            if name in _AHEAD and exemption_reason(context, call) is None:
                message = unknown(context, name, name)
                yield self.finding(context, context.file.span(call.func), message, Grade.MANUAL, effect=Effect.UNKNOWN)

    def _cuda_graphs(self, call: ast.Call) -> str | None:
        for name in ("backend", "mode"):
            keyword = keyword_of(call, name)
            value = string_value(keyword.value) if keyword is not None else None
            if value in _CUDA_GRAPHS:
                return f'{name}="{value}"'
        return None


def _uses(context: PythonContext) -> Iterator[tuple[ast.expr, ast.Call | None]]:
    """Yield what compiles, in order of place, each with its call; None where it is named only, as a decorator."""
    functions = [each.node for each in context.names.references("torch") if each.name in _COMPILERS]
    calls = [call.func for call in calls_of(context, "compile") if _is_of_module(context, call)]
    for function in sorted({*functions, *calls}, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(function, ast.expr):
            call = context.file.parents.get(function)
            yield function, call if isinstance(call, ast.Call) and call.func is function else None


def _is_of_module(context: PythonContext, call: ast.Call) -> bool:
    """Whether a method `compile` is that of a module: by what it is given, or by what it is called of."""
    if call.args or not isinstance(call.func, ast.Attribute) or not context.names.references("torch"):
        return False
    if call.keywords:
        return {keyword.arg for keyword in call.keywords} <= _ARGUMENTS
    assigned = [_made(each) for each in values(context, call.func.value)]
    return all(
        isinstance(each, ast.Call) and (context.names.qualified(each.func) or "").startswith("torch.nn.")
        for each in assigned
    )


_RETURNS_ITSELF = frozenset({"bfloat16", "cpu", "cuda", "eval", "float", "half", "requires_grad_", "to", "train"})
"""Methods of a module that return the module."""


def _made(value: ast.expr | None) -> ast.expr | None:
    """Return what makes a module, in front of the methods that return it."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _RETURNS_ITSELF:
        value = value.func.value
    return value


def _backend(call: ast.Call | None, function: ast.expr) -> ast.expr | None:
    """Return the backend that a call names; None where it names none."""
    keyword = keyword_of(call, "backend") if call is not None else None
    if keyword is not None:
        return keyword.value
    is_first = call is not None and isinstance(function, ast.Attribute) and function.attr == "optimize"
    return call.args[0] if call is not None and is_first and call.args else None


def _takes_default(context: PythonContext, call: ast.Call | None) -> bool:
    """Whether a use that names no backend takes the one that torch takes for CUDA: nothing else may name one."""
    if call is None:
        return True
    disabled = keyword_of(call, "disable")
    if disabled is not None and isinstance(disabled.value, ast.Constant) and disabled.value.value:
        return False
    unread = any(keyword.arg is None for keyword in call.keywords)
    return not unread or (context.project is not None and not context.project.defines("backend"))


def _asked_to_disable(call: ast.Call | None) -> ast.expr | None:
    """Return the expression that says whether a call compiles: `disable=not args.fast`; None where nothing is asked."""
    disabled = keyword_of(call, "disable") if call is not None else None
    return None if disabled is None or isinstance(disabled.value, ast.Constant) else disabled.value


def _is_for_cpu(context: PythonContext, call: ast.Call | None) -> bool:
    """Whether a model that is compiled stays on the CPU, and what it becomes too."""
    if call is None or not call.args or not stays_on_cpu(context, call.args[0]):
        return False
    statement = context.file.parents.get(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else [None]
    return all(isinstance(target, ast.Name) and stays_on_cpu(context, target) for target in targets)
