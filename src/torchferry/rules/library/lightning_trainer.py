"""A Lightning trainer told to use CUDA: `Trainer(accelerator="gpu")`, `gpus=8`.

Lightning itself drives the card: it calls `torch.cuda` inside. Whether it knows the target, and by what name, is in
the target's table; where it does not, an accelerator must be registered, or the training loop written out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN, Row
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import word_edits
from torchferry.rules.keeping import reason_to_keep
from torchferry.source.flow.syntax import string_value

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")


class LightningTrainer(Rule):
    """Finds Lightning trainers that are told to use CUDA."""

    CODE = "LIB103"
    CHINESE = """Lightning 的 `Trainer` 指定 GPU。

Lightning 的 `accelerator="gpu"` 指 CUDA（或 MPS）。与目标平台的集成需要什么见其表；有的需要程序自行注册 Accelerator。
"""
    MODULES = _PACKAGES

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each argument that means CUDA."""
        for package in _PACKAGES:
            for reference in context.names.references(package):
                call = context.file.parents.get(reference.node)
                last = reference.name.rpartition(".")[2]
                if last not in ("Trainer", "Fabric", "from_argparse_args", "LightningCLI"):
                    continue
                if isinstance(call, ast.Attribute):
                    call = context.file.parents.get(call)
                if isinstance(call, ast.Call) and reason_to_keep(context, call) is None:
                    yield from self._arguments(context, call)

    def _arguments(self, context: PythonContext, call: ast.Call) -> Iterable[Finding]:
        for keyword in call.keywords:
            value = string_value(keyword.value)
            if keyword.arg == "accelerator" and value in ("gpu", "cuda"):
                row = context.target.row("frameworks", f"lightning.accelerator.{value}")
                span = context.file.span(keyword)
                if row.status in REWRITTEN and row.use:
                    message = noted(
                        say(
                            '`accelerator="{found}"` is `{use}` on {target}',
                            found=value,
                            use=row.use,
                            target=context.target.title,
                        ),
                        row.remark,
                    )
                    assert isinstance(keyword.value, ast.Constant)
                    edits = word_edits(context, keyword.value, value, row.use)
                    yield self.finding(context, span, message, Grade.SAFE, edits)
                else:
                    yield self.finding(context, span, self._unserved(context, row), Grade.MANUAL, blocker=True)
            elif keyword.arg in ("gpus", "auto_select_gpus"):
                row = context.target.row("frameworks", "lightning.accelerator.gpu")
                yield self.finding(context, context.file.span(keyword), self._unserved(context, row), Grade.MANUAL)

    def _unserved(self, context: PythonContext, row: Row) -> Message:
        return say(
            "Lightning drives CUDA here; on {target}: {note}",
            target=context.target.title,
            note=row.remark or say("whether Lightning serves it is UNKNOWN"),
        )
