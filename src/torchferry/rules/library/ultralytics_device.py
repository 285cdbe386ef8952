"""A device given to ultralytics as a number or a list of numbers: `model.train(data=..., device=0)`.

ultralytics takes numbers for CUDA indices and sets `CUDA_VISIBLE_DEVICES` by them.

Why: ultralytics looks for CUDA cards and stops with an error.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value

_METHODS = ("train", "val", "predict", "export", "track", "benchmark", "tune")
_INDICES = lazy_regex(r"\d+(?:,\d+)*\Z")


class UltralyticsDevice(Rule):
    """Finds numeric devices given to ultralytics."""

    CODE = "LIB106"
    EFFECT = Effect.RAISES
    MODULES = ("ultralytics",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        if not context.names.references("ultralytics"):
            return
        row = context.target.row("frameworks", "ultralytics.device")
        for method in _METHODS:
            for node in context.file.attributes.get(method, ()):
                call = context.file.parents.get(node)
                keyword = keyword_of(call, "device") if isinstance(call, ast.Call) and call.func is node else None
                if (
                    keyword is None
                    or not self._is_index(keyword.value)
                    or exemption_reason(context, keyword) is not None
                ):
                    continue
                message = say(
                    "ultralytics treats this as a CUDA index; on {target}: {note}",
                    target=context.target.title,
                    note=row.remark or say("whether it supports the device is UNKNOWN"),
                )
                yield self.finding(context, context.file.span(keyword), message, Grade.MANUAL)

    def _is_index(self, value: ast.expr) -> bool:
        if isinstance(value, (ast.List, ast.Tuple)):
            return all(self._is_index(item) for item in value.elts)
        text = string_value(value)
        if text is not None:
            return _INDICES.match(text) is not None
        return isinstance(value, ast.Constant) and type(value.value) is int and value.value >= 0
