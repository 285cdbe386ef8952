"""The verdict on one call: its results beside those of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from torchferry.core.messages import say, say_plural
from torchferry.numerics.compare import random_ops, standards, tolerances
from torchferry.numerics.compare.exact import equal, judge_exact, judge_layout, judge_nonfinite
from torchferry.numerics.compare.explanations import explained_by_order, explained_by_rounded_inputs
from torchferry.numerics.compare.reference import CpuReference, decomposition, is_foreign, widening
from torchferry.numerics.compare.snapshot import ComparedCall, Untestable
from torchferry.numerics.compare.standards import ResultPair
from torchferry.numerics.compare.tolerances import EIGHT_BITS, ErrorBound, Growth
from torchferry.numerics.compare.verdict import (
    Element,
    ResultVerdict,
    Status,
    first_off,
    measure,
    of_bound,
    with_ratios,
    worst,
)
from torchferry.numerics.framework.kinds import OpKind
from torchferry.numerics.framework.operators import argument, unasked

_EPSILON = ("eps", "epsilon")


@dataclass
class _Session:
    """One call under judgement: the runs of the reference, each made once."""

    call: ComparedCall
    reference: CpuReference
    wide: torch.dtype = torch.float64
    right: list[Tensor] = field(default_factory=list)
    _same: list[Tensor] | Untestable | None = None

    def same(self) -> list[Tensor]:
        """Return the CPU's results in the dtypes of the device.

        Raises:
            Untestable: the CPU cannot.
        """
        if self._same is None:
            try:
                self._same = CpuReference(self.call.operator, self.call.snapshot, self.call.slots).same()
            except Untestable as error:
                self._same = error
        if isinstance(self._same, Untestable):
            raise self._same
        return self._same

    def settle(self) -> None:
        """Refuse an operator of the program that comes to something else each time, on the same arguments.

        Raises:
            Untestable: it does, or the CPU cannot run it.
        """
        call = self.call
        try:
            first, second = self.same(), CpuReference(call.operator, call.snapshot, call.slots).same()
        except Untestable:
            dtypes = [result.dtype for result in call.results]
            first, second = (CpuReference(call.operator, call.snapshot, call.slots).wide(dtypes)[0] for _ in range(2))
        if len(first) != len(second) or not all(map(equal, first, second)):
            raise Untestable(
                say("two runs on the CPU differ: the operator draws random numbers or keeps state without declaring it")
            )

    def has(self, number: int) -> bool:
        """Whether the CPU gives a result of the shape that the device gave, with elements."""
        result = self.call.results[number]
        return number < len(self.right) and tuple(self.right[number].shape) == result.shape and result.count > 0


class Judge:
    """Judges calls by a standard."""

    def __init__(
        self, standard: str, absolute: float | None = None, relative: float | None = None, strict: bool = False
    ) -> None:
        self._judge = standards.JUDGES[standard]
        self._is_ours = standard == "ours"
        self._standard = standard
        self._given: ErrorBound | None = None
        if absolute is not None or relative is not None:
            self._given = ErrorBound(relative or 0.0, absolute or 0.0)
            self._judge = standards.given(absolute or 0.0, relative or 0.0, strict)
            self._is_ours = not strict

    def verdict(self, call: ComparedCall) -> ResultVerdict:
        """Return the verdict on a call: that of its worst result. What a comparison raises leaves the call untested."""
        try:
            return worst(self.verdicts(call))
        except Exception as error:
            first = str(error).strip().partition("\n")[0][:200]
            reason = say("the comparison stopped: {error}", error=f"{type(error).__name__}: {first}")
            return ResultVerdict(Status.UNTESTED, reason, shape=call.shape, dtype=call.dtype)

    def verdicts(self, call: ComparedCall) -> list[ResultVerdict]:
        """Return a verdict for each result of a call, or one for the call."""
        try:
            if call.operator.draws(*call.arguments()):
                return [random_ops.judge(call)]
            return self._verdicts(call)
        except Untestable as error:
            return [ResultVerdict(Status.UNTESTED, error.reason, shape=call.shape, dtype=call.dtype)]

    def _verdicts(self, call: ComparedCall) -> list[ResultVerdict]:
        if not call.results:
            raise Untestable(say("the operator returns no tensor"))
        session = _Session(call, CpuReference(call.operator, call.snapshot, call.slots))
        if is_foreign(call.operator):
            session.settle()
        operator = call.operator
        exact = not any(_is_float(result.dtype) for result in call.results)
        if operator.kind in (OpKind.MOVE, OpKind.CONSTANT) or exact or tolerances.is_stepped(operator):
            same = session.same()
            if len(same) != len(call.results):
                return [self._count(call, len(same))]
            exact_verdicts = [judge_exact(call, number, right) for number, right in enumerate(same)]
            if all(verdict is not None for verdict in exact_verdicts):
                return [verdict for verdict in exact_verdicts if verdict is not None]
        session.right, session.wide = session.reference.wide([result.dtype for result in call.results])
        missing = _missing(call, session.reference.further)
        if missing:
            reason = say("the device leaves out result {n}, which was asked for", n=missing[0])
            return [ResultVerdict(Status.FAIL, reason, shape=call.shape, dtype=call.dtype)]
        skipped = tolerances.auxiliary(operator)
        statistics = tolerances.statistics(operator)
        numbers = [
            n
            for n in range(len(call.results))
            if call.slot(n) not in skipped or (call.slot(n) in statistics and session.has(n))
        ]
        call.uncompared = tuple(n for n, result in enumerate(call.results) if n not in numbers and result.count)
        if len(session.right) != len(call.results) and (not skipped or len(session.right) <= max(numbers, default=-1)):
            return [self._count(call, len(session.right))]
        if call.owners is None:
            return [_with_uncompared(self._one(session, number), len(call.uncompared)) for number in numbers]
        alike: dict[torch.dtype, list[int]] = {}
        for number in numbers:
            if (
                _is_float(call.results[number].dtype)
                and tuple(session.right[number].shape) == call.results[number].shape
            ):
                alike.setdefault(call.results[number].dtype, []).append(number)
        listed = {number for group in alike.values() for number in group}
        verdicts = [self._one(session, number) for number in numbers if number not in listed]
        return verdicts + [self._together(session, group) for group in alike.values()]

    def _together(self, session: _Session, numbers: list[int]) -> ResultVerdict:
        """Judge the results of an operator on lists as one: it works element by element."""
        results = session.call.results
        ours = _joined([results[number].fetched.tensor for number in numbers], range(len(numbers)))
        right = _joined(session.right, numbers)
        verdict = self._floating(session, numbers, ours, right)
        largest = max((results[number] for number in numbers), key=lambda result: len(result.shape))
        verdict = verdict.of(largest.shape, standards.name_of(largest.dtype))
        if not verdict.elements:
            return verdict
        owners = session.call.owners or []
        located = []
        for element in verdict.elements:
            (position,) = element.index
            for number in numbers:
                count = results[number].fetched.tensor.numel()
                if position < count:
                    located.append(replace(element, index=(owners[number % len(owners)], position)))
                    break
                position -= count
        return replace(verdict, elements=tuple(located))

    def _count(self, call: ComparedCall, count: int) -> ResultVerdict:
        reason = say_plural(
            "{count} result, but {its} on the CPU",
            "{count} results, but {its} on the CPU",
            count=len(call.results),
            its=count,
        )
        return ResultVerdict(Status.FAIL, reason, shape=call.shape, dtype=call.dtype)

    def _one(self, session: _Session, number: int) -> ResultVerdict:
        call = session.call
        result, right = call.results[number], session.right[number].detach()
        dtype = standards.name_of(result.dtype)
        if tuple(right.shape) != result.shape:
            reason = say("shape {ours}, but {its} on the CPU", ours=list(result.shape), its=list(right.shape))
            return ResultVerdict(Status.FAIL, reason, shape=result.shape, dtype=dtype)
        ours = result.fetched.tensor
        if ours.layout is not torch.strided:
            ours, right = ours.to_dense(), right.to_dense()
        if not _is_float(result.dtype):
            exact = judge_exact(call, number, right)
            assert exact is not None
            return exact
        meaning = tolerances.statistics(call.operator).get(call.slot(number))
        verdict = self._floating(session, [number], ours, right)
        if meaning == "save_invstd" and verdict.status is Status.FAIL:
            verdict = self._as_variance(session, number, ours, right) or verdict
        verdict = verdict.of(result.shape, dtype)
        if verdict.status is Status.PASS and call.full and meaning is None:
            wrong = judge_layout(call, number, session.right[number], lambda: session.same()[number])
            if wrong is not None:
                verdict = replace(verdict, status=wrong[0], reason=wrong[1])
        return verdict

    def _as_variance(self, session: _Session, number: int, ours: Tensor, right: Tensor) -> ResultVerdict | None:
        """Judge what a batch norm saves as the variance: some devices hand that to their backward."""
        call = session.call
        place = next(i for i, item in enumerate(call.operator.overload._schema.arguments) if item.name in _EPSILON)
        epsilon = argument((place, call.operator.overload._schema.arguments[place].name), *call.arguments(), 0.0)
        variance = right.double().pow(-2) - epsilon
        own = tolerances.unit(call.results[number].dtype)
        allowed = ErrorBound(16 * own, 16 * own * tolerances.largest(variance))
        if not of_bound(ours, variance, allowed) <= 1:
            return None
        measures = measure(ours, variance, allowed, call.results[number].dtype)
        reason = say("it saves the variance, but the CPU saves the inverse of its square root")
        return ResultVerdict(Status.PASS, reason, measures)

    def _floating(self, session: _Session, numbers: list[int], ours: Tensor, right: Tensor) -> ResultVerdict:
        call = session.call
        number = numbers[0]
        operator, dtype = call.operator, call.results[number].dtype
        if right.numel() == 0:
            return ResultVerdict(Status.PASS, say("the result has no elements"))
        right = (
            right.to(torch.complex128 if session.wide is torch.float64 else torch.complex64)
            if (ours.is_complex() and not right.is_complex())
            else right
        )
        is_complex = ours.is_complex()
        if dtype in EIGHT_BITS or dtype is torch.complex32:
            ours = ours.to(torch.complex64 if is_complex else torch.float32)
        if is_complex:
            ours, right = torch.view_as_real(ours.resolve_conj()), torch.view_as_real(right.resolve_conj())
        if not right.is_floating_point():
            right = right.to(session.wide)

        def same() -> Tensor | None:
            try:
                value = _joined(session.same(), numbers).detach()
            except (Untestable, IndexError):
                return None
            value = value.to_dense() if value.layout is not torch.strided else value
            if is_complex:
                value = torch.view_as_real(value.to(torch.complex128).resolve_conj())
            return value.to(right.dtype)

        if not call.full and not is_complex and self._is_ours:
            allowed = tolerances.bound(operator, session.reference.args, number, right, dtype)
            if of_bound(ours, right, allowed) <= 1:  # which NaN and infinity are not
                return ResultVerdict(Status.PASS)
        nonfinite = judge_nonfinite(ours, right, dtype, same, lambda: call.given_finite)
        if nonfinite.verdict is not None:
            return nonfinite.verdict
        ours, right = nonfinite.device, nonfinite.reference
        if is_complex:
            allowed = ErrorBound(8 * tolerances.unit(dtype), 32 * tolerances.unit(dtype) * tolerances.largest(right))
        else:
            allowed = tolerances.bound(operator, session.reference.args, number, right, dtype)
            if nonfinite.finite is not None and isinstance(allowed.absolute, Tensor):
                allowed.absolute = torch.nan_to_num(allowed.absolute, nan=0.0, posinf=0.0).add_(tolerances.TINY[dtype])

        def masked_same() -> Tensor | None:
            value = same()
            return value if value is None or nonfinite.finite is None else torch.where(nonfinite.finite, value, 0.0)

        pair = ResultPair(
            operator.base,
            tolerances.growth(operator),
            ours,
            right,
            dtype,
            allowed,
            lambda: self._wider(session, numbers, dtype, allowed, nonfinite.finite),
            masked_same,
            cheap=not call.full,
        )
        if call.full:
            _ = pair.measures
        status, reason = self._judge(pair)
        kernel = tolerances.varying_kernel(operator, call.device.partition(":")[0]) if status is Status.FAIL else ""
        if kernel or (status is Status.FAIL and tolerances.is_unordered(operator)):
            status, reason = explained_by_order(call, number, pair, reason, nonfinite.finite)
        if kernel and reason is not None:
            reason = say("{reason}; {kernel} is not deterministic by default", reason=reason, kernel=kernel)
        if status is Status.FAIL and self._is_ours and pair.growth is Growth.PRODUCT and dtype is torch.float32:
            status, reason = explained_by_rounded_inputs(call, number, pair) or (status, reason)
        measures = pair.measures if call.full or status is not Status.PASS else None
        if measures is not None and (status is not Status.PASS or "same" in pair.__dict__):
            ratios = pair.ratios
            if ratios is not None:
                measures = with_ratios(measures, ratios)
        elements: tuple[Element, ...] = ()
        if status in (Status.FAIL, Status.WARN):
            wrong = self._wrong(pair)
            elements = first_off(pair.device, pair.reference, wrong)
            if measures is not None:
                measures = replace(measures, off=int(wrong.sum()))
        return ResultVerdict(status, reason or nonfinite.remark, measures, elements=elements)

    def _wrong(self, pair: ResultPair) -> Tensor:
        """Return which elements are off: by what the standard says of one, or what the user gave, else by our bound."""
        error = (pair.device.to(pair.reference.dtype) - pair.reference).abs()
        size = pair.reference.abs()
        for bound in (self._given, standards.elementwise(self._standard, pair.dtype), pair.bound):
            if bound is not None:
                wrong = error > size * bound.relative + bound.absolute
                if bool(wrong.any()):
                    return wrong
        return error == error.max()

    def _wider(
        self, session: _Session, numbers: list[int], dtype: torch.dtype, allowed: ErrorBound, finite: Tensor | None
    ) -> ErrorBound | None:
        """Return a bound from the absolute values of the arguments, for sums that cancel."""
        call = session.call
        args, kwargs = CpuReference(call.operator, call.snapshot, call.slots).arguments(
            widening(session.wide), fresh=False
        )
        magnitude = tolerances.magnitude(call.operator, args, kwargs)
        if magnitude is None or numbers[-1] >= len(magnitude) or magnitude[numbers[0]].is_complex():
            return None
        size = torch.nan_to_num(_joined(magnitude, numbers).to(session.wide), nan=0.0, posinf=0.0, neginf=0.0)
        own = tolerances.unit(dtype)
        absolute = size.mul_(8 * tolerances.summing(dtype) * 4 + 2 * own)
        return ErrorBound(allowed.relative, absolute.add_(allowed.absolute))


def _with_uncompared(verdict: ResultVerdict, uncompared: int) -> ResultVerdict:
    """Return a verdict that says how many results were not compared, if any."""
    if not uncompared or verdict.status is not Status.PASS:
        return verdict
    count = say_plural(
        "{count} result not compared: only the device's own backward reads it",
        "{count} results not compared: only the device's own backward reads them",
        count=uncompared,
    )
    if verdict.reason is None:
        return replace(verdict, reason=count)
    return replace(verdict, reason=say("{reason}; {more}", reason=verdict.reason, more=count))


def _missing(call: ComparedCall, further: frozenset[int]) -> list[int]:
    """Return the numbers of the results that only the CPU gives although the device was asked for them.

    What stands in for a vendor's operator gives all that can be given: of these only a mask says what was requested.
    """
    not_asked = unasked(call.operator, *call.arguments())
    if not_asked is None:
        return [] if decomposition(call.operator) is not None else sorted(further)
    skipped = tolerances.auxiliary(call.operator)
    return sorted(slot for slot in further if slot - call.written not in not_asked | skipped)


def _joined(values: Sequence[Tensor], numbers: Sequence[int]) -> Tensor:
    """Return one of the values, or several behind each other."""
    if len(numbers) == 1:
        return values[numbers[0]]
    return torch.cat([values[number].reshape(-1) for number in numbers]).detach()


def _is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex
