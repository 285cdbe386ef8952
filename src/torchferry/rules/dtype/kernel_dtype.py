"""An operator on a dtype that no kernel of the card takes, by the lists that its vendor publishes.

`torch.randn(3, dtype=torch.complex32, device=...)`, a product of int64 tensors, a convolution of float64 ones: a plugin
registers the operator, and the kernel below it takes some dtypes only. It is reported where the code itself says the
dtype and that the tensor is on the card, and for the usual card of the target. Convert the tensor first, or compute
this part on the CPU.

Why: The kernel raises when it is called.

References:
- page rehearsing
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from torchferry.backends.cards import default_card
from torchferry.backends.kernel_limits import CODES, kernel_limits
from torchferry.backends.operators import load_operators
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_of, calls_to
from torchferry.rules.distributed.tensors import CARD, HOST, dtype_of, place_of, values
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.guarded import is_guarded

_FUNCTIONS = ("torch.nn.functional.", "torch.linalg.", "torch.")
"""Where functions of torch are that are called as the operator that they come to."""

_CASTS = frozenset({"to", "type"})
_DRAWN = {"randn": "normal_", "normal": "normal_", "randint": "random_", "rand": "uniform_"}
"""Functions that fill a new tensor, and the operator that does it."""


class KernelDtype(Rule):
    """Finds operators on tensors of the card that evidently have a dtype which no kernel takes."""

    CODE = "DTY104"
    EFFECT = Effect.RAISES
    WORDS = (*(name for name in CODES if name != "bool"), "double", "cfloat", "cdouble")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target of whose kernels nothing is published."""
        return () if kernel_limits(target.backend) is None else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each operator and dtype, at the first use."""
        seen: set[tuple[str, str]] = set()
        limits, card = kernel_limits(context.target.backend), default_card(context.target.backend).name
        for node, name, operator, dtype in _uses(context):
            limit = None if limits is None else limits.refusing(operator, dtype, card)
            if limit is None or (operator, dtype) in seen or is_guarded(context, node):
                continue
            if exemption_reason(context, node) is not None:
                continue
            seen.add((operator, dtype))
            message = say(
                "`{name}` gets {dtype} on the card, and no kernel of {card} takes it ({function}); "
                "convert it first, or compute this on the CPU",
                name=name,
                dtype=dtype,
                card=card,
                function=limit.function,
            )
            yield self.finding(context, context.file.span(node), message, Grade.MANUAL)


def _uses(context: PythonContext) -> Iterator[tuple[ast.AST, str, str, str]]:
    """Yield each use of an operator on the card: the place, how it is called, the operator and the dtype."""
    for function, call in calls_to(context):
        name = function.removeprefix(next((each for each in _FUNCTIONS if function.startswith(each)), ""))
        if name in _DRAWN:
            yield from _on_card(context, call, function, _DRAWN[name], call)
        elif call.args:
            yield from _on_card(context, call, function, name, call.args[0])
    limits = kernel_limits(context.target.backend)
    methods = _CASTS if limits is None else _CASTS | limits.bases.keys()
    for method in sorted(context.file.attributes.keys() & methods):
        for call in calls_of(context, method):
            of_torch = (context.names.qualified(call.func) or "").startswith("torch.")
            if of_torch or not isinstance(call.func, ast.Attribute):
                continue
            tensor = call.func.value
            if method not in _CASTS:
                yield from _on_card(context, call, method, method, tensor)
            elif place_of(context, tensor) == CARD:
                yield from _on_card(context, call, method, "_to_copy", call)
    for product in context.file.matrix_products:
        yield from _on_card(context, product, "@", "matmul", product.left)


def _on_card(
    context: PythonContext, node: ast.AST, name: str, operator: str, tensor: ast.expr
) -> Iterator[tuple[ast.AST, str, str, str]]:
    limits = kernel_limits(context.target.backend)
    if limits is None or operator not in limits.bases:
        return
    dtype = dtype_of(context, tensor)
    if dtype and place_of(context, tensor) == CARD and not _becomes_single(context, tensor, dtype):
        yield node, name, operator, dtype


def _becomes_single(context: PythonContext, tensor: ast.expr, dtype: str) -> bool:
    """Whether float64 may be float32 there: some plugins cast so, and what lies on the CPU before is not cast."""
    table = load_operators(context.target.backend, context.target.version)
    if dtype != "float64" or not table.casts_double:
        return False
    for value in values(context, tensor):
        moved = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
        if moved is None or place_of(context, moved) != HOST or dtype_of(context, moved) != dtype:
            return True
    return False
