"""`torch.cuda` itself, passed on as a value.

`getattr(torch.cuda, name)`, `hasattr(torch.cuda, "memory_stats")`, `backend = torch.cuda`: the names are chosen while
the program runs, so no table can be consulted. Requests by a text, such as `getattr(torch, "cuda")` and
`vars(torch)["cuda"]`, are left to a person. The module is renamed; check that the names exist in the plugin
(`torchferry api NAME --target ...`).

In code for every device (`migrate --style portable`) a question by name is put to `accelerator_namespace`, which asks
the plugin that is there. A value becomes `whole_module`, with every portable name; where it is handed on, and so may be
asked for anything, that is a fix to read.

Why: The name that is looked up at run time may be absent, and then a feature is silently skipped.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.budget import spend
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.cuda_api.device_module import lacking_in_target, lacking_names
from torchferry.rules.exemptions import exemption_for, exemption_of_reading
from torchferry.rules.guarded import is_attempted
from torchferry.rules.references import CUDA_NAMES, missing, part_edits, replaced, written_parts
from torchferry.source.flow.assembled import folded
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Names, Reference, assigned_value
from torchferry.source.portable_uses import WHOLE

_QUESTIONS = ("getattr", "hasattr")


class CudaNamespace(Rule):
    """Finds `torch.cuda` used as a value."""

    CODE = "CUD107"
    EFFECT = Effect.RAISES
    ANSWERS = (say("name the target's module"),)
    BINDS = True
    WORDS = (*CUDA_NAMES, '"cuda"', "'cuda'", "get_device_module", "getattr(torch")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Return the words of CUDA's names, and those of the target's own, of which it may lack some."""
        own = (target.backend.NAMESPACE, target.backend.PLUGIN) if target.backend.NAMESPACE else ()
        return (*self.WORDS, *own)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for `getattr(torch, "cuda")`."""
        for reference in context.references.get("namespace", ()):
            if not reference.is_import and (context.target.module or written_parts(reference)):
                yield self._report(context, reference)
        for node in _requests_by_name(context):
            if exemption_of_reading(context, node) is None:
                message = say(
                    "`{text}` requests CUDA from torch by name; on {target} request `{use}`",
                    text=context.file.text(node),
                    target=context.target.title,
                    use=context.target.backend.NAMESPACE or context.target.backend.PLUGIN,
                )
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL)
        for place, name, row in lacking_names(context):
            if exemption_of_reading(context, place) is None and not is_attempted(context, place):
                message = missing(context, name, row) if row.status == "missing" else replaced(context, name, row)
                effect = Effect.UNKNOWN if row.status == "unknown" else None
                yield self.finding(context, context.file.span(place), message, Grade.MANUAL, effect=effect)
        for place, name, row in lacking_in_target(context):
            if not is_attempted(context, place):
                yield self.finding(context, context.file.span(place), missing(context, name, row), Grade.MANUAL)

    def _report(self, context: PythonContext, reference: Reference) -> Finding:
        span = context.file.span(reference.node)
        exemption = exemption_for(context, reference.node)
        if exemption is not None:
            message = say("`torch.cuda` is left as it is: {reason}", reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        namespace = context.target.backend.NAMESPACE
        if context.target.module:
            return self._portable(context, reference)
        if not namespace or not namespace.startswith(reference.bound + "."):
            message = say(
                "`torch.cuda` is used as a value, and {plugin} has no such namespace",
                plugin=context.target.backend.PLUGIN,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        message = say(
            "`torch.cuda` is used as a value; on {target} it is `{namespace}`{asked}",
            target=context.target.title,
            namespace=namespace,
            asked=self._asked(context, reference),
        )
        wanted = namespace[len(reference.bound) + 1 :].split(".")
        edits = part_edits(context, reference, written_parts(reference), wanted)
        return self.finding(context, span, message, Grade.SAFE, edits)

    def _portable(self, context: PythonContext, reference: Reference) -> Finding:
        """Let the plugin answer questions by name: a file of portable names has only those that the project uses."""
        span = context.file.span(reference.node)
        module = context.target.module
        owner = context.file.parents.get(reference.node)
        is_question = isinstance(owner, ast.Call) and last_name(owner.func) in _QUESTIONS
        is_asked = isinstance(owner, ast.Call) and is_question and owner.args[:1] == [reference.node]
        use = f"{module}.{'accelerator_namespace' if is_asked else WHOLE}"
        message = say(
            "`torch.cuda` is used as a value; on {target} it is `{namespace}`{asked}",
            target=context.target.title,
            namespace=use,
            asked=self._asked(context, reference),
        )
        grade = Grade.SAFE
        if not is_asked and not _has_names_alone(context, owner):
            grade = Grade.UNSAFE
            message = say(
                "{message}; it has all portable names, even those that a device lacks, but no others: "
                "check which names the program asks it for",
                message=message,
            )
        return self.finding(context, span, message, grade, [Edit(*span, use)], imports=(module,))

    def _asked(self, context: PythonContext, reference: Reference) -> str:
        """Say what `getattr(torch.cuda, "name")` would find on the target, when the name is a literal."""
        call = context.file.parents.get(reference.node)
        if not isinstance(call, ast.Call) or last_name(call.func) not in _QUESTIONS:
            return ""
        name = string_value(call.args[1]) if len(call.args) > 1 and call.args[0] is reference.node else None
        if name is None:
            return ""
        row = context.target.api(f"{cuda.NAMESPACE}.{name}")
        return f" (`{name}`: {row.status})"


def _requests_by_name(context: PythonContext) -> Iterator[ast.expr]:
    """Yield what asks torch for `cuda` by a text: `getattr(torch, "cuda")`, `vars(torch)["cuda"]`."""
    file, names = context.file, context.names
    for question in _QUESTIONS:
        for callee in file.names.get(question, ()):
            call = file.parents.get(callee)
            if not isinstance(call, ast.Call) or call.func is not callee or len(call.args) < 2:
                continue
            if names.qualified(call.args[0]) == "torch" and cuda.DEVICE_TYPE in _texts(context, call.args[1]):
                yield call
    for node in file.strings:
        parent = file.parents.get(node)
        if node.value != cuda.DEVICE_TYPE:
            continue
        if isinstance(parent, ast.Subscript) and parent.slice is node and _holds_names_of_torch(names, parent.value):
            yield parent
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.args[:1] == [node]:
            owner, method = parent.func.value, parent.func.attr
            by_method = method in ("__getattribute__", "__getattr__") and names.qualified(owner) == "torch"
            if by_method or (method in ("get", "__getitem__") and _holds_names_of_torch(names, owner)):
                yield parent


def _texts(context: PythonContext, node: ast.expr) -> set[str | None]:
    """Return the texts that an expression may be: itself, or what its variable, and those behind it, are set to."""
    texts: set[str | None] = set()
    waiting = [node]
    met: set[ast.AST] = set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.Name):
            texts.add(folded(node))
            continue
        spend()
        bindings = [binding for binding in context.names.bindings(node) if binding not in met]
        met.update(bindings)
        values = (assigned_value(context.file, binding) for binding in bindings)
        waiting += (value for value in values if value is not None)
        for binding in bindings:
            loop = context.file.parents.get(binding)
            if isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension)) and loop.target is binding:
                waiting += getattr(loop.iter, "elts", ())
    return texts


def _holds_names_of_torch(names: Names, node: ast.expr) -> bool:
    """Whether an expression is a dictionary of torch's names: `vars(torch)`, `dict(inspect.getmembers(torch))`."""
    if isinstance(node, ast.Name):
        values = (assigned_value(names.file, binding) for binding in names.bindings(node))
        return any(
            _holds_names_of_torch(names, value) for value in values if isinstance(value, (ast.Call, ast.Attribute))
        )
    if not isinstance(node, ast.Call):
        return names.qualified(node) == "torch.__dict__"
    inner = node.args[0] if len(node.args) == 1 else None
    if last_name(node.func) == "dict" and isinstance(inner, (ast.Call, ast.Attribute)):
        return _holds_names_of_torch(names, inner)
    return last_name(node.func) in ("vars", "getmembers") and inner is not None and names.qualified(inner) == "torch"


def _has_names_alone(context: PythonContext, owner: ast.AST | None) -> bool:
    """Whether what `torch.cuda` is assigned to is a variable of which names are taken, and nothing else is done."""
    if not isinstance(owner, ast.Assign) or len(owner.targets) != 1 or not isinstance(owner.targets[0], ast.Name):
        return False
    name = owner.targets[0].id
    scope = context.names.variable_scope(name, context.file.scope(owner.targets[0]))
    return (
        scope is not None
        and not isinstance(scope, ast.ClassDef)
        and all(isinstance(context.file.parents.get(use), ast.Attribute) for use in context.names.uses(name, scope))
    )
