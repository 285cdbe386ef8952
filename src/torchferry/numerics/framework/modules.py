"""Which module runs, by hooks that torch has for all modules: no model is changed, and every model is seen.

A module's path is its place in the outermost module that was called, without the wrappers that change with the
number of ranks: `GPT.blocks.0.mlp`, also under DistributedDataParallel, FSDP, checkpoint_wrapper and torch.compile.
Paths are made once for each module, so a call costs the same at any depth.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_WRAPPED = frozenset({"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"})
"""Attributes under which torch's wrappers keep the module that they stand for."""


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
        self._handles: list[Any] = []
        self.on_root: list[Any] = []
        """Called with each outermost module and its arguments, before it runs."""
        self.on_root_left: list[Any] = []
        """Called with each outermost module, its arguments and its result, which is None when it raised."""

    def start(self) -> None:
        """Begin to follow modules."""
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        """Follow no more; what was named stays named."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
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
        if torch.compiler.is_dynamo_compiling():
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
        if torch.compiler.is_dynamo_compiling():
            return
        paths = self._running.paths
        if paths:
            paths.pop()
            self._running.modules.pop()
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
    """Return the module that wrappers stand for."""
    while True:
        inner = next(
            (child for key, child in module._modules.items() if child is not None and _is_wrapped(module, key)), None
        )
        if inner is None:
            return module
        module = inner
