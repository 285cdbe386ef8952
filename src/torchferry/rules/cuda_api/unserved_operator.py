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
from torchferry.rules.base import Options, PythonContext, Rule, calls_to
from torchferry.rules.conditions import stored_uses
from torchferry.rules.device.nested_tensor import is_jagged
from torchferry.rules.distributed.tensors import CARD, place_of, values
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import is_guarded
from torchferry.rules.missing_kernel import without_kernel
from torchferry.source.flow.syntax import last_name
from torchferry.source.nodes import nodes_in

_ATEN = "torch.ops.aten."

_COMING_TO = {
    f"torch.nn.attention.varlen.{name}": "_flash_attention_forward" for name in ("varlen_attn", "varlen_attn_out")
}
"""Functions of torch that come to such an operator alone (torch/nn/attention/varlen.py)."""

_QUANTIZING = ("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic")
"""Operators that make quantised tensors, for which every other operator has kernels of its own."""

_OF_QUANTIZED = frozenset({"dequantize", "int_repr", "q_scale", "q_zero_point"})
_SYMMETRIC = "torch.ops.symm_mem."
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


class UnservedOperator(Rule):
    """Finds operators of torch that are called by their own names and that the plugin has no kernel for."""

    CODE = "CUD114"
    EFFECT = Effect.RAISES
    ANSWERS = (say("compute it with other operators"),)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Return the namespace of torch's operators, and the operators that are private functions of torch, too."""
        return (
            "aten",
            "varlen_attn",
            "quantize_per",
            "jagged",
            "symm_mem",
            *(name for name in _of_cuda() if name.startswith("_")),
        )

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
        for node, name in (*_of_quantized(context), *_of_jagged(context), *_of_symmetric(context)):
            if name not in seen and exemption_reason(context, node) is None and not is_guarded(context, node):
                seen.add(name)  # kernels for these are in no list
                message = say(
                    "`{name}` is an operator with a kernel of its own for CUDA; whether {target} has one is UNKNOWN",
                    name=name,
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(node), message, Grade.MANUAL, effect=Effect.UNKNOWN)


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
        elif reference.name in _COMING_TO:
            yield reference.node, reference.name, _COMING_TO[reference.name]
        elif len(parts) == 2 and parts[1] in _QUANTIZING and _is_on_card(context, reference.node):
            yield reference.node, reference.name, parts[1]


def _is_on_card(context: PythonContext, function: ast.AST) -> bool:
    """Whether a function is called with a tensor that is evidently on the card."""
    call = context.file.parents.get(function)
    return (
        isinstance(call, ast.Call)
        and call.func is function
        and bool(call.args)
        and place_of(context, call.args[0]) == CARD
    )


def _of_quantized(context: PythonContext) -> Iterator[tuple[ast.AST, str]]:
    """Yield what is done with a quantised tensor that was made on the card, with the operator."""
    for name, call in calls_to(context):
        operator = name.removeprefix("torch.")
        if operator not in _QUANTIZING or not _is_on_card(context, call.func):
            continue
        for use in (call, *stored_uses(context, call)):
            parent = context.file.parents.get(use)
            if isinstance(parent, ast.Attribute) and parent.attr in _OF_QUANTIZED:
                yield parent, parent.attr
            elif isinstance(parent, ast.Call) and last_name(parent.func) in _OF_QUANTIZED:
                yield parent.func, last_name(parent.func)


def _of_symmetric(context: PythonContext) -> Iterator[tuple[ast.AST, str]]:
    """Yield the collectives on symmetric memory."""
    for reference in context.names.references("torch"):
        if reference.name.startswith(_SYMMETRIC) and not reference.is_import:
            yield reference.node, reference.name


def _of_jagged(context: PythonContext) -> Iterator[tuple[ast.AST, str]]:
    """Yield the attention of nested tensors of jagged layout on the card: it chooses among kernels of CUDA."""
    for name, call in calls_to(context):
        if name == _ATTENTION and call.args:
            parts = (part for value in values(context, call.args[0]) for part in nodes_in(value))
            nested = (part for part in parts if isinstance(part, ast.Call) and is_jagged(context, part))
            if any(place_of(context, part) == CARD for part in nested):
                yield call.func, name
