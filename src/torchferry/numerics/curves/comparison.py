"""Two sides compared: logs read, metrics chosen, curves paired, measured and judged."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from torchferry.backends.acceptance import AcceptanceRule, Limit
from torchferry.core.errors import UsageError
from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.curves.curve import Curve, Habits, Pairing, curve_of, pair, shown, uncovered
from torchferry.numerics.curves.judging import (
    FACTOR,
    RTOL,
    SPREAD,
    Checked,
    CurveEnvelope,
    CurveVerdict,
    envelope,
    first_judged,
    judge,
    own_rule,
)
from torchferry.numerics.curves.measures import CurveMeasures, Smoothing, measure
from torchferry.numerics.curves.reading import TrainingLog
from torchferry.numerics.curves.records import plain

# Which metric is compared where the user names none, and which of the target's belongs to which of the reference's.

_LIKELY = (
    "loss",
    "train loss",
    "training loss",
    "lm loss",
    "total loss",
    "loss total",
    "train total loss",
    "train loss step",
    "lm loss value",
)
_APART = frozenset({"val", "valid", "validation", "eval", "evaluation", "test"})
_MOST_SHOWN = 40


class MetricChoice(NamedTuple):
    """One metric, under the names that the two sides have for it (as `plain` has them)."""

    reference: str
    target: str

    @property
    def title(self) -> str:
        """Return the name, or both."""
        return self.reference if self.reference == self.target else f"{self.reference} = {self.target}"


def parse(text: str) -> MetricChoice:
    """Return what a user named: `loss`, or `loss=train/loss` where the sides differ."""
    reference, _, target = text.partition("=")
    return MetricChoice(plain(reference), plain(target or reference))


def choose(
    references: list[TrainingLog], targets: list[TrainingLog], named: tuple[str, ...], every: bool
) -> tuple[MetricChoice, ...]:
    """Return the metrics to compare: those named, with `every` all that all logs have, else the training loss.

    Raises:
        UsageError: a log lacks one that is named, or it does not show which is meant.
    """
    if named:
        chosen = [choice for text in named for choice in _named(text, references, targets)]
        return tuple(dict.fromkeys(chosen))
    for log in (*references, *targets):
        if not log.points:
            raise _nothing(log)
    common = set.intersection(*(set(log.points) for log in (*references, *targets)))
    if every and common:
        return tuple(MetricChoice(name, name) for name in sorted(common))
    likely = [name for name in _LIKELY if name in common][:1]
    if not likely:
        losses = [name for name in sorted(common) if "loss" in name and not name.endswith(("scale", "weight"))]
        likely = [name for name in losses if not _APART & set(name.split())] or losses
    if not likely and len(common) == 1:
        likely = list(common)
    if not likely:
        raise UsageError(
            say("the logs have no loss under the same name"),
            say(
                "name the metric with --metric, as in --metric loss=train/loss; the reference has {one}; "
                "the target has {other}",
                one=_names(references[0]),
                other=_names(targets[0]),
            ),
        )
    return tuple(MetricChoice(name, name) for name in likely)


def _named(text: str, references: list[TrainingLog], targets: list[TrainingLog]) -> list[MetricChoice]:
    if "*" in text or "?" in text:
        common = set.intersection(*(set(log.points) for log in (*references, *targets)))
        matching = sorted(fnmatch.filter(common, plain(text)))
        if not matching:
            raise UsageError(say("no metric that all logs have matches `{text}`", text=text), _known(references[0]))
        return [MetricChoice(name, name) for name in matching]
    choice = parse(text)
    resolved = []
    for name, logs in ((choice.reference, references), (choice.target, targets)):
        resolved.append(_in_all(name, logs, text))
    return [MetricChoice(*resolved)]


def _in_all(name: str, logs: list[TrainingLog], text: str) -> str:
    for log in logs:
        if name not in log.points:
            if not log.points:
                raise _nothing(log)
            raise UsageError(say("{path} has no metric `{text}`", path=log.path, text=text), _known(log))
    return name


def _nothing(log: TrainingLog) -> UsageError:
    return UsageError(
        say("no value was found in {path}", path=log.path),
        say("name a pattern with --pattern, such as --pattern 'loss is (?P<value>\\S+)'"),
    )


def _known(log: TrainingLog) -> Message:
    return say("metrics in {path}: {names}", path=log.path, names=_names(log))


def _names(log: TrainingLog) -> str:
    names = sorted(log.points)
    more = f", ... ({len(names)})" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


@dataclass(frozen=True)
class Terms:
    """How curves are compared.

    Attributes:
        rule: The rule; None: torchferry's own, `spread` where there are several runs of the reference, else `relative`.
        spread: Whether `spread` is asked for by name.
        relative: Whether `relative` is.
        rtol: The relative error from which a step is beyond; None: as the rule says, else 2 %.
        from_step: The first step that is judged, from 1; None: as the rule says.
        last: Only so many of the last steps are judged; None: all.
        factor: See `CurveEnvelope`.
        alignment: One of `pairing.ALIGNMENTS`.
        smoothing: Applied before measuring.
        habits: How logs are understood.
        partial: Whether the target may cover less than the reference.
    """

    rule: AcceptanceRule | None = None
    spread: bool = False
    relative: bool = False
    rtol: float | None = None
    from_step: int | None = None
    last: int | None = None
    factor: float = FACTOR
    alignment: str = "auto"
    smoothing: Smoothing = field(default_factory=Smoothing)
    habits: Habits = field(default_factory=Habits)
    partial: bool = False


@dataclass(frozen=True)
class Compared:
    """One metric compared.

    Attributes:
        choice: Its name on both sides.
        references, targets: The curves as they were read, one a run.
        pairing: Their values at common steps, smoothed where that was asked for.
        start: Index of the first pair that was judged.
        measures: Of the judged pairs, of the means of both sides.
        envelope: The reference's own spread, where there are several runs.
        verdict: What the rule says.
        uncovered: Values of the reference, from the first that is judged on, where the target has none.
    """

    choice: MetricChoice
    references: tuple[Curve, ...]
    targets: tuple[Curve, ...]
    pairing: Pairing
    start: int
    measures: CurveMeasures
    envelope: CurveEnvelope | None
    verdict: CurveVerdict
    uncovered: int


@dataclass(frozen=True)
class CurveComparison:
    """All metrics of two sides compared; `notes` are what was left out of the logs."""

    references: tuple[Path, ...]
    targets: tuple[Path, ...]
    metrics: tuple[Compared, ...]
    smoothing: Smoothing
    notes: tuple[Message, ...]
    partial: bool = False

    @property
    def met(self) -> bool:
        """Say whether the target's curves are the reference's where both have values."""
        return all(compared.verdict.met for compared in self.metrics)

    @property
    def complete(self) -> bool:
        """Say whether the target has values wherever the reference has."""
        return not any(compared.uncovered for compared in self.metrics)

    @property
    def passed(self) -> bool:
        """Say whether the target's curves are the reference's, over as much of it as was asked for."""
        return self.met and (self.complete or self.partial)


def compare(
    references: Sequence[TrainingLog], targets: Sequence[TrainingLog], named: tuple[str, ...], every: bool, terms: Terms
) -> CurveComparison:
    """Compare logs; the first of each side is the one whose length is spoken of.

    Raises:
        UsageError: a metric is missing, there are no common steps, or the rule does not fit what was given.
    """
    if terms.spread and len(references) < 2:
        raise UsageError(
            say("the rule `{rule}` needs two or more runs of the reference", rule=SPREAD),
            say("name further runs with --reference-run FILE"),
        )
    choices = choose(list(references), list(targets), named, every)
    metrics = tuple(_compared(choice, references, targets, terms) for choice in choices)
    notes = [
        say("{path}: {what}", path=log.path, what=what) for log in (*references, *targets) for what in log.troubles
    ]
    notes += [
        say_plural(
            "{path}: {count} more remark on this log is not listed",
            "{path}: {count} more remarks on this log are not listed",
            path=log.path,
            count=log.more_troubles,
        )
        for log in (*references, *targets)
        if log.more_troubles
    ]
    return CurveComparison(
        tuple(log.path for log in references),
        tuple(log.path for log in targets),
        metrics,
        terms.smoothing,
        tuple(notes),
        terms.partial,
    )


def _compared(
    choice: MetricChoice, references: Sequence[TrainingLog], targets: Sequence[TrainingLog], terms: Terms
) -> Compared:
    habits = terms.habits if terms.alignment != "order" else replace(terms.habits, by_order=True)
    reference_curves = tuple(curve_of(log.points[choice.reference], habits) for log in references)
    theirs = tuple(curve_of(log.points[choice.target], habits) for log in targets)
    paired = pair(reference_curves, theirs, terms.alignment)
    paired = replace(
        paired,
        references=tuple(terms.smoothing(run) for run in paired.references),
        targets=tuple(terms.smoothing(run) for run in paired.targets),
    )
    by_spread = terms.spread or (terms.rule is None and not terms.relative and len(reference_curves) > 1)
    rule = terms.rule or own_rule(RTOL if terms.rtol is None else terms.rtol)
    if terms.from_step is not None:
        rule = replace(rule, from_step=terms.from_step)
    start = first_judged(rule, paired)
    if terms.last is not None:
        start = max(start, len(paired.keys) - terms.last)
    if start >= len(paired.keys):
        raise UsageError(
            say("no common step at or after step {step}, where the rule begins", step=rule.from_step),
            say("train for more steps, or use --from-step"),
        )
    keys = paired.keys[start:]
    measures = measure(keys, paired.reference[start:], paired.target[start:], _tolerance(rule, terms.rtol))
    if not measures.count and not measures.broken_count:
        raise UsageError(
            say("the reference has no finite value of `{metric}` at the judged steps", metric=choice.title),
            say("judge other steps with --from-step or --last, or name another metric with --metric"),
        )
    spread = None
    if len(reference_curves) > 1:
        runs = [run[start:] for run in paired.references]
        spread = envelope(keys, runs, [run[start:] for run in paired.targets], terms.factor)
    verdict = judge(rule, measures, paired)
    if _needs_the_first(rule) and (start or reference_curves[0].keys[0] != paired.keys[0]):
        message = say(
            "the rule needs the first step, but the first common one is {step}", step=shown(keys[0], paired.form)
        )
        verdict = replace(verdict, notes=(*verdict.notes, message))
    if by_spread and spread is not None:
        verdict = _by_spread(spread, verdict, rule, measures.broken is not None)
    missing = uncovered(paired.places, paired.length, paired.places[start] if start else 0)
    return Compared(choice, reference_curves, theirs, paired, start, measures, spread, verdict, missing)


def _by_spread(spread: CurveEnvelope, verdict: CurveVerdict, rule: AcceptanceRule, broken: bool) -> CurveVerdict:
    limit = Limit("mean_relative", spread.allowed, inclusive=True)
    own = AcceptanceRule(SPREAD, say("the reference's own spread"), ((limit,),), rule.from_step)
    errors = [error for error in spread.target if error is not None]
    worst = max(errors) if len(errors) == len(spread.target) else None
    checked = Checked(limit, worst)
    notes = list(verdict.notes)
    if spread.allowed == 0:
        notes.append(say("the runs of the reference are identical, so the target must be identical too"))
    return CurveVerdict(own, ((checked,),), spread.met and not broken, tuple(notes))


def _needs_the_first(rule: AcceptanceRule) -> bool:
    return any(limit.measure.startswith("first_") for need in rule.needs for limit in need)


def _tolerance(rule: AcceptanceRule, rtol: float | None) -> float:
    if rtol is not None:
        return rtol
    limits = [
        limit.value for need in rule.needs for limit in need if limit.measure in ("mean_relative", "signed_relative")
    ]
    return limits[0] if limits else RTOL
