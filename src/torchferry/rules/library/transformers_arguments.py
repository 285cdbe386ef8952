"""An argument of transformers that means CUDA: `pipeline(device=0)`, `tf32=True`, an optimizer with CUDA kernels.

A bare number is a CUDA index to old versions of `pipeline`. `tf32=True` raises without an Ampere card. The optimizers
of apex and bitsandbytes are CUDA kernels; the plain `adamw_torch` gives the same steps up to rounding.

Why: The call raises, or the optimizer cannot be created on the target.

References:
- table frameworks
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.device.expressions import indexed_device
from torchferry.rules.device.strings import word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import string_value

OPTIMIZERS = "transformers.training_arguments.optim."
"""What the rows of `frameworks.toml` for the optimizers of transformers begin with."""


class TransformersArguments(Rule):
    """Finds arguments of transformers that mean CUDA."""

    CODE = "LIB104"
    EFFECT = Effect.RAISES
    MODULES = ("transformers",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for name, call in calls_to(context, "transformers"):
            if exemption_reason(context, call) is not None:
                continue
            last = name.rpartition(".")[2]
            if last == "pipeline":
                yield from self._pipeline(context, call)
            elif last.endswith("TrainingArguments"):
                yield from self._training(context, call)

    def _pipeline(self, context: PythonContext, call: ast.Call) -> Iterable[Finding]:
        keyword = keyword_of(call, "device")
        if keyword is None or not isinstance(keyword.value, ast.Constant) or type(keyword.value.value) is not int:
            return
        device = indexed_device(context, keyword.value)
        if keyword.value.value < 0 or device is None:
            return
        message = say(
            "`device={index}` is a CUDA index; on {target} write {device}",
            index=keyword.value.value,
            target=context.target.title,
            device=device,
        )
        span = context.file.span(keyword.value)
        yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, device)])

    def _training(self, context: PythonContext, call: ast.Call) -> Iterable[Finding]:
        tf32 = keyword_of(call, "tf32")
        if tf32 is not None and isinstance(tf32.value, ast.Constant) and tf32.value.value is True:
            row = context.target.row("frameworks", "transformers.training_arguments.tf32")
            message = say(
                "`tf32=True` asks for TF32 on an NVIDIA card; on {target}: {note}",
                target=context.target.title,
                note=row.remark or say("it raises, remove it"),
            )
            yield self.finding(context, context.file.span(tf32), message, Grade.MANUAL)
        optim = keyword_of(call, "optim")
        name = string_value(optim.value) if optim is not None else None
        if optim is None or name is None:
            return
        row = context.target.row("frameworks", OPTIMIZERS + name)
        if row.status in REWRITTEN and row.use and row.use != name:
            message = noted(
                say(
                    "optimizer `{found}` is `{use}` on {target}",
                    found=name,
                    use=row.use,
                    target=context.target.title,
                ),
                row.remark,
            )
            assert isinstance(optim.value, ast.Constant)
            edits = word_edits(context, optim.value, name, row.use)
            yield self.finding(context, context.file.span(optim), message, Grade.SAFE, edits)
        elif row.status == "missing":
            message = say(
                "optimizer `{found}` has CUDA kernels; on {target}: {note}",
                found=name,
                target=context.target.title,
                note=row.remark or say("use `adamw_torch`"),
            )
            yield self.finding(context, context.file.span(optim), message, Grade.MANUAL)
