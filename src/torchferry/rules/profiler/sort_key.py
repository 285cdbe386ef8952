"""A profiler column that is named after CUDA: `sort_by="cuda_time_total"`.

torch itself calls the columns `device_time_total` and so on; the old names work for CUDA only, and raise
AttributeError with another device. The same goes for attributes of events such as `evt.cuda_time_total`.

Why: Sorting by the old column name raises AttributeError.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import asked_when_run, literal_span, word_edits
from torchferry.rules.references import attribute_span

_COLUMN = lazy_regex(r"(?:self_)?cuda_(?:time_total|time|memory_usage)\Z")


class SortKey(Rule):
    """Finds profiler columns named after CUDA."""

    CODE = "PRF102"
    EFFECT = Effect.RAISES
    WORDS = ("cuda_time", "cuda_memory_usage")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string and each attribute."""
        if context.target.module:
            yield from self._portable(context)
            return
        key = context.target.backend.PROFILER_SORT_KEY
        prefix = key.removesuffix("_time") if isinstance(key, str) else "device"
        key_grade = Grade.SAFE if isinstance(key, str) else Grade.UNSAFE
        for node in context.file.strings:
            if isinstance(node.value, str) and _COLUMN.match(node.value):
                parent = context.file.parents.get(node)
                grade = key_grade if isinstance(parent, ast.keyword) and parent.arg == "sort_by" else Grade.UNSAFE
                edits = word_edits(context, node, "cuda", prefix)
                yield self._report(context, literal_span(context, node), node.value, prefix, grade, edits)
        for name, nodes in context.file.attributes.items():
            if not _COLUMN.match(name) or any(isinstance(node.ctx, ast.Store) for node in nodes):
                continue
            for attribute in nodes:
                start, end = attribute_span(context, attribute)
                edits = [Edit(start, end, name.replace("cuda", prefix))]
                span = context.file.span(attribute)
                yield self._report(context, span, name, prefix, Grade.UNSAFE, edits)

    def _portable(self, context: PythonContext) -> Iterable[Finding]:
        """Ask for the column when the program runs."""
        for node in context.file.strings:
            if not isinstance(node.value, str) or not _COLUMN.match(node.value):
                continue
            use = f'{context.target.module}.sort_key("{node.value}")'
            parent = context.file.parents.get(node)
            grade = Grade.SAFE if isinstance(parent, ast.keyword) and parent.arg == "sort_by" else Grade.UNSAFE
            message = say(
                "profiler column `{found}` is for CUDA; on {target} it is `{use}`",
                found=node.value,
                target=context.target.title,
                use=use,
            )
            yield asked_when_run(self, context, node, use, message, grade)

    def _report(
        self, context: PythonContext, span: tuple[int, int], spelling: str, prefix: str, grade: Grade, edits: list[Edit]
    ) -> Finding:
        if context.target.backend.PROFILER_SORT_KEY is None:
            message = say(
                "profiler column `{found}`: the profiler of {target} prints no such table; read the trace it writes",
                found=spelling,
                target=context.target.title,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        message = say(
            "profiler column `{found}` is for CUDA; on {target} it is `{use}`",
            found=spelling,
            target=context.target.title,
            use=spelling.replace("cuda", prefix),
        )
        return self.finding(context, span, message, grade, edits)
