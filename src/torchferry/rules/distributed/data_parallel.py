"""One process that drives several cards: `nn.DataParallel`.

It copies the model to every card and gathers the results, through functions that not every plugin has, and it is the
slowest way even on CUDA. `DistributedDataParallel` with one process a card works everywhere. The wrapper also gives
the checkpoint's keys their `module.` prefix, so it cannot simply be dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule

_NAMES = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel"})


class DataParallel(Rule):
    """Finds `nn.DataParallel`."""

    CODE = "DST105"
    WORDS = ("DataParallel", "data_parallel")

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, by what the target's table says of it."""
        for reference in context.references.get("distributed", ()):
            if reference.is_import or reference.name not in _NAMES:
                continue
            row = context.target.api(reference.name)
            if row.status == "same":
                continue
            span = context.file.span(reference.node)
            if row.status == "unknown":
                message = say(
                    "whether `{found}` works on {target} is UNKNOWN; `DistributedDataParallel` does",
                    found=reference.name,
                    target=context.target.title,
                )
            else:
                message = say(
                    "`{found}` on {target}: {note}",
                    found=reference.name,
                    target=context.target.title,
                    note=row.remark or say("use `DistributedDataParallel` with one process a card"),
                )
            yield self.finding(context, span, message, Grade.NOTE if row.status == "unknown" else Grade.MANUAL)
