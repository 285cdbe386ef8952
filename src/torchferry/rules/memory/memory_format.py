"""A memory format that the plugin refuses: `model.to(memory_format=torch.channels_last)`.

On CUDA the format makes convolutions faster and changes no result. A plugin that stores images in an order of its own
raises where this format is asked for. The usual format takes its place, and results stay the same. In portable code the
device decides: the usual format where the plugin refuses this one, and this one everywhere else.

Why: The plugin raises at this call, although the format only affects speed.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.portable import MEMORY_FORMATS
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Options, PythonContext
from torchferry.rules.device.strings import default_edits, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import ReferenceRule, replaced
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.names import Reference

_NAMES = frozenset(f"torch.{name}" for name in MEMORY_FORMATS)


class MemoryFormat(ReferenceRule):
    """Finds memory formats that the plugin refuses."""

    CODE = "MEM102"
    EFFECT = Effect.RAISES
    BINDS = False
    WORDS = ("channels_last",)
    GROUPS = ("layout",)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target that is not known to refuse the format."""
        name = f"torch.{MEMORY_FORMATS[0]}"
        return self.WORDS if any(_is_replaced(row) for row in (target.api(name), target.of_vendor(name))) else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for `getattr(torch, "channels_last")`."""
        yield from super().check_python(context)
        for node in context.file.strings:
            name = f"torch.{string_value(node)}"
            if name not in _NAMES or not _is_asked_of_torch(context, node):
                continue
            row = context.target.api(name)
            if not _is_replaced(row) or exemption_reason(context, node) is not None:
                continue
            owner, _, use = row.use.rpartition(".")
            edits = word_edits(context, node, str(node.value), use) if owner == "torch" else []
            grade = Grade.SAFE if edits else Grade.MANUAL
            yield self.finding(context, context.file.span(node), replaced(context, name, row), grade, edits)

    def check_reference(self, context: PythonContext, reference: Reference) -> Iterator[Finding]:
        """Yield what there is to say about one use."""
        row = context.target.api(reference.name)
        if _is_replaced(row):
            for finding in super().check_reference(context, reference):
                node, asking = reference.node, []
                if (
                    context.target.module
                    and isinstance(node, ast.expr)
                    and any(edit.text == row.use for edit in finding.edits)
                ):
                    asking = default_edits(context, node, row.use)
                yield finding._replace(edits=tuple(asking)) if asking else finding
            return
        refused = context.target.of_vendor(reference.name)
        if _is_replaced(refused) and exemption_reason(context, reference.node) is None:
            message = say(
                "{target} refuses `{found}`: use `{use}` if the tensor is on one of its devices",
                target=context.target.title,
                found=reference.name,
                use=refused.use,
            )
            span = context.file.span(context.file.statement(reference.node))
            yield self.finding(context, span, noted(message, refused.remark), Grade.MANUAL)


def _is_replaced(row: Row) -> bool:
    return row.status in REWRITTEN and row.use not in ("", row.name)


def _is_asked_of_torch(context: PythonContext, node: ast.Constant) -> bool:
    call = context.file.parents.get(node)
    is_name = isinstance(call, ast.Call) and last_name(call.func) == "getattr" and call.args[1:2] == [node]
    return is_name and context.names.qualified(call.args[0]) == "torch"  # type: ignore[union-attr]
