"""Where a call of an operator belongs: step, phase, module; in backward, the forward call that it differentiates.

No backward hooks are set, which would break models that work in place: autograd numbers its nodes, and the number of
the node that a forward call made is the number of the node that runs in backward.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchferry.numerics.framework.modules import ModulePaths
from torchferry.numerics.framework.operators import Operator

FORWARD, BACKWARD, RECOMPUTE = "forward", "backward", "recompute"
OPTIMIZER, SCALING = "optimizer", "gradient scaling"
PHASES = (FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, SCALING)
"""`recompute` is a forward that activation checkpointing runs again in backward."""

_SCALING = frozenset({"_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"})

_ACCUMULATE = 2**63
"""Numbers from here on are those of nodes that accumulate gradients: they run first, and differentiate nothing."""


_current_node = torch._C._current_autograd_node
_next_number = torch._C._autograd._get_sequence_nr

_AT_ONCE = 8
"""More autograd nodes than one call makes."""


class Where(NamedTuple):
    """Where a call belongs.

    Attributes:
        phase: One of `PHASES`.
        module: Path of the module, `GPT.blocks.0.mlp`; empty outside of all modules.
        source: In backward: the forward operator that is differentiated, the autograd node where it is not known
            which operator made it, or the parameter whose gradient is added.
    """

    phase: str
    module: str
    source: str

    def text(self) -> str:
        """Return `GPT.blocks.0.mlp (backward of aten.gelu)`."""
        place = self.module or "outside of modules"
        return f"{place} ({self.phase}{f' of {self.source}' if self.source else ''})"


OUTSIDE = Where(FORWARD, "", "")


class _Thread:
    """What one thread did: its count of autograd nodes, and the forward calls that made them."""

    def __init__(self) -> None:
        self.last = -1
        self.origins: dict[int, tuple[str, str]] = {}
        self.before: dict[int, tuple[str, str]] = {}
        self.inside = -1
        """The backward pass in which this thread ran a forward again; -1 where it did not."""

    def origin(self, number: int) -> tuple[str, str] | None:
        """Return module and operator of the forward call that made a node."""
        return self.origins.get(number) or self.before.get(number)


class Attribution:
    """Says where each call belongs. One serves all threads of a program."""

    def __init__(self) -> None:
        self.modules = ModulePaths()
        self._own = threading.local()
        self._threads: list[_Thread] = []
        self._optimizers = 0
        self._handles: list[Any] = []
        self._differentiated: dict[tuple[int, str], Where] = {}
        """Where the calls of a node in backward belong, by its number and name, until another forward call is made."""

    def start(self) -> None:
        """Begin to follow modules and optimizers."""
        self.modules.start()
        self._handles = [
            register_optimizer_step_pre_hook(self._optimizer_begins),
            register_optimizer_step_post_hook(self._optimizer_ends),
        ]

    def stop(self) -> None:
        """Follow no more."""
        self.modules.stop()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._optimizers = 0

    def next_step(self) -> None:
        """Forget the forward calls of the step before the last: their graphs are gone."""
        self._differentiated.clear()
        for thread in self._threads:
            thread.before, thread.origins = thread.origins, {}

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within the context, calls do not count as the optimizer's, although it has begun."""
        begun, self._optimizers = self._optimizers, 0
        try:
            yield
        finally:
            self._optimizers = begun

    def where(self, operator: Operator) -> Where:
        """Return where the call belongs that is being dispatched in this thread. Called once for each call."""
        node: Any = _current_node()
        module = self.modules.current
        if node is None:
            if not module:
                if self._optimizers:
                    return Where(OPTIMIZER, "", "")
                if operator.base in _SCALING:
                    return Where(SCALING, "", "")
            self._remember(module, operator, -1)  # also under no_grad: functions with their own backward run so
            return Where(FORWARD, module, "")
        if module:
            self._remember(module, operator, torch._C._current_graph_task_id())
            return Where(RECOMPUTE, module, "")
        return self._backward(node)

    def passed(self, operator: Operator) -> None:
        """Be told of a call whose place nobody asks for, in place of `where`: it may make autograd nodes."""
        module = self.modules.current
        if _current_node() is None:
            if module or not (self._optimizers or operator.base in _SCALING):
                self._remember(module, operator, -1)
        elif module:
            self._remember(module, operator, torch._C._current_graph_task_id())

    def _thread(self) -> _Thread:
        thread: _Thread | None = getattr(self._own, "thread", None)
        if thread is None:
            thread = self._own.thread = _Thread()
            self._threads.append(thread)
        return thread

    def _remember(self, module: str, operator: Operator, inside: int) -> None:
        """Note which call made the newest autograd nodes of this thread, if it made any.

        A call that makes no node leaves the number as it is, and so does what a call is composed of. A call in place
        makes a node and then calls `clone`, which makes another: both are of the module that is running.
        """
        thread = self._thread()
        number = _next_number() - 1
        if number != thread.last:
            self._differentiated.clear()
            for node in range(max(thread.last + 1, number - _AT_ONCE), number + 1):
                thread.origins[node] = (module, operator.name)
            thread.last = number
            if inside >= 0:
                thread.inside = inside

    def _backward(self, node: Any) -> Where:
        number = node._sequence_nr()
        if number >= _ACCUMULATE:
            variable = getattr(node, "variable", None)
            name = self.modules.parameter(variable) if variable is not None else ""
            module, _, leaf = name.rpartition(".")
            return Where(BACKWARD, module, leaf or "a leaf")
        node_name = node.name()
        recorded = self._differentiated.get((number, node_name))
        if recorded is not None:
            return recorded
        origin = self._origin(number)
        if not origin:
            return Where(BACKWARD, "", node_name)
        module, source = origin
        where = Where(BACKWARD, module, source if _made_by(node_name, source) else node_name)
        if self._thread().inside < 0:  # what this thread has run again has numbers of its own
            self._differentiated[number, node_name] = where
        return where

    def _origin(self, number: int) -> tuple[str, str] | None:
        own = self._thread()
        if own.inside >= 0 and torch._C._current_graph_task_id() > own.inside:
            # a backward inside of a backward: of what this thread has run again, whose numbers are its own
            origin = own.origin(number)
            if origin:
                return origin
        for thread in self._threads:
            origin = thread.origin(number) if thread.inside < 0 else None
            if origin:
                return origin
        return own.origin(number)

    def _optimizer_begins(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers += 1

    def _optimizer_ends(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers = max(0, self._optimizers - 1)


@cache
def _made_by(node: str, operator: str) -> bool:
    """Whether a node, `NativeLayerNormBackward0`, is one that an operator makes, `aten.native_layer_norm`."""
    base = operator.split(".")[1].replace("_", "").lower()
    return node.rpartition("::")[2].rstrip("0123456789").removesuffix("Backward").lower() == base
