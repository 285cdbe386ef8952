"""A profiler column that the target does not have: `sort_by="cuda_time_total"`.

torch itself calls the columns `device_time_total` and so on; the names of CUDA work for CUDA only, and raise
AttributeError with another device. So do the columns that some plugins named after their device and gave up with a
later version. The same goes for attributes of events such as `evt.cuda_time_total`. `export_stacks` takes the name of
its metric from a list of its own, in which torch calls the device `privateuse1`.

Why: Sorting by a column that is not there raises AttributeError, and `export_stacks` ValueError.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.device.strings import asked_when_run, literal_span, word_edits
from torchferry.rules.references import attribute_span

_COLUMN = lazy_regex(r"(?:self_)?([a-z0-9]+)_(?:time_total|time|memory_usage)\Z")
_ENDS = ("time", "memory_usage")

_OF_TORCH = "device"
"""What torch calls the device in its columns."""

_EXPORT, _METRIC = "export_stacks", "metric"
_IN_EXPORT = "privateuse1"
"""What torch calls the device of a plugin in the metrics of `export_stacks` (torch/autograd/profiler_util.py)."""


class SortKey(Rule):
    """Finds profiler columns that the target does not have."""

    CODE = "PRF102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("read the trace that the profiler writes"),)
    WORDS = ("cuda_time", "cuda_memory_usage")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The words of the columns that are looked for."""
        return tuple(f"{word}_{end}" for word in (*_replaced(target), *_replaced_metrics(target)) for end in _ENDS)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each string and each attribute."""
        if context.target.module:
            yield from self._portable(context)
            return
        columns, metrics = _replaced(context.target), _replaced_metrics(context.target)
        sure = Grade.SAFE if isinstance(context.target.profiler_sort_key, str) else Grade.UNSAFE
        for node in context.file.strings:
            column = _COLUMN.match(node.value) if isinstance(node.value, str) else None
            if column is None:
                continue
            exported = _is_metric(context, node)
            word, own = column[1], (metrics if exported else columns).get(column[1])
            if own is not None:
                parent = context.file.parents.get(node)
                is_key = isinstance(parent, ast.keyword) and parent.arg == "sort_by"
                grade = sure if is_key or exported else Grade.UNSAFE
                edits = word_edits(context, node, word, own)
                if exported and sure is not Grade.SAFE:  # nobody knows what the metric of this target is
                    grade, edits = Grade.MANUAL, []
                yield self._report(context, literal_span(context, node), str(node.value), word, own, grade, edits)
        for name, nodes in context.file.attributes.items():
            column = _COLUMN.match(name)
            own = columns.get(column[1]) if column is not None else None
            if column is None or own is None or any(isinstance(node.ctx, ast.Store) for node in nodes):
                continue
            for attribute in nodes:
                start, end = attribute_span(context, attribute)
                edits = [Edit(start, end, name.replace(column[1], own))]
                span = context.file.span(attribute)
                yield self._report(context, span, name, column[1], own, Grade.UNSAFE, edits)

    def _portable(self, context: PythonContext) -> Iterable[Finding]:
        """Ask for the column when the program runs."""
        for node in context.file.strings:
            spelling = str(node.value)
            column = _COLUMN.match(spelling)
            if column is None or column[1] != cuda.DEVICE_TYPE or _is_metric(context, node):
                continue  # torch takes CUDA's name of a metric for every device
            use = f'{context.target.module}.sort_key("{spelling}")'
            parent = context.file.parents.get(node)
            grade = Grade.SAFE if isinstance(parent, ast.keyword) and parent.arg == "sort_by" else Grade.UNSAFE
            message = say(
                "profiler column `{found}` is for CUDA; on {target} it is `{use}`",
                found=spelling,
                target=context.target.title,
                use=use,
            )
            yield asked_when_run(self, context, node, use, message, grade)

    def _report(
        self,
        context: PythonContext,
        span: tuple[int, int],
        spelling: str,
        word: str,
        own: str,
        grade: Grade,
        edits: list[Edit],
    ) -> Finding:
        target = context.target
        use = spelling.replace(word, own)
        if target.profiler_sort_key is None:
            message = say(
                "profiler column `{found}`: the profiler of {target} prints no such table; read the trace it writes",
                found=spelling,
                target=target.title,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        if word == cuda.DEVICE_TYPE:
            message = say(
                "profiler column `{found}` is for CUDA; on {target} it is `{use}`",
                found=spelling,
                target=target.title,
                use=use,
            )
        else:
            message = say(
                "the profiler of {plugin} {version} has no column `{found}` here; it is `{use}`",
                plugin=target.backend.PLUGIN,
                version=target.version or target.backend.DEFAULT_VERSION,
                found=spelling,
                use=use,
            )
        return self.finding(context, span, message, grade, edits)


def _replaced(target: Target) -> dict[str, str]:
    """Return what columns of the profiler are named after and is not there, and what stands in its place."""
    key = target.profiler_sort_key
    own = key.removesuffix("_time") if isinstance(key, str) else _OF_TORCH
    words = {cuda.DEVICE_TYPE: own}
    if isinstance(target.backend.PROFILER_NAMED_COLUMNS_UNTIL, str):
        words |= {word: own for word in (target.backend.DEVICE_TYPE, _OF_TORCH) if word != own}
    return words


def _replaced_metrics(target: Target) -> dict[str, str]:
    """Return the same for metrics of `export_stacks`, which torch names otherwise than its columns."""
    words = _replaced(target)
    if not isinstance(target.profiler_sort_key, str) or words[cuda.DEVICE_TYPE] != _OF_TORCH:
        return words
    return dict.fromkeys((*words, _OF_TORCH), _IN_EXPORT)


def _is_metric(context: PythonContext, node: ast.Constant) -> bool:
    """Whether a string is the metric that `export_stacks` is given."""
    call: ast.AST | None = context.file.parents.get(node)
    if isinstance(call, ast.keyword):
        if call.arg != _METRIC:
            return False
        call = context.file.parents.get(call)
    elif not isinstance(call, ast.Call) or node not in call.args[1:2]:
        return False
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == _EXPORT
