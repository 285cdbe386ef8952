"""Whether measures keep a rule, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from torchferry.backends.acceptance import SIGNED, AcceptanceRule, Limit
from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.curves.curve import Key, KeyKind, Pairing, shown
from torchferry.numerics.curves.measures import CurveMeasures, measure

# The spread of the reference's own runs, which is what two runs on one machine differ by.
#
# Each run of the reference is measured against the mean of the others. A run of the target, measured against the mean
# of all, may be as far as the farthest of them times a factor: with few runs the farthest one is itself uncertain.


FACTOR = 2.0
"""How many times the reference's own spread the target may be away, where the user says no other."""


@dataclass(frozen=True)
class CurveEnvelope:
    """How far the target is from the reference beside how far the reference is from itself.

    Attributes:
        own: Mean relative errors of each run of the reference against the others.
        target: Mean relative errors of each run of the target against all of the reference; None where it has none.
        inside: Share of the target's values between the lowest and the highest of the reference at that step.
        bias: Signed mean relative error of the target's mean.
        factor: How many times the largest of `own` each of `target` may be.
    """

    own: tuple[float, ...]
    target: tuple[float | None, ...]
    inside: float
    bias: float | None
    factor: float

    @property
    def allowed(self) -> float:
        """Return the largest mean relative error that is within the spread."""
        return max(self.own, default=0.0) * self.factor

    @property
    def met(self) -> bool:
        """Say whether every run of the target is within the spread."""
        return bool(self.own) and all(error is not None and error <= self.allowed for error in self.target)


def envelope(
    keys: Sequence[Key], references: Sequence[Sequence[float]], targets: Sequence[Sequence[float]], factor: float
) -> CurveEnvelope:
    """Measure runs of the target against two or more runs of the reference."""
    own = []
    for index, run in enumerate(references):
        rest = [other for place, other in enumerate(references) if place != index]
        error = measure(keys, _mean(rest), run, 0.0).mean_relative
        if error is not None:
            own.append(error)
    middle = _mean(references)
    errors = tuple(measure(keys, middle, run, 0.0).mean_relative for run in targets)
    within = total = 0
    for run in targets:
        for value, column in zip(run, zip(*references, strict=True), strict=True):
            total += 1
            within += min(column) <= value <= max(column)
    bias = measure(keys, middle, _mean(targets), 0.0).signed_relative
    return CurveEnvelope(tuple(own), errors, within / total if total else 0.0, bias, factor)


def _mean(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(fmean(values) for values in zip(*runs, strict=True))


OWN = "relative"
"""The rule that holds where the user names none: the mean relative error is at most `--rtol`."""

SPREAD = "spread"
"""The rule that holds where several runs of the reference are given; see `envelope.py`."""

RTOL = 0.02
"""The relative error that is allowed where nothing says another: the 2 % of the rule `flagperf`."""

UNDEFINED = "-"
"""Stands for a measure that has no value."""

_FEW = 10


@dataclass(frozen=True)
class Checked:
    """One limit with what was measured; `measured` is None where the measure is undefined."""

    limit: Limit
    measured: float | None

    @property
    def met(self) -> bool:
        """Say whether the limit is kept."""
        return self.limit.met(self.measured)


@dataclass(frozen=True)
class CurveVerdict:
    """What a rule says of a comparison.

    Attributes:
        rule: The rule.
        needs: Each of its needs with what was measured.
        met: Whether the target's curve is the reference's by this rule.
        by_sign: Whether it is met only because errors of both signs cancel, or because the target is below.
        notes: What stands against it beyond the rule's own needs, and what to know of it.
    """

    rule: AcceptanceRule
    needs: tuple[tuple[Checked, ...], ...]
    met: bool
    notes: tuple[Message, ...] = ()
    by_sign: bool = False


def own_rule(rtol: float) -> AcceptanceRule:
    """Return torchferry's own rule for one run on either side."""
    title = say("mean relative error")
    return AcceptanceRule(OWN, title, ((Limit("mean_relative", rtol, inclusive=True),),))


def judge(rule: AcceptanceRule, measures: CurveMeasures, pairing: Pairing) -> CurveVerdict:
    """Judge measures by a rule; NaN or infinity where the reference is finite is never met."""
    needs = tuple(tuple(Checked(limit, getattr(measures, limit.measure)) for limit in need) for need in rule.needs)
    met = bool(measures.count) and all(any(checked.met for checked in need) for need in needs)
    notes: list[Message] = []
    if measures.broken is not None:
        met = False
        notes.append(
            say_plural(
                "the target is NaN or infinite at {count} step where the reference is not, first at {step}",
                "the target is NaN or infinite at {count} steps where the reference is not, first at {step}",
                count=measures.broken_count,
                step=shown(measures.broken, pairing.form),
            )
        )
    if measures.unusable:
        notes.append(
            say_plural(
                "the reference is NaN or infinite at {count} step; it was not judged",
                "the reference is NaN or infinite at {count} steps; they were not judged",
                count=measures.unusable,
            )
        )
    if measures.zeros:
        notes.append(
            say_plural(
                "the reference is 0 at {count} step; it has no relative error",
                "the reference is 0 at {count} steps; they have no relative error",
                count=measures.zeros,
            )
        )
    if 0 < measures.count < _FEW:
        notes.append(say_plural("only {count} step was judged", "only {count} steps were judged", count=measures.count))
    if rule.advised_steps > measures.count:
        notes.append(
            say_plural(
                "the rule's source advises at least {wanted} steps; {count} was judged",
                "the rule's source advises at least {wanted} steps; {count} were judged",
                wanted=rule.advised_steps,
                count=measures.count,
            )
        )
    by_sign = met and rests_on_sign(needs, measures)
    if by_sign:
        notes.append(
            say(
                "the rule is met only because errors of both signs cancel; without sign the mean "
                "relative error is {error}",
                error=percent(measures.mean_relative),
            )
        )
    return CurveVerdict(rule, needs, met, tuple(notes), by_sign)


def rests_on_sign(needs: tuple[tuple[Checked, ...], ...], measures: CurveMeasures) -> bool:
    """Say whether a rule that is met would not be if its measures were taken without their sign."""
    unsigned = {"signed_relative": measures.mean_relative, "signed": measures.mean_absolute}
    return any(
        not any(
            checked.limit.met(unsigned[checked.limit.measure] if checked.limit.measure in SIGNED else checked.measured)
            for checked in need
        )
        for need in needs
    )


def first_judged(rule: AcceptanceRule, pairing: Pairing) -> int:
    """Return the index of the first pair that the rule judges."""
    if rule.from_step <= 1:
        return 0
    if pairing.form != KeyKind.STEP:
        return min(rule.from_step - 1, len(pairing.keys))
    # a log that counts from 0 calls its 21st step 20
    zero = bool(pairing.keys) and pairing.keys[0][1] == 0
    first = rule.from_step - 1 if zero else rule.from_step
    return next((index for index, key in enumerate(pairing.keys) if key[1] >= first), len(pairing.keys))


def percent(share: float | None) -> str:
    """Return a share of 1 as percent with three digits; a dash where there is none."""
    if share is None:
        return UNDEFINED
    size = abs(share) * 100
    return f"{share * 100:.3g} %" if size == 0 or size >= 1e-3 else f"{share * 100:.1e} %"
