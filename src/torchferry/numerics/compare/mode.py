"""The dispatch mode: lets every call pass, and takes copies around those that are to be compared."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare import tables
from torchferry.numerics.compare.blocks import Parts, applies
from torchferry.numerics.compare.call import ComparedCall, DeviceResult
from torchferry.numerics.compare.sampling import Kindred, key_of
from torchferry.numerics.compare.shadow_run import Golden
from torchferry.numerics.compare.snapshot import SPARSE, Crossing, Fetched, Snapshot, Untestable, check, take, too_large
from torchferry.numerics.framework.attribution import Attribution, Where
from torchferry.numerics.framework.dispatch import (
    WholeMode,
    WithoutDispatchModes,
    capturing,
    is_higher_order,
    is_plain,
    of_modes,
    unwrap_themselves,
)
from torchferry.numerics.framework.kinds import Kind
from torchferry.numerics.framework.operators import Operator, argument, tensors

ON_CPU = "on the CPU"
META = "no values (meta or fake tensors)"
BETWEEN = "copy to the CPU"
NOT_ASKED = "left out on request"
CAPTURED = "into a captured graph, whose runs are not seen"

_LEFT = {
    Kind.VIEW: "view",
    Kind.ALLOCATE: "allocation",
    Kind.COMMUNICATE: "communication",
    Kind.BOOKKEEP: "bookkeeping",
}
"""Kinds of operators that are never compared, as reports call them."""


class Plan:
    """What is done with calls of one operator.

    Attributes:
        operator: The operator.
        left: Why its calls are not compared; empty where they are.
        calls: How many calls were not compared for it.
        kindred: Its calls by shapes and dtypes.
        lists: Whether it works element by element on lists of tensors.
    """

    __slots__ = ("calls", "kindred", "left", "lists", "operator")

    def __init__(self, known: Operator, asked: bool) -> None:
        self.operator = known
        self.left = _LEFT.get(known.kind, "") or ("" if asked else NOT_ASKED)
        self.calls = 0
        self.kindred: dict[tuple[Any, ...], Kindred] = {}
        self.lists = tables.is_elementwise_list(known)


class Comparison(Protocol):
    """What the mode asks of the comparison that it works for.

    Attributes:
        off: Whether nothing is done any more.
        verbose: Whether each call that begins is said.
        golden: The run in higher precision beside the program, or None.
        attribution: Where calls belong.
    """

    off: bool
    verbose: bool
    golden: Golden | None
    attribution: Attribution

    def plan(self, overload: Any) -> Plan:
        """Return what is done with an operator."""

    def told(self, plan: Plan, where: Where) -> None:
        """Say of a call that begins what is done with it."""

    def where(self, known: Operator) -> Where:
        """Return where the call belongs that is being dispatched."""

    def kindred(self, plan: Plan, key: tuple[Any, ...]) -> Kindred | None:
        """Return the call's kind if it is to be compared, else None."""

    def untested(self, plan: Plan, kindred: Kindred, where: Where, reason: Message) -> None:
        """Note a call that could not be copied."""

    def taken(self, plan: Plan, kindred: Kindred, call: ComparedCall, seconds: float) -> None:
        """Hand in a call for its verdict."""


