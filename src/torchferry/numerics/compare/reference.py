"""A call run again on the CPU: in higher precision, or in the dtype of the device."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from torchferry.core.messages import say
from torchferry.numerics.compare import tables
from torchferry.numerics.compare.decompositions import decomposition
from torchferry.numerics.compare.snapshot import Snapshot, Untestable, replaced
from torchferry.numerics.framework.operators import Operator, tensors

# The program's random numbers, while an operator of somebody else's runs again on the CPU.
#
# Operators of torch say by a tag that they draw. One that a program registers may draw and not say so: run again, it
# would take numbers that the program is still to get.

_OWN = frozenset({"aten", "prims"})
"""Namespaces whose operators say whether they draw."""


@cache
def is_foreign(operator: Operator) -> bool:
    """Whether the reference runs code of which nothing is known: neither torch's nor a description of ours."""
    return operator.space not in _OWN and decomposition(operator) is None


def run(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator on the CPU, as a description of ours says where there is one.

    Raises:
        Untestable: it moved a generator of the program's, which is put back.
        Exception: whatever the operator raises.
    """
    instead = decomposition(operator)
    function = operator.overload if instead is None else instead
    if not is_foreign(operator):
        return function(*args, **kwargs)
    with kept():
        return function(*args, **kwargs)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put the generators of the CPU back as they were.

    Raises:
        Untestable: one was moved.
    """
    numpy: Any = sys.modules.get("numpy.random")
    before = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.get_state()
    try:
        yield
    finally:
        moved = not torch.equal(torch.get_rng_state(), before[0]) or random.getstate() != before[1]
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy is not None:
            moved |= not _same(numpy.get_state(), before[2])
            numpy.set_state(before[2])
    if moved:
        raise Untestable(say("it draws random numbers without declaring it"))


def _same(state: Any, other: Any) -> bool:
    return all(
        bool((its_own == its).all()) if hasattr(its_own, "all") else its_own == its
        for its_own, its in zip(state, other, strict=True)
    )


_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
EIGHT_BITS = frozenset(
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None)) is not None
)


class CpuReference:
    """Runs one call on the CPU, in the dtypes that are asked for.

    Communication, and what draws random numbers, must not come here: running it again would change the program. What
    draws without saying so is found out here, and the program's generators stay as they were.
    """

    def __init__(self, operator: Operator, snapshot: Snapshot) -> None:
        self._operator = operator
        self._snapshot = snapshot
        self.args: tuple[Any, ...] = ()
        """Arguments of the last run; those that it writes to are as they were written."""
        self.kwargs: dict[str, Any] = {}
        self.change: Callable[[Tensor], Tensor] | None = None
        """What is done to the copied values first."""

    def same(self) -> list[Tensor]:
        """Return the results in the dtypes of the device.

        Raises:
            Untestable: the CPU has no kernel for it.
        """
        return self._run(lambda dtype: dtype, None)

    def wide(self, results: list[torch.dtype]) -> tuple[list[Tensor], torch.dtype]:
        """Return the results in higher precision than any dtype of the call, and the precision.

        Args:
            results: Dtypes of the device's results.

        Raises:
            Untestable: the CPU has no kernel for it.
        """
        dtypes = {*self._snapshot.dtypes(), *results}
        half = not dtypes & {torch.float32, torch.float64, torch.complex64, torch.complex128}
        choices = (torch.float32, torch.float64) if half else (torch.float64, torch.float32)
        refused: Untestable | None = None
        for choice in choices:
            if choice is torch.float32 and torch.float64 in dtypes:
                continue
            try:
                return self._run(widening(choice), choice), choice
            except Untestable as error:
                refused = refused or error
        assert refused is not None
        raise refused

    def _run(self, widen: Callable[[torch.dtype], torch.dtype], wide: torch.dtype | None) -> list[Tensor]:
        operator = self._operator
        if tables.is_opaque(operator):
            raise Untestable(say("it keeps a workspace in a form that only the device's own kernel reads"))
        args, kwargs = self.arguments(widen, fresh=bool(operator.written))
        if wide is not None:
            args, kwargs = tables.widened(operator, args, kwargs)
        self.args, self.kwargs = args, kwargs
        try:
            out = run(operator, args, kwargs)
        except Untestable:
            raise
        except Exception as error:
            first = str(error).strip().partition("\n")[0][:200]
            raise Untestable(say("the CPU cannot run it: {error}", error=first or type(error).__name__)) from None
        return list(operator.results(args, kwargs, out))

    def arguments(
        self, widen: Callable[[torch.dtype], torch.dtype], fresh: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments on the CPU, of the dtypes that `widen` says."""
        apart = fresh and not tables.is_elementwise_list(self._operator)
        args, kwargs = self._snapshot.build(widen, fresh, self.change, apart)
        return adapted(self._operator, args, kwargs, widen)


def widening(wide: torch.dtype) -> Callable[[torch.dtype], torch.dtype]:
    """Return what dtypes become in a precision: those that are not floating stay."""

    def widen(dtype: torch.dtype) -> torch.dtype:
        if dtype.is_complex:
            return _COMPLEX[wide]
        return wide if dtype.is_floating_point else dtype

    return widen


def adapted(
    operator: Operator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    widen: Callable[[torch.dtype], torch.dtype],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments that name the CPU and the dtypes of the run."""

    def adapt(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return widen(value)
        return torch.device("cpu")

    kind = (torch.dtype, torch.device)
    args = tuple([value if _is_of_tensors(value) else replaced(value, kind, adapt) for value in args])
    kwargs = {key: replaced(value, kind, adapt) for key, value in kwargs.items()}
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    if _takes_device(operator) and kwargs.get("device") is None:
        if not any(_has_tensor(value) for value in (*args, *kwargs.values())):
            kwargs["device"] = torch.device("cpu")  # a factory, where the program has another default device
    if "dtype" in kwargs and kwargs["dtype"] is None:
        del kwargs["dtype"]
    return args, kwargs


@cache
def _takes_device(operator: Operator) -> bool:
    return any(item.name == "device" for item in operator.overload._schema.arguments)


def _is_of_tensors(value: Any) -> bool:
    """Whether an argument is a tensor, or a list of tensors: there is no dtype or device in it."""
    return isinstance(value, Tensor) or (isinstance(value, list) and bool(value) and isinstance(value[0], Tensor))


def _has_tensor(value: Any) -> bool:
    return next(tensors(value), None) is not None
