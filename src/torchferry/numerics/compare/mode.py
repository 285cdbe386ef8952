"""The dispatch mode: lets every call pass, and takes copies around those that are to be compared."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch
from torch import Tensor

from torchferry.core.messages import Message, say
from torchferry.numerics.compare import tolerances
from torchferry.numerics.compare.sampling import CallSignature, ForeachBlocks, Sampler, applies, key_of
from torchferry.numerics.compare.shadow_run import ShadowRun
from torchferry.numerics.compare.snapshot import (
    SPARSE,
    ComparedCall,
    Crossing,
    DeviceResult,
    Fetched,
    Snapshot,
    Untestable,
    check,
    take,
    too_large,
)
from torchferry.numerics.framework.attribution import Attribution, Where
from torchferry.numerics.framework.dispatch import (
    Untracked,
    WholeMode,
    capturing,
    is_higher_order,
    is_plain,
    of_modes,
    unwrap_themselves,
)
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import Operator, argument, tensors

ON_CPU = "on the CPU"
META = "no values (meta or fake tensors)"
BETWEEN = "copy to the CPU"
NOT_ASKED = "left out on request"
CAPTURED = "into a captured graph, whose runs are not seen"

_WHOLE = 16
"""What part of the memory for copies the lists of an operator may take that is compared whole: its reference is in
float64, and so are the differences."""

_NEVER_COMPARED = {
    OpKind.VIEW: "view",
    OpKind.ALLOCATE: "allocation",
    OpKind.COMMUNICATE: "communication",
    OpKind.BOOKKEEP: "bookkeeping",
}
"""Kinds of operators that are never compared, as reports call them."""


class OpPolicy:
    """What is done with calls of one operator.

    Attributes:
        operator: The operator.
        skip_reason: Why its calls are not compared; empty where they are.
        calls: How many calls were not compared for it.
        signatures: Its calls by shapes and dtypes.
        lists: Whether it works element by element on lists of tensors.
    """

    __slots__ = ("calls", "lists", "operator", "signatures", "skip_reason")

    def __init__(self, op: Operator, asked: bool) -> None:
        self.operator = op
        self.skip_reason = _NEVER_COMPARED.get(op.kind, "") or ("" if asked else NOT_ASKED)
        self.calls = 0
        self.signatures: dict[tuple[Any, ...], CallSignature] = {}
        self.lists = tolerances.is_elementwise_list(op)


class ModeOwner(Protocol):
    """What the mode asks of the comparison that it works for.

    Attributes:
        off: Whether nothing is done any more.
        verbose: Whether each call that begins is said.
        shadow: The run in higher precision beside the program, or None.
        attribution: Where calls belong.
        sampler: Which calls are compared.
    """

    off: bool
    verbose: bool
    shadow: ShadowRun | None
    attribution: Attribution
    sampler: Sampler

    def policy(self, overload: Any) -> OpPolicy:
        """Return what is done with an operator."""

    def log_begin(self, policy: OpPolicy, where: Where) -> None:
        """Say of a call that begins what is done with it."""

    def untested(self, policy: OpPolicy, signature: CallSignature, where: Where, reason: Message) -> None:
        """Note a call that could not be copied."""

    def taken(self, policy: OpPolicy, signature: CallSignature, call: ComparedCall, seconds: float) -> None:
        """Hand in a call for its verdict."""


class CompareMode(WholeMode):
    """Sees every call below autograd."""

    def __init__(self, owner: ModeOwner, limit: int) -> None:
        super().__init__()
        self._owner = owner
        self._policies: dict[Any, OpPolicy] = {}
        self._higher_order: dict[Any, OpPolicy] = {}
        self._captures = False
        """Whether the program captures a graph: asked when an outermost module begins."""
        self._limit = limit
        self.device = ""
        """The first device that is not the CPU; from then on calls on the CPU are not compared."""
        self._last: tuple[CallSignature, ComparedCall, float] | None = None
        """The call that the golden run is to follow next."""
        self.passed = {ON_CPU: 0, META: 0, BETWEEN: 0, CAPTURED: 0, _NEVER_COMPARED[OpKind.VIEW]: 0}

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
        policy = self._policies.get(func)
        if policy is None:
            if not self.uncompiled:
                self.keep_uncompiled()
            if is_higher_order(func):
                return self._higher(func, args, kwargs or {})
            policy = self._policies[func] = owner.policy(func)
        where = owner.attribution.where(policy.operator)
        if owner.verbose:
            owner.log_begin(policy, where)
        if owner.shadow is not None:
            return self._with_shadow(policy, where, func, args, kwargs or {})
        if policy.skip_reason:
            policy.calls += 1
            return func(*args, **kwargs) if kwargs else func(*args)
        return self._computed(policy, where, func, args, kwargs or {})

    def on_enter(self) -> None:
        """Ask at each outermost module whether what it calls is computed or captured."""
        self._owner.attribution.modules.on_root.append(self._ask)

    def on_exit(self) -> None:
        """Ask no more."""
        self._owner.attribution.modules.on_root.remove(self._ask)
        self._captures = False

    def _ask(self, *_: Any) -> None:
        self._captures = capturing()

    def _higher(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that calls others: what it calls is compared, and where that is not seen, it is said."""
        out, seen = self.opened(func, args, kwargs)
        if not seen:
            policy = self._higher_order.get(func)
            if policy is None:
                policy = self._higher_order[func] = self._owner.policy(func)
            signature = None if policy.skip_reason else self._owner.sampler.chosen(policy.signatures, ())
            if signature is not None:
                reason = say("the operators that this higher-order operator calls are not visible")
                self._owner.untested(policy, signature, self._owner.attribution.where(policy.operator), reason)
        return out

    def not_seen(self, overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Say of a call that was made without this mode that it was not compared."""
        policy = self._policies.get(overload)
        if policy is None:
            policy = self._policies[overload] = self._owner.policy(overload)
        where = self._owner.attribution.where(policy.operator)
        signature = self._owner.sampler.chosen(policy.signatures, ())
        if signature is not None and not policy.skip_reason and not self._owner.off:
            reason = say("below a tool torch would compute it by other operators, so it was not observed")
            self._owner.untested(policy, signature, where, reason)

    def policies(self) -> list[OpPolicy]:
        """Return the known facts about the operators that were called."""
        return list(self._policies.values())

    def _with_shadow(
        self, policy: OpPolicy, where: Where, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a call, compare it if it is to be, and let the golden run follow."""
        shadow = self._owner.shadow
        assert shadow is not None
        self._last = None
        with Untracked():
            prepared = shadow.before(policy.operator, args, kwargs)
        if policy.skip_reason:
            policy.calls += 1
            out = func(*args, **kwargs)
        else:
            out = self._computed(policy, where, func, args, kwargs)
        with Untracked():
            drift = shadow.after(policy.operator, prepared, args, kwargs, out)
        last: tuple[CallSignature, ComparedCall, float] | None = self._last
        if last is not None:
            signature, call, seconds = last
            call.drift = drift
            self._owner.taken(policy, signature, call, seconds)
        return out

    def _computed(
        self, policy: OpPolicy, where: Where, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        try:
            key, tensor = key_of(args, kwargs)
        except RuntimeError:  # nested tensors have no sizes
            key, tensor = (), None
        device = kwargs.get("device") if tensor is None else None
        if tensor is not None:
            if tensor.is_cpu:
                passed = ON_CPU if self.device else ""
                key = (ON_CPU, *key)  # what ran before the device was used is no sample of the device's calls
            else:
                passed = META if tensor.is_meta else ""
        else:
            passed = META if device is not None and device.type == "meta" else ""
        signature = None if passed else self._owner.sampler.chosen(policy.signatures, key)
        if passed:
            self.passed[passed] += 1
        if signature is None:
            return func(*args, **kwargs)
        return self._compared(policy, signature, where, func, args, kwargs)

    def _compared(
        self,
        policy: OpPolicy,
        signature: CallSignature,
        where: Where,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        owner = self._owner
        begin = time.perf_counter()
        parts: ForeachBlocks | None = None
        snapshot = None
        crossing = Crossing()
        reason: Message | None = None
        try:
            with Untracked():
                if policy.lists and applies(policy.operator, args):
                    # the first is compared whole where it has room: what is written to is there twice
                    room = 0 if signature.taken else self._limit // _WHOLE
                    parts = ForeachBlocks(args, kwargs, signature.taken, room, signature.brief and signature.taken > 0)
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
            owner.untested(policy, signature, where, reason)
            return out
        begin = time.perf_counter()
        try:
            with Untracked():
                call = self._call(policy, where, snapshot, crossing, args, kwargs, out, parts)
        except Untestable as error:
            owner.untested(policy, signature, where, error.reason)
            return out
        except Exception as error:
            owner.untested(policy, signature, where, _broken(error))
            return out
        if call is not None:
            seconds = before + time.perf_counter() - begin
            if owner.shadow is None:
                owner.taken(policy, signature, call, seconds)
            else:
                self._last = signature, call, seconds
        return out

    def _call(
        self,
        policy: OpPolicy,
        where: Where,
        snapshot: Snapshot,
        crossing: Crossing,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        parts: ForeachBlocks | None,
    ) -> ComparedCall | None:
        op = policy.operator
        whole, shape = 0, None
        if parts is not None:
            if not parts.whole:
                uncut = list(op.results(args, kwargs, out))
                whole, shape = sum(map(Tensor.numel, uncut)), max(uncut, key=Tensor.dim).shape
            args = tuple(parts.cut(value) for value in args)
            kwargs = {key: parts.cut(value) for key, value in kwargs.items()}
            out = parts.cut(out)
        made = list(op.numbered(args, kwargs, out))
        results_made = [tensor for _, tensor in made]
        if op.is_view(args, results_made):
            self.passed[_NEVER_COMPARED[OpKind.VIEW]] += 1
            return None
        written = sum(1 for place in op.written for _ in tensors(argument(place, args, kwargs, None)))
        if results_made and (results_made[0].is_meta or not is_plain(type(results_made[0]))):
            self.passed[META] += 1
            return None
        device = next(
            (result.device for result in results_made if not result.is_cpu),
            results_made[0].device if results_made else torch.device("cpu"),
        )
        if device.type == "cpu":
            if any(not tensor.is_cpu for value in (*args, *kwargs.values()) for tensor in tensors(value)):
                self.passed[BETWEEN] += 1  # it may still be under way, and it is how values are compared
                return None
            if self.device:
                self.passed[ON_CPU] += 1
                return None
        elif not self.device:
            self.device = str(device)
        size = snapshot.size + sum(result.numel() * result.element_size() for result in results_made)
        if size > self._limit:
            raise Untestable(too_large(size, self._limit))
        results = [_result(result, crossing) for result in results_made]
        crossing.go()
        crossing.mark_sent()
        return ComparedCall(
            number=0,
            operator=op,
            where=where,
            step=0,
            device=str(device),
            snapshot=snapshot,
            results=results,
            note=None if parts is None or parts.whole else say("the first, the last and a moving block of each tensor"),
            owners=None if parts is None else parts.owners(),
            whole=whole,
            written=written,
            slots=tuple(slot for slot, _ in made),
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
