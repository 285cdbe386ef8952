"""What every mode of ours that looks at operators one by one has in common.

It takes higher-order operators, such as torch.cond, and keeps compiled parts of the program from being compiled: torch
does so by itself below a mode, but ends the program where they are compiled with `fullgraph=True`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from torchferry.core.ownwork import OwnWork
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.other_ways import OTHER_WAYS, SeeingMode

# Whether the program captures a graph of the device's: then nothing is computed, and nobody may wait for it.


def capturing() -> bool:
    """Whether what the program calls now goes into a graph. To be asked once a step or call of a model."""
    try:
        kind = torch_versions.accelerator()
        asks = _question(kind) if kind != "cpu" else None
        return asks is not None and asks()
    except (AttributeError, RuntimeError):  # no device that could, or none that is ready
        return False


@lru_cache
def _question(kind: str) -> Callable[[], bool] | None:
    """Return a device's own question, or None where it captures no graphs."""
    module = torch_versions.device_module(kind)
    asks = getattr(module, "is_current_stream_capturing", None)
    if asks is None:
        return None
    begun = getattr(module, "is_initialized", None)
    return lambda: (begun is None or bool(begun())) and bool(asks())


# Tensors that dispatch by themselves, in a call that a mode of ours sees first.

_OF_MODES = frozenset({"FakeTensor", "FunctionalTensor"})
"""Subclasses that leave a call to the mode of theirs, which lies below us if it is there at all."""

_PLAIN = Tensor.__torch_dispatch__


def is_plain(kind: type) -> bool:
    """Whether a type of tensor leaves dispatch to torch, as Parameter does."""
    return kind.__torch_dispatch__ is _PLAIN  # type: ignore[attr-defined]


def of_modes(types: Iterable[type]) -> bool:
    """Whether a call is to go on below us unseen: its tensors hold no values."""
    return any(kind.__name__ in _OF_MODES for kind in types)


def unwrap_themselves(types: Iterable[type]) -> bool:
    """Whether a call is to be returned as NotImplemented: a tensor unwraps itself, and what it calls comes to us."""
    return not all(map(is_plain, types))


# What a tool computes for itself, unseen by its own dispatch modes and by those of the program.


P = ParamSpec("P")
R = TypeVar("R")

_of_tracing: Callable[[], int] = getattr(torch._ops, "_len_torch_dispatch_stack_pre_dispatch", lambda: 0)
"""How many modes of torch's own tracing there are, which are kept elsewhere than others."""


