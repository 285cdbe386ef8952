"""Compare two records: causes first, then the numbers, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from torchferry.core.messages import Message, say, say_plural
from torchferry.core.progress import counted
from torchferry.numerics.rundiff import stepwise
from torchferry.numerics.rundiff.alignment import Alignment, align
from torchferry.numerics.rundiff.causes import (
    CERTAIN,
    NOTE,
    POSSIBLE,
    Cause,
    causes_in_data,
    causes_in_optimizers,
    causes_in_randomness,
    causes_in_settings,
)
from torchferry.numerics.rundiff.collectives import causes_in_collectives
from torchferry.numerics.rundiff.coverage import Coverage, Exact, coverage, exact, remarks
from torchferry.numerics.rundiff.judging import JudgedRow, Past, judge, suspect
from torchferry.numerics.rundiff.outcomes import causes_in_operators, causes_in_updates, causes_in_weights
from torchferry.numerics.rundiff.stepwise import (
    HALF,
    ErrorEnvelope,
    Weights,
    allowed,
    differing,
    errors,
    matrices,
)
from torchferry.numerics.rundiff.verdict import ModuleTable, RunVerdict, verdict
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.record import Rank, Record, RecordedRows, RecordedStep

LOSS = 2e-2
"""Mean relative difference of the losses of the last third of the steps beyond which two runs are not the same, however
slowly they parted: the rule of `compare curves`. One step says little, as training makes rounding grow."""

_SPIKE = 5
"""How many times that difference a single step may have."""

_ROOTS = 10_000
"""Pairs of outermost modules among which other names are looked for."""

_OWN = 3.0
"""How many times the difference of two runs of the reference those of others may have."""

_MULTIPLE = 0.05
"""What of a gradient may be left when the multiple of another is taken away, relative, in most parameters."""

_TIES = 8
"""Ties that are said."""

Losses = dict[int, tuple[float, float]]
"""The losses of two runs, by step."""

_LEARNT = 1e-2
"""A loss is not taken for smaller than this part of the largest before it: what is left of one that has been learnt is
rounding, in bfloat16 above all."""

_PRODUCTS = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "convolution", "convolution_backward", "addmv", "mv", "dot"}
)


_GIVEN = frozenset({"data", "data order", "order in a batch", "initial weights"})
"""Causes behind which any generator may stand."""

_DRAWN = frozenset({"dropout mask", "dropout probability", "random numbers", "random draws"})
"""Causes behind which a generator of torch may stand."""

_OF_DATA = frozenset({"random state", "numpy state"})


@dataclass(frozen=True)
class FirstDifference:
    """Where the numbers part.

    Attributes:
        step: The step.
        rank: The rank.
        module: Path of the module or parameter.
        phase: Phase of the step.
        operator: `aten.addmm`; empty for a parameter or gradient.
        source: In backward: what is differentiated.
        occurrence: The how many-th of its kind in the step, from 0.
        dtype: Its dtype.
        shape: Its shape.
        error: Relative error.
        limit: What it may be off.
        draws: Whether the operator took random numbers inside.
        came_in: The largest error of what it used; None where that is not known.
        unknown: What it came from that has no counterpart in the second run: modules and their operators.
        differing: Of integers: how many differ, and of how many. Beyond 60 the first is an estimate.
        gradual: Whether the error grew through many operators, each of which was in order.
        first_product: Whether the dtypes are the same, and no matrix product came before it.
        a: Norm in the first run.
        b: Norm in the second.
        exact: Where whole tensors were kept: what they show.
    """

    step: int
    rank: int
    module: str
    phase: str
    operator: str
    source: str
    occurrence: int
    dtype: str
    shape: tuple[int, ...]
    error: float
    limit: float
    draws: bool
    came_in: float | None
    unknown: tuple[str, ...]
    differing: tuple[int, int] | None
    gradual: bool
    first_product: bool
    a: float
    b: float
    exact: Exact | None = None


@dataclass
class RunComparison:
    """What came of it.

    Attributes:
        causes: Differences that explain numbers, certain ones first.
        first: Where numbers part beyond what they may, or None.
        earliest: The first row that is not the same bit for bit, by name, or empty.
        aligned: Rows that were laid beside each other,
        only_a: and that only one has.
        only_b: Of the second.
        table: What each module's results are off and may be off, phase by phase.
        ties: Indices that differ and are of equal elements.
        steps: Largest error of each step.
        losses: The losses of each step, in both.
        left_out: What was not compared, and why.
        coverage: How much of the reference was compared.
        remarks: What else is to be known of the records.
    """

    a: Record
    b: Record
    causes: list[Cause] = field(default_factory=list)
    first: FirstDifference | None = None
    earliest: str = ""
    aligned: int = 0
    only_a: int = 0
    only_b: int = 0
    table: ModuleTable = field(default_factory=ModuleTable)
    ties: list[Message] = field(default_factory=list)
    steps: dict[int, float] = field(default_factory=dict)
    losses: Losses = field(default_factory=dict)
    left_out: list[Message] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    remarks: list[Message] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether something that was compared is not the same within the standard."""
        return self.verdict is RunVerdict.DIFFERENT

    @property
    def same(self) -> bool:
        """Whether the runs are the same within the standard: nothing differs, and all of the reference was compared."""
        return self.verdict is RunVerdict.SAME

    @property
    def verdict(self) -> RunVerdict:
        """What the table, the causes and the coverage come to."""
        return verdict(self.table, self.causes, self.coverage)


