"""The index of a card given to a collective or a wrapper, in code that is to run on the CPU too.

`DistributedDataParallel(model, device_ids=[rank])`, `dist.barrier(device_ids=[rank])`, `init_process_group(...,
device_id=...)` and FSDP's `device_id` take the cards of accelerators alone: with a model on the CPU torch raises an
error. In code for every device (`migrate --style portable`) the value goes through `accelerator_only`, which is None on
the CPU. A call behind a test for the accelerator stays as it is.

Why: torch raises when the model is on the CPU, so the code does not run on every device.

References:
- page device-manager
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import Portability
from torchferry.source.flow.syntax import last_name

_ARGUMENTS: dict[str, dict[str, int | None]] = {
    "DistributedDataParallel": {"device_ids": 1, "output_device": 2},
    "FullyShardedDataParallel": {"device_id": None},
    "barrier": {"device_ids": None},
    "init_process_group": {"device_id": None},
}
"""For each function of torch, the arguments that take a card, and their positions; None for keywords alone."""

_TESTS = ("cuda", "is_available", "accelerator", "use_gpu")
"""What the text of a condition has that asks whether there is a card."""


class AcceleratorArguments(Rule):
    """Finds arguments that take a card, in code for every device."""

    CODE = "DST107"
    EFFECT = Effect.RAISES
    PORTABILITY = Portability.IN_PYTHON
    WITH_TORCH_ALONE = False  # without an accelerator such a program ends as it did before
    WORDS = ("device_id", "DistributedDataParallel", "DDP")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing where one vendor's code is written."""
        return self.WORDS if target.module else ()

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each such argument."""
        for name, call in calls_to(context):
            last = name.rpartition(".")[2]
            for value in _values(call, _ARGUMENTS.get(last, {})):
                if not _is_served(context, value) and exemption_reason(context, call) is None:
                    yield self._report(context, last, value)

    def _report(self, context: PythonContext, name: str, value: ast.expr) -> Finding:
        span = context.file.span(value)
        use = f"{context.target.module}.accelerator_only"
        message = say("`{name}` accepts a card only on accelerators; `{use}` is None on the CPU", name=name, use=use)
        edits = [Edit(span[0], span[0], f"{use}("), Edit(span[1], span[1], ")")]
        return self.finding(context, span, message, Grade.SAFE, edits, imports=portable_imports(context))


def _values(call: ast.Call, arguments: dict[str, int | None]) -> Iterator[ast.expr]:
    for keyword in call.keywords:
        if keyword.arg in arguments:
            yield keyword.value
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return
    for position in arguments.values():
        if position is not None and position < len(call.args):
            yield call.args[position]


def _is_served(context: PythonContext, value: ast.expr) -> bool:
    """Whether an argument is None on the CPU already, or its call is not reached there."""
    if isinstance(value, ast.Constant) and value.value is None:
        return True
    if isinstance(value, ast.IfExp) and any(
        isinstance(branch, ast.Constant) and branch.value is None for branch in (value.body, value.orelse)
    ):
        return True
    if isinstance(value, ast.Call) and last_name(value.func) == "accelerator_only":
        return True
    child: ast.AST = value
    parent = context.file.parents.get(child)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        guarded = isinstance(parent, ast.If) and child in parent.body
        guarded = guarded or (isinstance(parent, ast.IfExp) and child is parent.body)
        if guarded and isinstance(parent, (ast.If, ast.IfExp)):
            text = ast.unparse(parent.test)
            if not text.startswith("not ") and any(word in text for word in _TESTS):
                return True
        child, parent = parent, context.file.parents.get(parent)
    return False
