"""A tensor of a dtype that the target's collective library refuses.

`dist.all_reduce(t)` of a float64 tensor works with NCCL. A vendor's process group may have no sum for that dtype and
raise in the middle of the first epoch: meters that add up losses over all ranks are written so. Sum float32 or int64
values, or collect the values on the CPU with a second process group over gloo.

Why: The collective raises, often only at the end of the first epoch.

References:
- page rehearsing
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchferry.backends.collectives import Refusal, refusals
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Options, PythonContext, Rule, calls_to, keyword_of
from torchferry.rules.distributed.tensors import HOST, dtype_of, place_of

_OPERATIONS = {
    "torch.distributed.all_reduce": ("allreduce", "tensor"),
    "torch.distributed.reduce": ("reduce", "tensor"),
    "torch.distributed.reduce_scatter_tensor": ("_reduce_scatter_base", "output"),
    "torch.distributed.broadcast": ("broadcast", "tensor"),
    "torch.distributed.all_gather_into_tensor": ("_allgather_base", "output_tensor"),
    "torch.distributed.send": ("send", "tensor"),
}
"""Functions whose first argument is the tensor: the operation of the process group, and the argument's name."""


class CollectiveDtype(Rule):
    """Finds collectives on a tensor that is evidently of a dtype which the process group refuses."""

    CODE = "DST108"
    EFFECT = Effect.RAISES
    ANSWERS = (say("use another dtype"), say("use gloo on the CPU"))
    WORDS = tuple(name.rpartition(".")[2] for name in _OPERATIONS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Nothing on a target of whose process group nobody knows what it refuses."""
        return () if isinstance(refusals(target.backend), Unknown) else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each call of which both the operation and the dtype are evident."""
        listed = refusals(context.target.backend)
        refused = {} if isinstance(listed, Unknown) else {(each.operation, each.dtype): each for each in listed}
        for name, call in calls_to(context):
            if name not in _OPERATIONS:
                continue
            operation, parameter = _OPERATIONS[name]
            argument = call.args[0] if call.args else getattr(keyword_of(call, parameter), "value", None)
            if argument is None or keyword_of(call, "group") is not None:
                continue  # a group of the program's own may be over another library
            refusal = refused.get((operation, dtype_of(context, argument)))
            if refusal is not None and place_of(context, argument) != HOST:
                yield self._report(context, call, refusal)

    def _report(self, context: PythonContext, call: ast.Call, refusal: Refusal) -> Finding:
        message = say(
            "`{collective}` on {target} refuses {dtype} here (“{text}”); sum float32 or int64 values, or use a group "
            "over gloo on the CPU",
            collective=context.target.backend.COLLECTIVE,
            target=context.target.title,
            dtype=refusal.dtype,
            text=refusal.text,
        )
        return self.finding(context, context.file.span(call), message, Grade.MANUAL)
