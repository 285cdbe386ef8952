"""In an examined process: compare its rank with the others each N steps."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import Optimizer

from torchferry.core.messages import Message, say
from torchferry.numerics.framework.attribution import ModulePaths
from torchferry.numerics.framework.steps import Steps
from torchferry.numerics.ranks.agreement import TIMEOUT, Agreement, check_equal_across_ranks

# Compare the ranks of a program each N steps, before the optimizer changes the parameters.


class RankWatch:
    """Compares what DistributedDataParallel keeps equal; models that it does not wrap are each rank's own.

    It stops after the first difference, and after a rank that did not answer: what follows would say no more.

    Attributes:
        checks: How many comparisons there were.
        found: The first that was not equal, or the last one; None where there was none.
    """

    def __init__(self, every: int, timeout: float = TIMEOUT) -> None:
        self.checks = 0
        self.found: Agreement | None = None
        self._every = max(every, 1)
        self._timeout = timeout
        self._steps = Steps()
        self._modules = ModulePaths()
        self._roots: list[weakref.ref[nn.Module]] = []  # in the order that they were met, as on all ranks
        self._done = -1
        self._active = False

    def start(self) -> None:
        """Begin to follow models and steps."""
        self._modules.on_root.append(self._meet)
        self._modules.start()
        self._steps.before.append(self._check)
        self._steps.skipped.append(self._check)  # a scaler may leave a step out on one rank and not on another
        self._steps.start()
        self._active = True

    def stop(self) -> None:
        """Follow no more."""
        self._modules.stop()
        self._steps.stop()
        self._active = False

    def document(self) -> dict[str, Any]:
        """Return what was found, in values that JSON has."""
        document = self.found.document() if self.found is not None else {"equal": None}
        said = {lang: [line.render(lang) for line in self.lines()] for lang in ("en", "zh")}
        return {"checks": self.checks, **document, "said": said}

    def lines(self) -> list[Message]:
        """Return what is to be said at the end."""
        if self.found is None:
            return [say("the ranks were not compared: {why}", why=say("no step of a DistributedDataParallel model"))]
        return self.found.lines()

    def _meet(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, nn.parallel.DistributedDataParallel):
            if not any(root() is module for root in self._roots):
                self._roots.append(weakref.ref(module))

    def _check(self, optimizer: Optimizer) -> None:
        step = self._steps.count
        if not self._active or step == self._done or step % self._every or not dist.is_initialized():
            return
        self._done = step
        owned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for model in filter(None, [root() for root in self._roots]):
            if not any(id(parameter) in owned for parameter in model.parameters()):
                continue
            agreement = check_equal_across_ranks(model, group=model.process_group, timeout=self._timeout, step=step)
            self.checks += 1
            self.found = agreement
            if not agreement.equal:
                self._active = False
                self._tell(agreement)
                return

    def _tell(self, agreement: Agreement) -> None:
        if dist.get_rank() == agreement.ranks[0]:
            for line in agreement.lines()[:2]:
                said = say("step {step}: {what}", step=agreement.step, what=line).render()
                print(f"torchferry: {said}", file=sys.stderr, flush=True)


class RankProcessTool:
    """A watch whose end is a result."""

    def __init__(self, watch: RankWatch) -> None:
        self._watch = watch

    def finish(self) -> dict[str, Any]:
        """End the comparison and return what was found."""
        self._watch.stop()
        return {"ranks": self._watch.document()}


def begin(options: dict[str, Any], folder: Path | None = None) -> RankProcessTool:
    """Begin to compare ranks: each `every` steps, waiting `timeout` seconds for who is late."""
    watch = RankWatch(int(options.get("every", 1)), float(options.get("timeout", 60.0)))
    watch.start()
    return RankProcessTool(watch)