class WithoutDispatchModes(OwnWork):
    """Within the context no dispatch mode is active, and waits and copies count for nobody.

    torch has a context that does the first and, where nothing is traced, no more; it costs ten times as much, and the
    tools come by here many times in a step.
    """

    __slots__ = ("_modes", "_traced")

    def __enter__(self) -> None:
        super().__enter__()
        self._modes: list[Any] = []
        self._traced: Any = None
        if _of_tracing():
            self._traced = _disable_current_modes()
            self._traced.__enter__()
            return
        for _ in range(torch._C._len_torch_dispatch_stack()):
            self._modes.append(torch_versions.pop_dispatch_mode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._traced is not None:
            self._traced.__exit__(kind, error, trace)
        while self._modes:
            torch._C._push_on_torch_dispatch_stack(self._modes.pop())
        super().__exit__(kind, error, trace)


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Within the context torch.jit traces nothing, so that what a tool does is not in the program's graph.

    For hooks of modules and the like; below an operator torch cannot begin to trace again.
    """
    graph = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch._C._set_tracing_state(graph)  # type: ignore[attr-defined]


class Untracked(WithoutDispatchModes):
    """Keeps what the tool does from autograd, from the program's own modes, and from what a rehearsal counts."""

    __slots__ = ("_functions", "_grad")

    def __enter__(self) -> None:
        super().__enter__()
        self._grad = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._functions.__exit__(kind, error, trace)
        torch._C._set_grad_enabled(self._grad)
        super().__exit__(kind, error, trace)


def without_dispatch_modes(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function run with no dispatch mode active, and with its waits and copies counted for nobody."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with WithoutDispatchModes():
            return function(*args, **kwargs)

    return run


_CALLING = frozenset({"cond", "while_loop"})
"""Higher-order operators that do nothing but call what they are given."""

_MADE_OF_OTHERS = frozenset({"flex_attention", "flex_attention_backward"})
"""Higher-order operators that are Python made of operators, where they are not compiled."""


class _Branches:
    """torch.cond as Python's `if`: torch can differentiate it only as the compiler writes it."""

    _KEY = torch._C.DispatchKey.Autograd

    def __init__(self) -> None:
        self._operator: Any = None
        self._kernel: Any = None

    def open(self) -> None:
        """Run branches where torch.cond stands, unless it is being traced."""
        operator = getattr(sys.modules.get("torch._higher_order_ops.cond"), "cond_op", None)
        kernel = getattr(operator, "py_kernels", {}).get(self._KEY)
        if kernel is None or not hasattr(operator, "_dispatch_cache"):
            return  # another torch: as it does it

        def run(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
            if _traced((pred, *operands)):
                return kernel(pred, true_fn, false_fn, operands)
            return true_fn(*operands) if pred else false_fn(*operands)

        self._operator, self._kernel = operator, kernel
        self._put(run)

    def close(self) -> None:
        """Put back what was replaced."""
        if self._operator is not None:
            self._put(self._kernel)
            self._operator = self._kernel = None

    def _put(self, kernel: Any) -> None:
        self._operator.py_kernels[self._KEY] = kernel
        self._operator._dispatch_cache.clear()


def _traced(values: tuple[Any, ...]) -> bool:
    """Whether an operator is not run but written down."""
    proxy = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY)
    tensors = (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))
    return proxy is not None or torch_versions.is_compiling() or not all(is_plain(type(tensor)) for tensor in tensors)


class _Stance:
    """That nothing is compiled, as long as somebody asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = 0
        self._set: Any = None
        self._branches = _Branches()

    def ask(self) -> None:
        """Have nothing compiled. Called when torch's compiler is loaded: it is never loaded for this."""
        with self._lock:
            self._asked += 1
            if self._asked > 1:
                return
            self._branches.open()
            if hasattr(torch.compiler, "set_stance"):
                with contextlib.suppress(RuntimeError):  # in a compiled region, in a version that allows none there
                    self._set = torch.compiler.set_stance("force_eager")

    def leave(self) -> None:
        """Ask for it no more."""
        with self._lock:
            self._asked -= 1
            if self._asked:
                return
            self._branches.close()
            if self._set is not None:
                self._set.__exit__(None, None, None)
                self._set = None


_STANCE = _Stance()


class WholeMode(SeeingMode):
    """A mode that is to see every operator.

    Attributes:
        uncompiled: Whether the compiler knows of it. Before a mode sees its first call torch loads the compiler, so a
            mode calls `keep_uncompiled` then if this is false.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.uncompiled = False
        self._asks = False
        self._depth = 0

    def __enter__(self) -> Any:
        self._depth += 1
        if self._depth == 1:
            self.on_enter()
            OTHER_WAYS.ask()
            self.uncompiled = False
            if _compiler_is_loaded():
                self.keep_uncompiled()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._depth -= 1
        if self._depth:
            return
        OTHER_WAYS.leave()
        self.on_exit()
        if self._asks:
            self._asks = False
            _STANCE.leave()

    def on_enter(self) -> None:
        """Be told that the mode begins to see calls."""

    def on_exit(self) -> None:
        """Be told that it sees no more."""

    def compiler_was_loaded(self) -> None:
        """Be told that torch's compiler is there from now on."""
        if self._depth:
            self.keep_uncompiled()

    def keep_uncompiled(self) -> None:
        """Have compiled parts of the program run operator by operator from now on."""
        loaded = _compiler_is_loaded()
        # while it is being loaded it calls operators itself, and cannot be asked yet: the next call does
        self.uncompiled = loaded or _COMPILER not in sys.modules
        if not self._asks and loaded:
            # inside of a compiled region too: torch has its compiler off while a mode sees a call
            self._asks = True
            _STANCE.ask()

    def opened(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """Run a higher-order operator, so that the mode sees what it calls where that can be.

        Returns:
            What came of it, and whether the mode saw what it is made of.
        """
        name = func.name()
        tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        if (
            all(is_plain(type(tensor)) for tensor in tensors) and not torch._C._len_torch_dispatch_stack()
        ):  # a mode below us may want to see the operator itself
            if name in _CALLING:
                return func(
                    *map(self._within, args), **{key: self._within(kwarg) for key, kwarg in kwargs.items()}
                ), True
            kernel = func.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
            if name in _MADE_OF_OTHERS and kernel is not None:
                return self._within(kernel)(*args, **kwargs), True
        return func(*args, **kwargs), False

    def _within(self, value: Any) -> Any:
        """Let what is called be seen; anything else stays as it is."""
        if not callable(value) or isinstance(value, torch.Tensor):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return value(*args, **kwargs)

        return call


def is_higher_order(func: Any) -> bool:
    """Whether what a mode was called with is no operator, but one that calls others."""
    return not isinstance(func, OpOverload)


_COMPILER = "torch._dynamo"


def _compiler_is_loaded() -> bool:
    module = sys.modules.get(_COMPILER)
    return module is not None and "reset" in vars(module)  # the last that the module defines
