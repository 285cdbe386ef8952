"""A stream or an event of CUDA.

`torch.cuda.Stream`, `Event`, `stream()`, `current_stream()`: creating one raises on a torch without CUDA. Plugins
have classes of the same names, with the same ordering rules.

The handle of a stream or an event (`stream.cuda_stream`), which goes to compiled code, has a name of its own in each.

Why: Creating the stream or event raises.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.rules.base import PythonContext
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, attribute_span, missing, replaced
from torchferry.source.names import assigned_value

_HANDLES = {"cuda_stream": "Stream", "cuda_event": "Event"}
"""The handle that an object has, and its class."""

_MAKERS = {
    "Stream": ("Stream", "ExternalStream", "current_stream", "default_stream"),
    "Event": ("Event", "Stream.record_event"),
}
"""What returns an object of a class, below `torch.cuda`."""


class CudaStream(ReferenceRule):
    """Finds streams and events of CUDA."""

    CODE = "STR101"
    EFFECT = Effect.RAISES
    WORDS = CUDA_NAMES
    GROUPS = ("stream",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use of a name, and for each handle."""
        yield from super().check_python(context)
        for name, owner in _HANDLES.items():
            for node in context.file.attributes.get(name, ()):
                if isinstance(node.ctx, ast.Load) and _is_of(context, node.value, owner):
                    yield from self._handle(context, node, owner)

    def _handle(self, context: PythonContext, node: ast.Attribute, owner: str) -> Iterator[Finding]:
        if exemption_reason(context, node) is not None:
            return
        name = f"{cuda.NAMESPACE}.{owner}.{node.attr}"
        row = context.target.api(name)
        written = row.use.rpartition(".")[2] if row.status in REWRITTEN else ""
        span = context.file.span(node)
        try:
            place = attribute_span(context, node)
        except ValueError:
            written = ""
        if written in ("", node.attr):  # the row is that of the class: nobody says what its handle is called
            unverified = row if row.status == "missing" else row._replace(status="unknown")
            yield self.finding(context, span, missing(context, name, unverified), Grade.MANUAL)
            return
        yield self.finding(context, span, replaced(context, name, row), Grade.SAFE, [Edit(*place, written)])


def _is_of(context: PythonContext, value: ast.expr, owner: str) -> bool:
    """Whether an object is a stream, or an event, of CUDA for certain: others may hold one under such a name."""
    if isinstance(value, ast.Call):
        namespaces = (cuda.NAMESPACE, context.target.backend.NAMESPACE)  # the second: what is rewritten already
        makers = {f"{namespace}.{maker}" for namespace in namespaces for maker in _MAKERS[owner]}
        return context.names.qualified(value.func) in makers
    if not isinstance(value, ast.Name):
        return False
    values = [assigned_value(context.file, binding) for binding in context.names.bindings(value)]
    return bool(values) and all(isinstance(each, ast.Call) and _is_of(context, each, owner) for each in values)
