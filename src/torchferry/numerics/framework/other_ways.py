"""Functions of torch that take another way where a dispatch mode is active, and are called without ours.

torch's C++ asks in some places whether a dispatch mode is active (`isTensorSubclassLike` and its like in
`ATen/TensorSubclassLikeUtils.h`), and then calls other operators: `ctc_loss` with lengths on the CPU, for instance, an
operator that wants them on the device. What is observed would be another program than what is not. In most of these
places both ways give the same numbers: one writes to a new tensor what the other writes in place. The functions here
are those where they do not, in the operators that torch's own samples call (`torch.testing`, on the CPU, torch 2.13).
The call is known before, it is made without our modes, and each of these is told what it could not see.

The autograd formulas of `prod` do the same in backward: hooks of the node keep our modes away from it.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from torchferry.numerics.framework import torch_versions

Question = Callable[[tuple[Any, ...], dict[str, Any]], bool]


class SeeingMode(TorchDispatchMode):
    """A dispatch mode of ours: calls that would take another way because of it are made without it.

    Attributes:
        without_values: Whether tensors have no values: such a call is then made with it, as it could not end else.
    """

    without_values = False

    def not_seen(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Be told of a call that was made without this mode, and of what it gave. No mode is active.

        Args:
            overload: The operator that was called; what it called is not known.
            args: What it was given.
            kwargs: What it was given by name.
            out: What came of it.
        """


class OtherWay(NamedTuple):
    """A function that takes another way below a dispatch mode.

    Attributes:
        places: Where programs find it: `torch.linalg.svdvals`.
        operator: The operator that it calls: `linalg_svdvals.default`.
        takes_it: Whether a call would, by its arguments.
    """

    places: tuple[str, ...]
    operator: str
    takes_it: Question


