"""An attention implementation chosen by name: `attn_implementation="flash_attention_2"`.

transformers loads flash-attn for this and raises if it is absent; so does diffusers' `set_attention_backend("flash")`.
The target's table has the replacement: the library's own integration if there is one, otherwise `sdpa` or `eager`.
Where the project keeps the library older than that integration, the choice is yours.

Why: The library raises when it loads the model, because the package behind the name is absent.

References:
- table frameworks
- table packages
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.tables import REWRITTEN, Row
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.pins import keeps_below
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name

_NAMES = {
    "flash_attention_2": "transformers.attn_implementation.flash_attention_2",
    "flash_attention_3": "transformers.attn_implementation.flash_attention_3",
    "flash": "diffusers.attention_backend.flash",
    "xformers": "diffusers.attention_backend.xformers",
}


class AttentionImplementation(Rule):
    """Finds attention implementations chosen by name."""

    CODE = "ATT102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("choose another attention"),)
    WORDS = ("flash_attention", "set_attention_backend", "attn_implementation")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each name that the target does not take as it is."""
        for node in context.file.strings:
            name = _NAMES.get(node.value) if isinstance(node.value, str) else None
            if name is None or not self._chooses(context, node) or exemption_reason(context, node) is not None:
                continue
            row = context.target.row("frameworks", name)
            span = literal_span(context, node)
            if row.status == "same":
                yield from self._too_old(context, span, node.value, row)
                continue
            if row.status in REWRITTEN and row.use:
                message = say(
                    "attention `{found}` is `{use}` on {target}; {note}",
                    found=node.value,
                    use=row.use,
                    target=context.target.title,
                    note=row.remark or say("results agree up to rounding"),
                )
                edits = word_edits(context, node, str(node.value), row.use)
                yield self.finding(context, span, message, Grade.SAFE, edits)
            else:
                message = say(
                    "attention `{found}` on {target}: {note}",
                    found=node.value,
                    target=context.target.title,
                    note=row.remark or say("whether it works is UNKNOWN; `sdpa` works everywhere"),
                )
                yield self.finding(context, span, message, Grade.MANUAL)

    def _too_old(self, context: PythonContext, span: tuple[int, int], name: object, row: Row) -> Iterator[Finding]:
        """Yield a finding where the project keeps the library older than the one that serves the target."""
        since = row.extra.get("package_since", "")
        if not since or context.project is None:
            return
        package = row.name.partition(".")[0]
        version = keeps_below(context.project.root, package, since)
        if version:
            message = say(
                "attention `{found}` on {target}: {package} {version}, which the project asks for, loads flash-attn "
                "for it and raises; from {since} on it takes what {target} has; raise the version, or choose `sdpa`",
                found=name,
                target=context.target.title,
                package=package,
                version=version,
                since=since,
            )
            yield self.finding(context, span, message, Grade.MANUAL)

    def _chooses(self, context: PythonContext, node: ast.Constant) -> bool:
        """Whether the string stands where an implementation is chosen."""
        parent = context.file.parents.get(node)
        if isinstance(parent, ast.Dict) and node in parent.keys:
            return False  # a table of classes, which somebody asks by another text
        if isinstance(node.value, str) and node.value.startswith("flash_attention"):
            return not isinstance(parent, ast.Compare) and not is_text(context, node)
        return isinstance(parent, ast.Call) and last_name(parent.func) == "set_attention_backend"