def compare(a: Record, b: Record, reference: Record | None = None) -> RunComparison:
    """Compare two records.

    Args:
        a: The reference.
        b: The other.
        reference: A further record of the reference, whose distance from it says what is noise.

    Raises:
        TorchferryError: a file is missing or damaged.
    """
    result = RunComparison(a, b, coverage=coverage(a, b), remarks=list(remarks(a, b)))
    rename = _renamed_roots(a.ranks[0], b.ranks[0])
    result.causes += causes_in_data(a, b)
    result.causes += causes_in_weights(a.ranks[0], b.ranks[0], rename)
    result.causes += causes_in_optimizers(a.ranks[0], b.ranks[0])
    result.causes += causes_in_settings(a.ranks[0], b.ranks[0])
    same_world = a.world == b.world
    if same_world:
        result.causes += causes_in_collectives(a, b)
        result.causes += causes_in_randomness(a.ranks[0], b.ranks[0], rename)
    else:
        result.left_out.append(
            say("operators and random draws of single ranks: the runs had {a} and {b} ranks", a=a.world, b=b.world)
        )
    others = {rank.number: rank for rank in b.ranks}
    shared = [(rank, others[rank.number]) for rank in a.ranks if rank.number in others]
    if not same_world:
        shared = shared[:1]
    envelope = ErrorEnvelope(reference)
    for rank_a, rank_b in shared:
        _rank(result, rank_a, rank_b, rename, same_world, envelope)
    result.coverage.close()
    result.losses = _losses(a, b)
    _explain(result, _losses(a, reference) if reference is not None else {})
    return result