def _argument(number: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[number] if number < len(args) else kwargs.get(name)


def _has_tensor_lengths(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return isinstance(_argument(2, "input_lengths", args, kwargs), Tensor)


def _needs_no_gradient(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether vectors are left out: below a mode they are computed, as for a gradient."""
    given = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
    return given is not None and not (given.requires_grad and torch.is_grad_enabled())


def _is_nuclear(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    order = _argument(1, "p" if "p" in kwargs else "ord", args, kwargs)
    return order in ("nuc", 2, -2) and _needs_no_gradient(args, kwargs)


def _repeats_one(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether one of two batches of matrices is a single one, that is multiplied with all of the other."""
    one = _argument(0, "input" if "input" in kwargs else "self", args, kwargs)
    two = _argument(1, "tensor2" if "tensor2" in kwargs else "other", args, kwargs)
    if not (isinstance(one, Tensor) and isinstance(two, Tensor) and one.dim() == two.dim() == 3):
        return False
    first, second = one.shape[0], two.shape[0]
    if first == second:
        return False
    return (first == 1 and not one.requires_grad) or (second == 1 and not two.requires_grad)


_FUNCTIONS = (
    OtherWay(("torch.ctc_loss",), "ctc_loss.Tensor", _has_tensor_lengths),
    OtherWay(
        ("torch.matmul", "torch.linalg.matmul", "torch.Tensor.matmul", "torch.Tensor.__matmul__"),
        "matmul.default",
        _repeats_one,
    ),
    OtherWay(("torch.linalg.svdvals",), "linalg_svdvals.default", _needs_no_gradient),
    OtherWay(("torch.linalg.eigvals",), "linalg_eigvals.default", _needs_no_gradient),
    OtherWay(("torch.linalg.eigvalsh",), "linalg_eigvalsh.default", _needs_no_gradient),
    OtherWay(("torch.linalg.cond",), "linalg_cond.default", _needs_no_gradient),
    OtherWay(("torch.linalg.matrix_norm",), "linalg_matrix_norm.default", _is_nuclear),
    OtherWay(("torch.linalg.norm",), "linalg_norm.default", _is_nuclear),
    OtherWay(("torch.norm", "torch.functional.norm"), "norm.Scalar", _is_nuclear),
    OtherWay(("torch.nuclear_norm",), "nuclear_norm.default", _needs_no_gradient),
)

_PRODUCTS = ("torch.prod", "torch.Tensor.prod")
"""Functions whose backward takes another way."""


class WithoutOurs:
    """Within the context no mode of ours is active in this thread; those of the program are."""

    __slots__ = ("_put_back", "left_out")

    def __enter__(self) -> WithoutOurs:
        taken = [torch_versions.pop_dispatch_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
        self._put_back = taken[::-1]
        self.left_out = [mode for mode in self._put_back if isinstance(mode, SeeingMode)]
        for mode in self._put_back:
            if not isinstance(mode, SeeingMode):
                torch._C._push_on_torch_dispatch_stack(mode)
        return self

    def __exit__(self, *exception: object) -> None:
        for _ in range(len(self._put_back) - len(self.left_out)):
            torch_versions.pop_dispatch_mode()
        for mode in self._put_back:
            torch._C._push_on_torch_dispatch_stack(mode)


def _are_active() -> bool:
    """Whether a mode of ours is active in this thread, and sees calls."""
    count = torch._C._len_torch_dispatch_stack()
    return any(isinstance(torch._C._get_dispatch_stack_at(place), SeeingMode) for place in range(count))


class OtherWays:
    """Has the functions called without the modes of ours, as long as somebody asks for it. Threads share it."""

    _own: ClassVar[threading.local] = threading.local()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = 0
        self._replaced: list[tuple[Any, str, Any, Any, bool]] = []

    def ask(self) -> None:
        """Have them called so from now on."""
        with self._lock:
            self._asked += 1
            if self._asked > 1:
                return
            for way in _FUNCTIONS:
                overload = _overload(way.operator)
                for place in way.places if overload is not None else ():
                    self._replace(place, functools.partial(_called, way.takes_it, overload))
            for place in _PRODUCTS:
                self._replace(place, _multiplied)

    def leave(self) -> None:
        """Ask for it no more."""
        with self._lock:
            self._asked -= 1
            if self._asked:
                return
            for holder, name, function, original, inherited in reversed(self._replaced):
                _unknown_to_scripts(function)
                if getattr(holder, name, None) is not function:
                    continue  # somebody put another one over it, which may call it
                if inherited:
                    delattr(holder, name)
                else:
                    setattr(holder, name, original)
            self._replaced = []

    def _replace(self, place: str, by: Callable[..., Any]) -> None:
        path, _, name = place.rpartition(".")
        holder: Any = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
        original = getattr(holder, name, None)
        if original is None:
            return  # an older torch

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            return by(original, args, kwargs)

        self._replaced.append((holder, name, function, original, name not in vars(holder)))
        _known_to_scripts(function, original)
        setattr(holder, name, function)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload, None)


def _called(
    takes_it: Question, overload: Any, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if not (takes_it(args, kwargs) and _are_active()):
        return original(*args, **kwargs)
    with WithoutOurs() as without:
        is_blind = any(mode.without_values for mode in without.left_out)
        out = None if is_blind else original(*args, **kwargs)
    if is_blind:
        return original(*_on_one_device(args), **kwargs)
    _tell(without.left_out, overload, args, kwargs, out)
    return out


def _on_one_device(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with their tensors where the first is: what the other way wants, without values to move."""
    first = next((each for each in args if isinstance(each, Tensor)), None)
    if first is None:
        return args
    return tuple(each.to(first.device) if isinstance(each, Tensor) else each for each in args)


def _tell(ours: list[SeeingMode], overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Tell modes of a call that they did not see, while none is active."""
    active = [torch_versions.pop_dispatch_mode() for _ in range(torch._C._len_torch_dispatch_stack())]
    try:
        for mode in ours:
            mode.not_seen(overload, args, kwargs, out)
    finally:
        for mode in reversed(active):
            torch._C._push_on_torch_dispatch_stack(mode)


def _multiplied(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    out = original(*args, **kwargs)
    node = out.grad_fn if isinstance(out, Tensor) else None
    if node is not None and _are_active() and "Prod" in node.name():
        of_thread = OtherWays._own

        def before(gradients: Any) -> None:
            of_thread.without = WithoutOurs().__enter__()

        def after(inputs: Any, outputs: Any) -> None:
            without = of_thread.without
            without.__exit__(None, None, None)
            _tell(without.left_out, torch.ops.aten.prod.default, (), {}, None)

        node.register_prehook(before)
        node.register_hook(after)
    return out


def _known_to_scripts(function: Any, original: Any) -> None:
    """Let torch.jit take a function for the operator that it represents."""
    builtins = importlib.import_module("torch.jit._builtins")
    name = builtins._find_builtin(original)
    if name is not None:
        builtins._register_builtin(function, name)


def _unknown_to_scripts(function: Any) -> None:
    importlib.import_module("torch.jit._builtins")._get_builtin_table().pop(id(function), None)


OTHER_WAYS = OtherWays()
