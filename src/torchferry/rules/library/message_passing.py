"""`MessagePassing.propagate` as the first versions of torch_geometric had it: with the aggregation in front.

`self.propagate("add", edge_index, x=x)` belongs to a torch_geometric of the time of torch 1.0. Those that go with the
torch of a plugin take the edges first, and the aggregation when the layer is made. In the same code `add_self_loops` is
often expected to return the edges alone, and it returns a pair.

Why: The aggregation and the edges change places, so the layer raises.

References:
- page packages
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule, calls_of
from torchferry.source.flow.syntax import last_name, string_value


class MessagePassing(Rule):
    """Finds calls of `propagate` with the aggregation in front.

    pyg-team/pytorch_geometric@5c6461b2305a: nn/conv/message_passing.py:421, utils/loop.py:382.
    """

    CODE = "LIB120"
    EFFECT = Effect.RAISES
    WORDS = ("propagate",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call."""
        if "torch_geometric" not in context.imported_packages:
            return
        for call in calls_of(context, "propagate"):
            if len(call.args) > 1 and _is_aggregation(call.args[0]):
                message = say(
                    "`propagate` takes the edges first in every torch_geometric for the torch of "
                    "{target}: pass the aggregation to `__init__` of MessagePassing, and use the first "
                    "of the two results of `add_self_loops`",
                    target=context.target.title,
                )
                yield self.finding(context, context.file.span(call.func), message, Grade.MANUAL)


def _is_aggregation(node: ast.expr) -> bool:
    return string_value(node) is not None or last_name(node) == "aggr"