def _rank(
    result: RunComparison, a: Rank, b: Rank, rename: dict[str, str], same_world: bool, envelope: ErrorEnvelope
) -> None:
    others = {step.number: step for step in b.steps}
    past = Past()
    held: Weights = {}
    reported_parts: set[tuple[object, ...]] = set()
    reported: set[str] = {cause.cause for cause in result.causes}
    for step in counted(say("comparing steps"), a.steps):
        other = others.get(step.number)
        if step.file:
            result.coverage.recorded += 1
        if other is None:
            continue
        rows_a, rows_b = step.rows(), other.rows()
        if rows_a is None or rows_b is None:
            continue
        result.coverage.compared += 1
        if step.coarse or other.coarse:
            _once(
                result,
                say("step {step}: the device rounds inputs of products, so the record is less exact", step=step.number),
            )
        if step.dropped or other.dropped:
            _once(
                result, say("step {step}: it has too many results; the last ones were not recorded", step=step.number)
            )
        aligned = align(rows_a, rows_b, rename)
        if not same_world:
            aligned = _only_states(rows_a, aligned)
        held |= matrices(rows_a)
        distances = errors(rows_a, rows_b, aligned.pairs, held)
        limits = envelope.limits(a.number, step.number, rows_a, aligned, allowed(rows_a, aligned.pairs, past.coarsest))
        inner = stepwise.parts(rows_a, rows_b, aligned, distances, limits, rename, reported_parts)
        by_name = aligned
        if inner:
            aligned, distances, limits = aligned.without(inner), distances.without(inner), np.delete(limits, inner)
        judged = judge(step.number, rows_a, rows_b, aligned, distances, limits, past)
        if same_world:
            for cause in causes_in_operators(step.number, rows_a, rows_b, aligned, by_name, judged, rename):
                if cause.cause not in reported:
                    result.causes.append(cause)
            reported |= {cause.cause for cause in result.causes}
        result.causes += _scaled(step.number, rows_a, rows_b, aligned, reported)
        result.causes += causes_in_updates(step.number, rows_a, rows_b, aligned, judged, reported)
        _count(result, step.number, rows_a, aligned, judged)
        result.coverage.blind += int((distances.blind & (distances.relative == 0)).sum())
        _note_ties(result, step.number, rows_a, rows_b, aligned, judged)
        if result.first is None or step.number < result.first.step:
            place = suspect(judged)
            if place is not None:
                result.first = _first(step, other, a.number, rows_a, rows_b, aligned, place)
        if not result.earliest and len(distances.same) and not distances.same.all():
            row = aligned.pairs[int(np.argmin(distances.same))][0]
            key = rows_a.keys[row]
            result.earliest = (
                f"step {step.number}: {key.module or 'outside of modules'} ({key.phase}) {key.operator}".rstrip()
            )
        past.add(step.number, (rows_a, rows_b), aligned, distances, limits, judged)


def _first(
    step: RecordedStep,
    other: RecordedStep,
    rank: int,
    a: RecordedRows,
    b: RecordedRows,
    aligned: Alignment,
    place: JudgedRow,
) -> FirstDifference:
    row_a, row_b = aligned.pairs[place.pair]
    key = a.keys[row_a]
    same = [other for other in range(row_a) if a.keys[other] == key]
    return FirstDifference(
        step.number,
        rank,
        key.module,
        key.phase,
        key.operator,
        key.source,
        len(same),
        key.dtype,
        a.shapes[row_a],
        place.error,
        place.limit,
        key.draws or b.keys[row_b].draws,
        None if place.unknown else place.came_in,
        tuple(dict.fromkeys(f"{a.keys[row].module} {a.keys[row].operator}".strip() for row in place.unknown)),
        _differing(a, b, row_a, row_b),
        place.gradual,
        key.dtype == b.keys[row_b].dtype
        and not any(a.keys[row].base in _PRODUCTS for row, _ in aligned.pairs[: place.pair]),
        float(a.norms[row_a]),
        float(b.norms[row_b]),
        exact(step, other, row_a, row_b),
    )


def _differing(a: RecordedRows, b: RecordedRows, row_a: int, row_b: int) -> tuple[int, int] | None:
    """Return how many integers of two rows differ, and of how many; None for numbers with fractions."""
    if not (a.whole[row_a] and b.whole[row_b]):
        return None
    return int(differing(a, b, np.asarray([(row_a, row_b)]))[0]), int(a.lengths[row_a])


def _note_ties(
    result: RunComparison, step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, judged: list[JudgedRow]
) -> None:
    """Say where other indices of equal elements were chosen, once for each module."""
    errors = {row.pair: row.error for row in judged}
    for row in judged:
        row_a, row_b = aligned.pairs[row.pair]
        if not row.tie:
            continue
        count, of = _differing(a, b, row_a, row_b) or (0, 0)
        tie = say_plural(
            "{place}: {differing} of {count} index differs, its scores are within {scores}: a tie",
            "{place}: {differing} of {count} indices differ, their scores are within {scores}: ties",
            place=f"{a.keys[row_a].module} {a.keys[row_a].operator}".strip(),
            differing=count if of < names.WIDTH else say("about {count}", count=count),
            count=of,
            scores=f"{errors[row.pair + 1]:.2g}",
        )
        if len(result.ties) < _TIES:
            result.ties.append(say("step {step}: {what}", step=step, what=tie))


