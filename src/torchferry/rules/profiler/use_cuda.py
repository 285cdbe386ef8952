"""A profiler configured to measure CUDA: `torch.autograd.profiler.profile(use_cuda=True)`.

`use_cuda` measures nothing on the target. `torch.autograd.profiler.profile` takes the device's name as `use_device`
(torch 2.1 and later). `torch.profiler.profile` has no such argument: it measures every device that is there unless
`activities` says otherwise, so `use_cuda=True` is left out.

Why: The profile contains no work of the card, or the argument is refused.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, argument_removal, calls_by, calls_to, keyword_of
from torchferry.rules.device.expressions import device_type, portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import renamed_references

_OLD = "torch.autograd.profiler.profile"
_NEW = "torch.profiler.profile"


class UseCuda(Rule):
    """Finds `use_cuda` given to torch's profilers."""

    CODE = "PRF105"
    EFFECT = Effect.WRONG
    WORDS = ("use_cuda",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        renamed = calls_by(context, renamed_references(context, (_NEW,)))
        for name, call in [*calls_to(context), *renamed]:
            if name not in (_OLD, _NEW):
                continue
            keyword = keyword_of(call, "use_cuda")
            if keyword is None or (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
                continue
            if exemption_reason(context, call) is None:
                yield self._old(context, keyword) if name == _OLD else self._new(context, call, keyword)

    def _old(self, context: PythonContext, keyword: ast.keyword) -> Finding:
        span = context.file.span(keyword)
        if not context.target.of_vendor(_OLD).extra.get("device_argument"):
            message = say(
                "`use_cuda` measures CUDA; the torch of {target} measures no other device here; it can stay",
                target=context.target.title,
            )
            return self.finding(context, span, message, Grade.NOTE, effect=Effect.NOTHING)
        device = device_type(context)
        message = say(
            "`use_cuda` measures CUDA; on {target} it is `use_device={device}`",
            target=context.target.title,
            device=device,
        )
        imports = portable_imports(context)
        if isinstance(keyword.value, ast.Constant):
            edit = Edit(*span, f"use_device={device}")
            return self.finding(context, span, message, Grade.SAFE, [edit], imports=imports)
        text = context.file.text(keyword.value)
        edit = Edit(*span, f"use_device={device} if {text} else None")
        return self.finding(context, span, message, Grade.UNSAFE, [edit], imports=imports)

    def _new(self, context: PythonContext, call: ast.Call, keyword: ast.keyword) -> Finding:
        span = context.file.span(keyword)
        edit = argument_removal(context, call, keyword) if isinstance(keyword.value, ast.Constant) else None
        if edit is None:
            message = say(
                "`use_cuda` measures CUDA; choose what is measured with `activities`, also on {target}",
                target=context.target.title,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        message = say(
            "`use_cuda` measures CUDA; without it the profiler measures every available device, including {target}",
            target=context.target.title,
        )
        return self.finding(context, span, message, Grade.SAFE, [edit])
