"""An operator of torch that is called by its own name: `torch.ops.aten._convert_weight_to_int4pack`, `torch._int_mm`.

torch has a kernel for CUDA, and none that serves every device: a plugin brings one, or the operator does not run on the
card. It is reported where the list of what the plugin registers lacks it; private ones also where no list is known.
Each operator is reported once per file.

Use an operation that the plugin has, or move the tensors to the CPU for the call where the CPU has the operator.

Why: The operator raises, or runs on the CPU, depending on the plugin and on whether the CPU has it.

References:
- table api
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.operators import kernels_of_cuda, load_operators
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import is_guarded
from torchferry.rules.missing_kernel import without_kernel

_ATEN = "torch.ops.aten."


class UnservedOperator(Rule):
    """Finds operators of torch that are called by their own names and that the plugin has no kernel for."""

    CODE = "CUD114"
    EFFECT = Effect.RAISES

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Return the namespace of torch's operators, and the operators that are private functions of torch, too."""
        return ("aten", *(name for name in _of_cuda() if name.startswith("_")))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for the first use of each operator."""
        seen: set[str] = set()
        for node, name, operator in _uses(context):
            if operator in seen or exemption_reason(context, node) is not None or is_guarded(context, node):
                continue
            seen.add(operator)
            registered = load_operators(context.target.backend, context.target.version).registered
            if isinstance(registered, Unknown):
                if not operator.startswith("_"):
                    continue
                message = say(
                    "`{name}` is an operator with a kernel of its own for CUDA; whether {target} has one is UNKNOWN",
                    name=name,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.UNKNOWN)
            elif operator not in {each.partition(".")[0] for each in registered}:
                message = say(
                    "`{name}` is an operator with a kernel of its own for CUDA, and {plugin} registers none; {without}",
                    name=name,
                    plugin=context.target.backend.PLUGIN,
                    without=without_kernel(context.target),
                )
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL)


def _of_cuda() -> frozenset[str]:
    """Return the operators of CUDA without their overloads."""
    return frozenset(name.partition(".")[0] for name in kernels_of_cuda())


def _uses(context: PythonContext) -> Iterator[tuple[ast.AST, str, str]]:
    of_cuda = _of_cuda()
    for reference in context.names.references("torch"):
        parts = reference.name.split(".")
        if reference.is_import:
            continue
        if reference.name.startswith(_ATEN) and len(parts) > 3 and parts[3] in of_cuda:
            yield reference.node, f"{_ATEN}{parts[3]}", parts[3]
        elif len(parts) == 2 and parts[1].startswith("_") and parts[1] in of_cuda:
            yield reference.node, reference.name, parts[1]
