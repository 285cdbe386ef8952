"""A device passed as a bare number: `.to(0)`, `torch.device(rank)`, `device=0`.

In a torch built for CUDA a bare number is a CUDA index. Since torch 2.1 it is an index of the accelerator that the
process has, but plugins followed at different times, and older ones answer "not supported" or take it for CUDA. A
device string says what is meant on every version.

A literal number is rewritten. A variable is rewritten with `--unsafe-fixes`, because it may hold a device already.

Why: Some versions of a plugin refuse the number, and others read it as a CUDA device.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_of, calls_to
from torchferry.rules.device.expressions import indexed_device, portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.source.flow.syntax import last_name
from torchferry.source.names import assigned_value

_INDEX_NAME = lazy_regex(r"(?:\A|_)(?:rank|local_rank|gpu|gpu_id|gpu_index|device_id|device_index|cuda_id)\Z")


class IntegerDevice(Rule):
    """Finds numbers where a device is meant."""

    CODE = "DEV106"
    EFFECT = Effect.RAISES
    WORDS = (".to(", "torch.device(", "device=", "map_location")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target that takes numbers."""
        return () if target.takes_numbers() is True and not target.module else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each number or index variable that stands for a device."""
        if not context.names.references("torch"):
            return
        for argument in self._arguments(context):
            literal = isinstance(argument, ast.Constant) and type(argument.value) is int and argument.value >= 0
            if (literal or is_device_index(context, argument)) and exemption_reason(context, argument) is None:
                yield self._report(context, argument, literal)

    def _arguments(self, context: PythonContext) -> Iterator[ast.expr]:
        """Yield the arguments that stand where a device is expected and nothing else can be."""
        for call in calls_of(context, "to"):
            if call.args and len(call.args) <= 2:
                yield call.args[0]
        for name, call in calls_to(context):
            if name == "torch.device" and len(call.args) == 1:
                yield call.args[0]
            for keyword in call.keywords:
                if keyword.arg in ("device", "map_location") and not name.startswith("torch.cuda"):
                    yield keyword.value

    def _report(self, context: PythonContext, argument: ast.expr, literal: bool) -> Finding:
        span = context.file.span(argument)
        text = context.file.text(argument)
        device = indexed_device(context, argument)
        works = context.target.takes_numbers()
        message = say(
            "`{text}` is a bare device number, which {plugin} {works}; write {device}",
            text=text,
            plugin=context.target.backend.PLUGIN,
            works=say("may not accept (UNKNOWN)") if works is UNKNOWN else say("does not accept"),
            device=device or f'"{context.target.backend.DEVICE_TYPE}:..."',
        )
        if device is None or context.file.fstring_of(argument) is not None:
            return self.finding(context, span, message, Grade.MANUAL)
        grade = Grade.SAFE if literal or context.target.module else Grade.UNSAFE
        return self.finding(context, span, message, grade, [Edit(*span, device)], imports=portable_imports(context))


def is_device_index(context: PythonContext, node: ast.expr) -> bool:
    """Whether a variable holds an index, by its name, unless a device was assigned to it."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or not _INDEX_NAME.search(last_name(node)):
        return False
    if isinstance(node, ast.Name):
        for binding in context.names.bindings(node):
            value = assigned_value(context.file, binding)
            if value is not None and context.devices.values.holds(value):
                return False
    return True
