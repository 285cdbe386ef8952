"""The collective backend `nccl`, named by a string or by `Backend.NCCL`.

`init_process_group("nccl")`, `backend="nccl"`, a default or choice of an option, a configuration value, a comparison
with `dist.get_backend()`; torch's constant `Backend.NCCL` is that string. NVIDIA's library does not exist on the
target; each plugin brings its own. A comparison that keeps the old name is silently false, and code guarded by it is
skipped.

Why: The process group cannot be created. A comparison with the old name is silently False.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.expressions import portable_imports, quoted_for
from torchferry.rules.device.strings import call_edits, literal_span, word_edits
from torchferry.rules.exemptions import exemption_for
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.source.flow import Trace, TraceResult
from torchferry.source.flow.syntax import string_value
from torchferry.source.lexicon import COLLECTIVE_SPELLING
from torchferry.source.names import Reference

CONSTANTS = frozenset({"torch.distributed.Backend.NCCL", "torch.distributed.distributed_c10d.Backend.NCCL"})
"""Names that torch has for the string."""


class NcclBackendString(Rule):
    """Finds strings that name NCCL as the backend."""

    CODE = "DST101"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.IN_PYTHON
    BINDS = True
    WORDS = ('"nccl"', "'nccl'", '"NCCL"', "'NCCL'", "Backend", "default_device_backend_map")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string that reaches a backend, or that could not be followed."""
        for node in context.file.strings:
            if isinstance(node.value, str) and COLLECTIVE_SPELLING.match(node.value):
                trace = context.collectives.trace(node)
                if trace.result is not TraceResult.NO:
                    yield self._report(context, node, trace)
        for reference in context.names.references("torch") if "NCCL" in context.text else ():
            constant = None if reference.is_import else _constant(reference)
            if constant is not None:
                yield self._named(context, constant, "torch.distributed.Backend.NCCL")
        for call in _asked_by_name(context):
            yield self._named(context, call, context.file.text(call))
        yield from self._from_tables(context)

    def _from_tables(self, context: PythonContext) -> Iterator[Finding]:
        """Yield what is taken from torch's own tables of backends by CUDA's key, or by a number."""
        for name in _TABLES:
            for attribute in context.file.attributes.get(name, ()):
                item = context.file.parents.get(attribute)
                if not isinstance(item, ast.Subscript) or item.value is not attribute:
                    continue
                if not isinstance(item.slice, ast.Constant) or exemption_for(context, item) is not None:
                    continue
                if item.slice.value == cuda.DEVICE_TYPE or type(item.slice.value) is int:
                    message = say(
                        "`{text}` takes CUDA's backend, or the one at its position, from a table of torch; on "
                        "{target} use `{use}`",
                        text=context.file.text(item),
                        target=context.target.title,
                        use=context.target.backend.COLLECTIVE,
                    )
                    yield self.finding(context, context.file.span(item), message, Grade.MANUAL)

    def _named(self, context: PythonContext, node: ast.expr, name: str) -> Finding:
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=name, reason=exemption.reason)
            return self.finding(context, context.file.span(node), message, Grade.NOTE, stays=exemption.kind)
        module, collective = context.target.module, context.target.backend.COLLECTIVE
        use = f"{module}.collective_backend()" if module else f'"{collective}"'
        message = say(
            "`{found}` is the string `nccl`, which {target} lacks; use `{use}`",
            found=name,
            target=context.target.title,
            use=use,
        )
        written = quoted_for(context, node, use)
        edits = [] if written is None else [Edit(*context.file.span(node), written)]
        grade = Grade.SAFE if edits else Grade.MANUAL
        return self.finding(context, context.file.span(node), message, grade, edits, imports=portable_imports(context))

    def _report(self, context: PythonContext, node: ast.Constant, trace: Trace) -> Finding:
        span = literal_span(context, node)
        assert isinstance(node.value, str)
        collective = context.target.backend.COLLECTIVE
        module = context.target.module
        if module:
            collective = f"{module}.collective_backend()"
        written = collective if not node.value.isupper() else f"{collective}.upper()" if module else collective.upper()
        exemption = exemption_for(context, node)
        if exemption is not None:
            message = say("`{found}` is left as it is: {reason}", found=node.value, reason=exemption.reason)
            return self.finding(context, span, message, Grade.NOTE, stays=exemption.kind)
        message = say(
            "collective backend `{found}` ({reason}), which {target} lacks; use `{use}`",
            found=node.value,
            reason=trace.reason,
            target=context.target.title,
            use=written,
        )
        edits: list[Edit] = []
        try:
            edits = call_edits(context, node, written) if module else word_edits(context, node, node.value, written)
        except ValueError:
            return self.finding(context, span, message, Grade.MANUAL)
        grade = Grade.SAFE if trace.result is TraceResult.YES else Grade.UNSAFE
        return self.finding(context, span, message, grade, edits, imports=portable_imports(context))


_TABLES = ("backend_list", "default_device_backend_map")
"""Tables of `torch.distributed.Backend`: of its backends, and of the usual one for each type of device."""


def _constant(reference: Reference) -> ast.expr | None:
    """Return the constant that a reference is, or that a method of it is called of: `Backend.NCCL.lower()`."""
    node = reference.node
    if reference.name in CONSTANTS:
        return node if isinstance(node, ast.expr) else None
    is_method = reference.name.rpartition(".")[0] in CONSTANTS and isinstance(node, ast.Attribute)
    return node.value if is_method else None  # type: ignore[union-attr]


def _asked_by_name(context: PythonContext) -> Iterator[ast.Call]:
    """Yield the calls that ask for the constant by its name: `getattr(Backend, "NCCL")`."""
    for callee in context.file.names.get("getattr", ()):
        call = context.file.parents.get(callee)
        if isinstance(call, ast.Call) and call.func is callee and len(call.args) > 1:
            name = f"{context.names.qualified(call.args[0])}.{string_value(call.args[1])}"
            if name in CONSTANTS:
                yield call