def _count(result: RunComparison, step: int, rows: RecordedRows, aligned: Alignment, judged: list[JudgedRow]) -> None:
    covered = result.coverage
    for key in rows.keys if result.a.world == result.b.world else ():  # else results of a rank have no partner
        covered.phases.setdefault(key.phase, False)
    for row, _ in aligned.pairs:
        covered.phases[rows.keys[row].phase] = True
    covered.aligned += len(aligned.pairs)
    signs = sum(rows.keys[row].phase == names.SIGNS for row, _ in aligned.pairs)
    covered.unmeasured += len(aligned.pairs) - signs - len(judged)
    result.aligned += len(aligned.pairs)
    result.only_a += len(aligned.only_a)
    result.only_b += len(aligned.only_b)
    result.table.add(step, rows, aligned, judged)
    for one in judged:
        if rows.keys[aligned.pairs[one.pair][0]].phase not in names.HELD:
            result.steps[step] = max(result.steps.get(step, 0.0), one.error)


def _losses(a: Record, b: Record) -> Losses:
    """Lay the losses of each step side by side."""
    of_a, of_b = _loss_by_step(a), _loss_by_step(b)
    return {step: (of_a[step], of_b[step]) for step in sorted(of_a.keys() & of_b.keys())}


def _loss_by_step(record: Record) -> dict[int, float]:
    losses: dict[int, list[float]] = {}
    for rank in record.ranks:
        for step in rank.steps:
            rows = step.rows() if step.loss else None
            if rows is None:
                continue
            values = [float(rows.sketch[row][0]) for row in step.loss if 0 <= row < len(rows.keys)]
            losses.setdefault(step.number, []).extend(values)
    return {step: float(np.mean(values)) for step, values in losses.items() if values}


def _only_states(rows: RecordedRows, aligned: Alignment) -> Alignment:
    """Keep what does not depend on how the batch was shared out."""
    kept = (names.PARAMETER, names.GRADIENT, names.UPDATE)
    return Alignment([pair for pair in aligned.pairs if rows.keys[pair[0]].phase in kept], [], [])


def _scaled(step: int, a: RecordedRows, b: RecordedRows, aligned: Alignment, reported: set[str]) -> Iterator[Cause]:
    """Say so where all gradients of one run are the same multiple of the other's: a sum in the place of a mean."""
    pairs = [pair for pair in aligned.pairs if a.keys[pair[0]].phase == names.GRADIENT]
    if len(pairs) < 2 or {"gradient scale", "collective"} & reported:
        return
    ratios, apart = [], []
    for i, j in pairs:
        value_a, value_b = a.sketch[i], b.sketch[j]
        size = float(value_a @ value_a)
        if size > 0 and np.isfinite(size):
            ratios.append(float(value_a @ value_b) / size)
            apart.append(
                float(np.linalg.norm(value_b - ratios[-1] * value_a)) / max(float(np.linalg.norm(value_b)), 1e-30)
            )
    if not ratios or float(np.median(apart)) > _MULTIPLE:
        return
    middle = float(np.median(ratios))
    spread = float(np.median(np.abs(np.asarray(ratios) - middle)))
    if abs(middle - 1) > 0.05 and spread < 0.01 * abs(middle):
        reported.add("gradient scale")
        yield Cause(
            "gradient scale",
            f"step {step}",
            "1",
            f"{middle:.4g}",
            say(
                "gradients are summed over the ranks on one side and averaged on the other, a rank is left out, or the "
                "loss is divided by another number"
            ),
            CERTAIN,
            say("all gradients of the second run are the same multiple of the first's"),
        )


