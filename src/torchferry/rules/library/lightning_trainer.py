"""A Lightning trainer configured for CUDA: `Trainer(accelerator="gpu")`, `gpus=8`, `config["gpus"] = "0,1"`.

Lightning itself calls `torch.cuda`. The target's table says whether it supports the target, and by what name; where it
does not, an accelerator must be registered, or the training loop written out. Arguments that reach the trainer by a
dictionary, a Namespace or the command line are found in the files that import Lightning.

Why: Lightning finds no CUDA card and stops, or trains on the CPU.

References:
- table frameworks
- table libraries
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.tables import REWRITTEN, Row
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import Message, noted, say
from torchferry.rules.base import PythonContext, Rule, keyword_of
from torchferry.rules.default_texts import choices_of
from torchferry.rules.device.strings import word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name, string_value

_GPUS = ("gpus", "auto_select_gpus")
_CUDA = ("gpu", "cuda")
_STRATEGIES = ("ddp", "ddp2", "ddp_spawn", "ddp_sharded", "dp", "horovod")
"""Values of `accelerator` before Lightning 1.5, which mean several CUDA cards."""

_RECORDS = ("dict", "Namespace", "SimpleNamespace", "update", "create", "merge", "set_defaults", "parse_args")
"""Calls whose keywords become entries of a configuration."""

_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")


class LightningTrainer(Rule):
    """Finds Lightning trainers that are told to use CUDA."""

    CODE = "LIB103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("give Lightning the target's accelerator"),)
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
                if isinstance(call, ast.Call) and exemption_reason(context, call) is None:
                    yield from self._arguments(context, call)
        if any(context.names.references(package) for package in _PACKAGES):
            for node, name, value in _entries(context):
                if exemption_reason(context, node) is None:
                    yield from self._entry(context, node, name, value)

    def _arguments(self, context: PythonContext, call: ast.Call) -> Iterable[Finding]:
        for keyword in call.keywords:
            value = string_value(keyword.value)
            if keyword.arg == "accelerator" and value in _CUDA:
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
                    other_build = context.target.row("packages", "lightning").use
                    blocks = row.status == "missing" and not other_build
                    lacks = f'Lightning\'s accelerator="{value}"' if blocks else ""
                    message = self._unserved(context, row)
                    yield self.finding(context, span, message, Grade.MANUAL, blocker=blocks, lacks=lacks)
            elif keyword.arg == "accelerator" and isinstance(keyword.value, (ast.IfExp, ast.BoolOp, ast.Name)):
                choices = choices_of(context, keyword.value)
                choices += [each for choice in choices for each in choices_of(context, choice) if each is not choice]
                chosen = next((choice for choice in choices if string_value(choice) in _CUDA), None)
                if chosen is not None:
                    yield from self._entry(context, keyword.value, "accelerator", chosen)
            elif keyword.arg in _GPUS:
                row = context.target.row("frameworks", "lightning.accelerator.gpu")
                yield self.finding(context, context.file.span(keyword), self._unserved(context, row), Grade.MANUAL)

    def _entry(self, context: PythonContext, node: ast.AST, name: str, value: ast.expr | None) -> Iterable[Finding]:
        """Report an entry of a configuration that reaches the trainer in some way, if it means CUDA."""
        text = string_value(value) if value is not None else None
        if name in _GPUS:
            if isinstance(value, ast.Constant) and not value.value:
                return
            spelling = f"{name}={context.file.text(value)}" if value is not None else name
        elif text in _CUDA or text in _STRATEGIES:
            spelling = f'{name}="{text}"'
        else:
            return
        row = context.target.row("frameworks", f"lightning.accelerator.{text if text in _CUDA else 'gpu'}")
        message = say(
            "`{found}` tells Lightning to use CUDA cards; on {target}: {note}",
            found=spelling,
            target=context.target.title,
            note=(say("use `{use}`", use=row.use) if row.use else row.remark)
            or say("whether Lightning supports it is UNKNOWN"),
        )
        yield self.finding(context, context.file.span(node), message, Grade.MANUAL)

    def _unserved(self, context: PythonContext, row: Row) -> Message:
        return say(
            "Lightning uses CUDA here; on {target}: {note}",
            target=context.target.title,
            note=row.remark or say("whether Lightning supports it is UNKNOWN"),
        )


def _entries(context: PythonContext) -> Iterator[tuple[ast.AST, str, ast.expr | None]]:
    """Yield entries of configurations by name: of dictionaries, of objects, of the command line, with their values."""
    wanted = ("accelerator", *_GPUS)
    file = context.file
    for node in file.strings:
        parent = file.parents.get(node)
        if isinstance(parent, ast.Dict) and node.value in wanted and node in parent.keys:
            yield node, str(node.value), parent.values[parent.keys.index(node)]
        elif isinstance(parent, ast.Subscript) and node.value in wanted and parent.slice is node:
            statement = file.parents.get(parent)
            if isinstance(statement, ast.Assign) and parent in statement.targets:
                yield statement, str(node.value), statement.value
        elif isinstance(parent, ast.Call) and last_name(parent.func) == "add_argument":
            name = str(node.value).lstrip("-").replace("-", "_")
            if name in wanted and node in parent.args and str(node.value).startswith("-"):
                default = keyword_of(parent, "default")
                if default is not None:
                    yield parent, name, default.value
    for name in wanted:
        for attribute in file.attributes.get(name, ()):
            statement = file.parents.get(attribute)
            if isinstance(statement, ast.Assign) and attribute in statement.targets:
                yield statement, name, statement.value
        for keyword in file.keywords.get(name, ()):
            call = file.parents.get(keyword)
            if isinstance(call, ast.Call) and last_name(call.func) in _RECORDS:
                yield keyword, name, keyword.value