class CompareMode(WholeMode):
    """Sees every call below autograd."""

    def __init__(self, owner: Comparison, limit: int) -> None:
        super().__init__()
        self._owner = owner
        self._plans: dict[Any, Plan] = {}
        self._higher_order: dict[Any, Plan] = {}
        self._captures = False
        """Whether the program captures a graph: asked when an outermost module begins."""
        self._limit = limit
        self.device = ""
        """The first device that is not the CPU; from then on calls on the CPU are not compared."""
        self._last: tuple[Kindred, ComparedCall, float] | None = None
        """The call that the golden run is to follow next."""
        self.passed = {ON_CPU: 0, META: 0, BETWEEN: 0, CAPTURED: 0, _LEFT[Kind.VIEW]: 0}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if types and unwrap_themselves(types):
            return func(*args, **(kwargs or {})) if of_modes(types) else NotImplemented
        owner = self._owner
        if owner.off:
            return func(*args, **kwargs) if kwargs else func(*args)
        if self._captures:  # nothing is computed now, and nobody may wait for the device
            self.passed[CAPTURED] += 1
            return func(*args, **kwargs) if kwargs else func(*args)
        plan = self._plans.get(func)
        if plan is None:
            if not self.uncompiled:
                self.keep_uncompiled()
            if is_higher_order(func):
                return self._higher(func, args, kwargs or {})
            plan = self._plans[func] = owner.plan(func)
        where = owner.where(plan.operator)
        if owner.verbose:
            owner.told(plan, where)
        if owner.golden is not None:
            return self._beside_golden(plan, where, func, args, kwargs or {})
        if plan.left:
            plan.calls += 1
            return func(*args, **kwargs) if kwargs else func(*args)
        return self._computed(plan, where, func, args, kwargs or {})

    def entered(self) -> None:
        """Ask at each outermost module whether what it calls is computed or captured."""
        self._owner.attribution.modules.on_root.append(self._ask)

    def left(self) -> None:
        """Ask no more."""
        self._owner.attribution.modules.on_root.remove(self._ask)
        self._captures = False

    def _ask(self, *_: Any) -> None:
        self._captures = capturing()

    def _higher(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that calls others: what it calls is compared, and where that is not seen, it is said."""
        out, seen = self.opened(func, args, kwargs)
        if not seen:
            plan = self._higher_order.get(func)
            if plan is None:
                plan = self._higher_order[func] = self._owner.plan(func)
            kindred = None if plan.left else self._owner.kindred(plan, ())
            if kindred is not None:
                reason = say("what a higher-order operator calls is not seen here")
                self._owner.untested(plan, kindred, self._owner.where(plan.operator), reason)
        return out

    def plans(self) -> list[Plan]:
        """Return what is known of the operators that were called."""
        return list(self._plans.values())

    def _beside_golden(self, plan: Plan, where: Where, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call, compare it if it is to be, and let the golden run follow."""
        golden = self._owner.golden
        assert golden is not None
        self._last = None
        with Calm():
            prepared = golden.before(plan.operator, args, kwargs)
        if plan.left:
            plan.calls += 1
            out = func(*args, **kwargs)
        else:
            out = self._computed(plan, where, func, args, kwargs)
        with Calm():
            drift = golden.after(plan.operator, prepared, args, kwargs, out)
        last: tuple[Kindred, ComparedCall, float] | None = self._last
        if last is not None:
            kindred, call, seconds = last
            call.drift = drift
            self._owner.taken(plan, kindred, call, seconds)
        return out

    def _computed(self, plan: Plan, where: Where, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            key, tensor = key_of(args, kwargs)
        except RuntimeError:  # nested tensors have no sizes
            key, tensor = (), None
        device = kwargs.get("device") if tensor is None else None
        if tensor is not None:
            if tensor.is_cpu:
                passed = ON_CPU if self.device else ""
            else:
                passed = META if tensor.is_meta else ""
        else:
            passed = META if device is not None and device.type == "meta" else ""
        kindred = None if passed else self._owner.kindred(plan, key)
        if passed:
            self.passed[passed] += 1
        if kindred is None:
            return func(*args, **kwargs)
        return self._compared(plan, kindred, where, func, args, kwargs)

    def _compared(
        self, plan: Plan, kindred: Kindred, where: Where, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        owner = self._owner
        begin = time.perf_counter()
        parts: Parts | None = None
        snapshot = None
        crossing = Crossing()
        reason: Message | None = None
        try:
            with Calm():
                if plan.lists and applies(plan.operator, args):
                    # the first is compared whole where it has room: what is written to is there twice
                    room = 0 if kindred.taken else self._limit // 2
                    parts = Parts(args, kwargs, kindred.taken, room, kindred.brief and kindred.taken > 0)
                    given = tuple(parts.cut(value) for value in args), {k: parts.cut(v) for k, v in kwargs.items()}
                    snapshot = take(*given, self._limit, crossing)
                else:
                    snapshot = take(args, kwargs, self._limit, crossing)
        except Untestable as error:
            reason = error.reason
        except Exception as error:
            reason = _broken(error)
        before = time.perf_counter() - begin
        out = func(*args, **kwargs)
        if snapshot is None:
            assert reason is not None
            owner.untested(plan, kindred, where, reason)
            return out
        begin = time.perf_counter()
        try:
            with Calm():
                call = self._call(plan, where, snapshot, crossing, args, kwargs, out, parts)
        except Untestable as error:
            owner.untested(plan, kindred, where, error.reason)
            return out
        except Exception as error:
            owner.untested(plan, kindred, where, _broken(error))
            return out
        if call is not None:
            seconds = before + time.perf_counter() - begin
            if owner.golden is None:
                owner.taken(plan, kindred, call, seconds)
            else:
                self._last = kindred, call, seconds
        return out

    def _call(
        self,
        plan: Plan,
        where: Where,
        snapshot: Snapshot,
        crossing: Crossing,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        parts: Parts | None,
    ) -> ComparedCall | None:
        known = plan.operator
        whole, shape = 0, None
        if parts is not None:
            if not parts.whole:
                uncut = list(known.results(args, kwargs, out))
                whole, shape = sum(map(Tensor.numel, uncut)), max(uncut, key=Tensor.dim).shape
            args = tuple(parts.cut(value) for value in args)
            kwargs = {key: parts.cut(value) for key, value in kwargs.items()}
            out = parts.cut(out)
        made = list(known.results(args, kwargs, out))
        if known.is_view(args, made):
            self.passed[_LEFT[Kind.VIEW]] += 1
            return None
        written = sum(1 for place in known.written for _ in tensors(argument(place, args, kwargs, None)))
        if made and (made[0].is_meta or not is_plain(type(made[0]))):
            self.passed[META] += 1
            return None
        device = next((one.device for one in made if not one.is_cpu), made[0].device if made else torch.device("cpu"))
        if device.type == "cpu":
            if any(not one.is_cpu for value in (*args, *kwargs.values()) for one in tensors(value)):
                self.passed[BETWEEN] += 1  # it may still be under way, and it is how values are compared
                return None
            if self.device:
                self.passed[ON_CPU] += 1
                return None
        elif not self.device:
            self.device = str(device)
        size = snapshot.size + sum(one.numel() * one.element_size() for one in made)
        if size > self._limit:
            raise Untestable(too_large(size, self._limit))
        results = [_result(one, crossing) for one in made]
        crossing.go()
        crossing.left()
        return ComparedCall(
            number=0,
            operator=known,
            where=where,
            step=0,
            device=str(device),
            snapshot=snapshot,
            results=results,
            note=None if parts is None or parts.whole else say("the first, the last and a moving block of each tensor"),
            owners=None if parts is None else parts.owners(),
            whole=whole,
            written=written,
            size=size,
            shape=tuple(shape) if shape is not None else results[0].shape if results else (),
            dtype=str(results[0].dtype).removeprefix("torch.") if results else "",
        )


def _result(tensor: Tensor, crossing: Crossing) -> DeviceResult:
    if tensor.layout in SPARSE:
        values = Fetched(tensor.detach().to("cpu", copy=True))
        return DeviceResult(values, tuple(tensor.shape), (), tensor.dtype)
    check(tensor)
    return DeviceResult(crossing.add(tensor.detach()), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _broken(error: Exception) -> Message:
    first = str(error).strip().partition("\n")[0][:200]
    return say("its tensors cannot be copied: {error}", error=first or type(error).__name__)


class Calm(WithoutDispatchModes):
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
