"""Where a call of an operator belongs: step, phase, module; in backward, the forward call that it differentiates.

No backward hooks are set, which would break models that work in place: autograd numbers its nodes, and the number of
the node that a forward call made is the number of the node that runs in backward.

Which module runs is known by hooks that torch has for all modules: no model is changed, and every model is seen. A
module's path is its place in the outermost module that was called, without the wrappers that change with the number of
ranks: `GPT.blocks.0.mlp`, also under DistributedDataParallel, FSDP, checkpoint_wrapper and torch.compile. Paths are
made once for each module, so a call costs the same at any depth.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from torchferry.numerics.framework.module_hooks import ModuleHooks
from torchferry.numerics.framework.operators import Operator
from torchferry.numerics.framework.torch_versions import is_dynamo_compiling

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


_WRAPPED = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"})
"""Attributes under which torch's wrappers keep the module that they represent."""


class _Running(threading.local):
    """The modules that run in one thread, outermost first."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.modules: list[nn.Module] = []


class ModulePaths:
    """Knows the path of the module that runs.

    Hooks stand from `start` to `stop`. A forward that raises leaves no module behind.
    """

    def __init__(self) -> None:
        self._running = _Running()
        self._paths: dict[int, str] = {}
        self._alive: dict[int, weakref.ref[nn.Module]] = {}
        self._roots: dict[str, int] = {}
        self._alone: set[int] = set()
        self._parameters: dict[int, str] = {}
        self._hooks = ModuleHooks(self._enter, self._leave)
        self.on_root: list[Any] = []
        """Called with each outermost module and its arguments, before it runs."""
        self.on_root_left: list[Any] = []
        """Called with each outermost module, its arguments and its result, which is None when it raised."""
        self.on_left: list[Any] = []
        """Called with the path of each module that has run, and its result."""

    def start(self) -> None:
        """Begin to follow modules."""
        self._hooks.start()

    def stop(self) -> None:
        """Follow no more; what was named stays named."""
        self._hooks.stop()
        self._running = _Running()

    @property
    def current(self) -> str:
        """The path of the innermost module that runs in this thread, or an empty text."""
        paths = self._running.paths
        return paths[-1] if paths else ""

    def of(self, module: nn.Module) -> str:
        """Return the path of a module that has run, or an empty text."""
        return self._paths.get(id(module), "")

    def parameter(self, tensor: torch.Tensor) -> str:
        """Return the path of a parameter of a module that has run, or an empty text."""
        return self._parameters.get(id(tensor), "")

    def _enter(self, module: nn.Module, args: Any) -> None:
        if is_dynamo_compiling():
            return  # a compiled part is one: its modules do not run one by one
        running = self._running
        paths = running.paths
        path = self._paths.get(id(module))
        if path is None:
            path = self._name(module, running)
        if not paths:
            for call in self.on_root:
                call(module, args)
        paths.append(path)
        running.modules.append(module)

    def _leave(self, module: nn.Module, args: Any, result: Any) -> None:
        if is_dynamo_compiling():
            return
        paths = self._running.paths
        if paths:
            path = paths.pop()
            self._running.modules.pop()
            for call in self.on_left:
                call(path, result)
            if not paths:
                for call in self.on_root_left:
                    call(module, args, result)

    def _name(self, module: nn.Module, running: _Running) -> str:
        """Name a module that was not met before, and all that it holds."""
        if running.paths:  # put there since the outermost module was named, or kept outside of torch's register
            parent = running.modules[-1]
            key = next((key for key, child in parent._modules.items() if child is module), type(module).__name__)
            path = running.paths[-1] if _is_wrapped(parent, key) else f"{running.paths[-1]}.{key}"
        else:
            root = unwrapped(module)
            kind = type(root).__name__
            number = self._roots[kind] = self._roots.get(kind, 0) + 1
            path = kind if number == 1 else f"{kind}#{number}"
        self._hold(module, path)
        if not running.paths:
            self._alone.add(id(module))
        return self._paths[id(module)]

    def _hold(self, module: nn.Module, path: str) -> None:
        """Name a module and all in it.

        What is shared keeps its first name, as in named_modules; what ran alone before it was known to be a part, as
        the parts do of a model whose `forward` was called and not the model, has the name that it has in the whole.
        """
        waiting = [(module, path, False)]
        named: set[int] = set()
        while waiting:
            held, name, anew = waiting.pop()
            anew = anew or id(held) in self._alone
            if id(held) in named or (id(held) in self._paths and not anew):
                continue
            named.add(id(held))
            self._alone.discard(id(held))
            self._paths[id(held)] = name
            own = {
                id(parameter): f"{name}.{key}" for key, parameter in held._parameters.items() if parameter is not None
            }
            for number, text in own.items():
                if anew or number not in self._parameters:
                    self._parameters[number] = text
            self._alive[id(held)] = weakref.ref(held, self._forget(id(held), own))
            children = [(key, child) for key, child in held._modules.items() if child is not None]
            for key, child in reversed(children):
                waiting.append((child, name if _is_wrapped(held, key) else f"{name}.{key}", anew))

    def _forget(self, key: int, parameters: Iterable[int]) -> Any:
        def forget(_: object) -> None:
            self._paths.pop(key, None)
            self._alive.pop(key, None)
            self._alone.discard(key)
            for parameter in parameters:
                self._parameters.pop(parameter, None)

        return forget


def _is_wrapped(parent: nn.Module, key: str) -> bool:
    """Whether a child is what its parent wraps: one child alone, under one of the names that wrappers use."""
    return key in _WRAPPED or (key == "module" and len(parent._modules) == 1 and not parent._parameters)


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the module that wrappers represent."""
    while True:
        inner = next(
            (child for key, child in module._modules.items() if child is not None and _is_wrapped(module, key)), None
        )
        if inner is None:
            return module
        module = inner