def _explain(result: RunComparison, own: Losses) -> None:
    """Promote what the numbers confirm, name what only they show, and put the strongest first."""
    first = result.first
    if first is not None:
        base = first.operator.split(".")[1].rstrip("_") if "." in first.operator else ""
        product = base in _PRODUCTS
        product = product and first.first_product and first.dtype == "float32" and first.error < HALF * 8
        if product and first.error > HALF / 8:
            if not any(cause.cause == "matmul precision" and cause.grade != NOTE for cause in result.causes):
                result.causes.append(
                    Cause(
                        "matmul precision",
                        f"step {first.step}, {first.module}, {first.operator}",
                        f"norm {first.a:.6g}",
                        f"relative error {first.error:.3g}",
                        say("the error is that of inputs rounded to TF32, HF32 or bfloat16: look for a switch"),
                        POSSIBLE,
                        say("matrix products may round their inputs on one side"),
                    )
                )
        result.causes = [
            replace(cause, grade=CERTAIN)
            if cause.cause == "matmul precision" and cause.grade == POSSIBLE and product
            else cause
            for cause in result.causes
        ]
    if first is not None and first.draws and not any(cause.cause in _DRAWN for cause in result.causes):
        result.causes.append(
            Cause(
                "dropout inside of a kernel",
                f"step {first.step}, {first.module}, {first.operator}",
                f"norm {first.a:.6g}",
                f"norm {first.b:.6g}",
                say("the mask cannot be seen; compare with its dropout off"),
                POSSIBLE,
                say("an operator draws its dropout mask inside"),
            )
        )
    step = parted(result.losses, own) if result.first is None else None
    if step is not None:
        loss_a, loss_b = result.losses[step]
        result.causes.append(
            Cause(
                "loss",
                f"step {step}",
                f"{loss_a:.6g}",
                f"{loss_b:.6g}",
                say("no single operator exceeds its limit: the error grew step by step"),
                CERTAIN,
                say("the losses diverge"),
            )
        )
    causes = {cause.cause for cause in result.causes}
    if not causes & _GIVEN:
        result.causes = [
            replace(cause, grade=NOTE)
            if cause.cause in ("seed", "random state") and (cause.where in _OF_DATA or not causes & _DRAWN)
            else cause
            for cause in result.causes
        ]
    order = {CERTAIN: 0, POSSIBLE: 1}
    result.causes.sort(key=lambda cause: order.get(cause.grade, 2))


def parted(losses: Losses, own: Losses | None = None) -> int | None:
    """Return the first step whose two losses are too far apart for two runs that are the same, or None.

    Args:
        losses: Of the two runs.
        own: Of two runs of the reference: what is far for them is not far for others.
    """
    apart, usual = _apart(losses), _apart(own or {})
    limit = max(LOSS, _OWN * _last(usual))
    if not _last(apart) > limit:
        limit = max(
            _SPIKE * LOSS,
            _OWN * max((usual_loss for usual_loss in usual.values() if np.isfinite(usual_loss)), default=0.0),
        )
    return next((step for step, value in apart.items() if value > limit), None)


def _apart(losses: Losses) -> dict[int, float]:
    """Return the relative difference of each step."""
    largest = 0.0
    apart: dict[int, float] = {}
    for step, (loss, two) in losses.items():
        if not np.isfinite([loss, two]).all():
            apart[step] = 0.0 if np.isfinite(loss) == np.isfinite(two) else np.inf
            continue
        largest = max(largest, abs(loss), abs(two))
        apart[step] = abs(loss - two) / max(abs(loss), abs(two), _LEARNT * largest, 1e-30)
    return apart


def _last(apart: dict[int, float]) -> float:
    """Return the mean of the last third."""
    last = list(apart.values())[-max(1, len(apart) // 3) :]
    return float(np.mean(last)) if last else 0.0


def _once(result: RunComparison, message: Message) -> None:
    if all(message.template != known_message.template for known_message in result.left_out):
        result.left_out.append(message)


def _renamed_roots(a: Rank, b: Rank) -> dict[str, str]:
    """Return how outermost modules of the second are called in the first, where only their class differs."""
    of_a, of_b = _paths(a.steps), _paths(b.steps)
    rename: dict[str, str] = {}
    if len(of_a) * len(of_b) > _ROOTS:
        return rename
    for root, rests in of_b.items():
        if root in of_a:
            continue
        near = max(of_a, key=lambda name: len(of_a[name] & rests), default="")
        if near and near not in of_b and len(of_a[near] & rests) * 2 > len(rests):
            rename[root] = near
    return rename


def _paths(steps: Iterable[RecordedStep]) -> dict[str, set[str]]:
    paths: dict[str, set[str]] = {}
    for step in steps:
        rows = step.rows()
        if rows is None:
            continue
        for key in rows.keys:
            root, _, rest = key.module.partition(".")
            if root:
                paths.setdefault(root, set()).add(rest)
        break
    return paths
