"""Two runs side by side: the difference of a step's time divided into its parts, and the operators that make it.

Every part of `summary.PARTS` is subtracted from its counterpart, so that the differences sum to that of the step.
Operators are matched by what torch dispatches, which both vendors have: what a plugin calls inside of one counts for
it. What one side fuses is matched by its place (`places.py`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchferry.core.messages import Message, say, say_plural, translatable
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.profiling.places import PlaceRow, places
from torchferry.profiling.reading import DTYPES_AFTER, locate, read
from torchferry.profiling.steps import PARTS
from torchferry.profiling.summary import DISPATCHED, Summary, TimeRow, summarise

_COMPARED = (
    *("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm", "aten::linear", "aten::matmul"),
    *("aten::convolution", "aten::_convolution", "aten::conv1d", "aten::conv2d", "aten::conv3d"),
    *("aten::scaled_dot_product_attention", "aten::embedding"),
)
"""Operators whose inputs show whether two runs do the same: they are called by programs and not by plugins."""

_CALLS_DIFFER = 0.01
"""Share by which the calls of an operator in a step may differ, for a step that is sometimes another."""

T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Quantiles 0.975 of Student's t for 1 to 20 degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2); 1.96 above."""


@dataclass(frozen=True)
class ProfiledRun:
    """The traces of one run.

    Attributes:
        path: Where they are.
        ranks: A summary for each rank; the first one has its records.
        earlier: Traces in the folder that are not counted, since a later one is of the same rank.
        cut_short: Later traces of a rank that are not counted, since the program did nothing in their steps.
    """

    path: Path
    ranks: tuple[Summary, ...]
    earlier: int = 0
    cut_short: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether each trace is whole: nothing is missing or cannot be read, and its steps hold work."""
        return not any(
            rank.trace.faults or rank.unseen or rank.is_empty or (rank.trace.foreign and not rank.on_device)
            for rank in self.ranks
        )

    @property
    def first(self) -> Summary:
        """Return the summary of the lowest rank."""
        return self.ranks[0]

    def mean(self, part: str) -> float:
        """Return the mean nanoseconds of a part of a step over all steps and ranks."""
        return statistics.fmean(rank.mean(part) for rank in self.ranks)

    def median(self, part: str) -> float:
        """Return the median nanoseconds of a part of a step over the medians of the ranks."""
        return statistics.median(rank.median(part) for rank in self.ranks)

    @property
    def step(self) -> float:
        """Return the mean time of a step in nanoseconds over all steps and ranks."""
        return statistics.fmean(statistics.fmean(rank.step_times) for rank in self.ranks)

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """Return the ranks that the traces in a folder speak of and that have none there."""
        if not self.path.is_dir():
            return ()
        size = max(rank.trace.world_size for rank in self.ranks)
        present = {rank.trace.rank for rank in self.ranks}
        return () if present == {-1} else tuple(number for number in range(size) if number not in present)


class PartRow(NamedTuple):
    """One part of a step in both runs, in nanoseconds.

    Attributes:
        name: One of `PARTS`.
        base: Mean in the base.
        target: Mean in the target.
    """

    name: str
    base: float
    target: float

    @property
    def difference(self) -> float:
        """Return how much more the target takes."""
        return self.target - self.base


class MatchedRow(NamedTuple):
    """An operator or module in both runs; nanoseconds and calls of one step.

    Attributes:
        name: The operator or module.
        base: Its own time in the base; None where it does not occur.
        target: Its own time in the target; None where it does not occur.
        base_calls: Calls in the base.
        target_calls: Calls in the target.
    """

    name: str
    base: float | None
    target: float | None
    base_calls: float = 0.0
    target_calls: float = 0.0

    @property
    def difference(self) -> float:
        """Return how much more the target takes."""
        return (self.target or 0.0) - (self.base or 0.0)


class CollectivePair(NamedTuple):
    """Collectives of one kind and size in both runs.

    Attributes:
        name: The collective.
        size: Bytes that a rank puts in.
        base: Bytes a second in the base; None where it does not occur.
        target: Bytes a second in the target; None where it does not occur.
        base_calls: Calls in a step of the base.
        target_calls: Calls in a step of the target.
    """

    name: str
    size: int
    base: float | None
    target: float | None
    base_calls: float
    target_calls: float


class RankRow(NamedTuple):
    """One rank of a run.

    Attributes:
        rank: Its number.
        step: Mean time of its steps in nanoseconds.
        compute: Mean time of these in which it computes.
        median: Median time of its steps.
        communication: Mean time of a step in which it communicates.
        hidden: Share of the communication that is hidden behind computing; None without communication.
    """

    rank: int
    step: float
    compute: float
    median: float
    communication: float
    hidden: float | None


@dataclass(frozen=True)
class TraceComparison:
    """Two runs side by side.

    Attributes:
        base: The first run of the base.
        target: The first run of the target.
        parts: The parts of a step.
        operators: Operators of torch, by the size of their difference, without what is in `places`.
        places: Operators that are on both sides at the same place under other names, by the size of their difference.
        modules: Modules, by the size of their difference; empty where a trace has none.
        collectives: Collectives by kind and size, where both traces say these; largest first.
        obstacles: Why the two are not comparable.
        unjudged: What a trace does not say, so that it was not compared.
        settings: What differs in the settings that the traces name: name, base, target.
        interval: The 95 % confidence interval of the difference of a step in nanoseconds; None with fewer than two
            runs of each side.
    """

    base: ProfiledRun
    target: ProfiledRun
    parts: tuple[PartRow, ...]
    operators: tuple[MatchedRow, ...]
    places: tuple[PlaceRow, ...]
    modules: tuple[MatchedRow, ...]
    collectives: tuple[CollectivePair, ...]
    obstacles: tuple[Message, ...]
    unjudged: tuple[Message, ...]
    settings: tuple[tuple[str, str, str], ...]
    interval: tuple[float, float] | None

    @property
    def difference(self) -> float:
        """Return how much longer a step of the target takes, in nanoseconds."""
        return self.target.step - self.base.step


def open_run(path: Path) -> ProfiledRun:
    """Return the run whose traces are at a path: a file, or a folder with one for each rank.

    Of several traces of a rank the last one counts: the program is warmest then. One in whose steps the program did
    nothing does not count where there is another: the recording was stopped when its first step had just begun.

    Raises:
        TorchferryError: there is no trace, or one cannot be read.
    """
    ranks: list[Summary] = []
    earlier = cut_short = 0
    for file in locate(path):
        trace = read(file)
        with doing(say("evaluating {path}", path=file.name)):
            summary = summarise(trace)
        if ranks and summary.trace.rank == ranks[-1].trace.rank >= 0:
            if summary.is_empty and not ranks[-1].is_empty:
                cut_short += 1
                continue
            ranks.pop()
            earlier += 1
        ranks.append(summary if not ranks else summary.without_records())
    return ProfiledRun(path, tuple(ranks), earlier, cut_short)


def rank_rows(run: ProfiledRun) -> tuple[RankRow, ...]:
    """Return the ranks of a run; the one that computes longest, for which the others wait, comes first."""
    rows = (
        RankRow(
            rank.trace.rank,
            statistics.fmean(rank.step_times),
            rank.mean("compute"),
            statistics.median(rank.step_times),
            rank.overlap.communication / len(rank.steps),
            rank.overlap.share,
        )
        for rank in run.ranks
    )
    return tuple(sorted(rows, key=lambda row: (-row.compute, row.rank)))


def compare(
    base: ProfiledRun,
    target: ProfiledRun,
    more_base: Sequence[ProfiledRun] = (),
    more_target: Sequence[ProfiledRun] = (),
) -> TraceComparison:
    """Return two runs side by side.

    Args:
        base: A run of the reference.
        target: A run of the target.
        more_base: Further runs of the reference, for an interval.
        more_target: Further runs of the target.
    """
    unjudged: list[Message] = []
    sides = base.first, target.first
    operators = _matched(*sides, [summary.rows(DISPATCHED) for summary in sides])
    obstacles = [*_obstacles(base, target), *_other_work(*sides, operators, unjudged)]
    by_place = places(*sides)
    if by_place.rows:
        remaining = [summary.rows_without(those) for summary, those in zip(sides, by_place.members, strict=True)]
        operators = _matched(*sides, remaining)
    if not by_place.have_modules and any(row.name and None in (row.base, row.target) for row in operators):
        unjudged.append(say("operators that one side fuses: modules were not recorded in both traces"))
    if by_place.unfit:
        unjudged.append(
            say_plural(
                "operators that one side fuses, at {count} place: modules or their order differ too much there",
                "operators that one side fuses, at {count} places: modules or their order differ too much there",
                count=by_place.unfit,
            )
        )
    by_module = all(any(row.name for row in run.first.rows("module")) for run in (base, target))
    return TraceComparison(
        base,
        target,
        tuple(PartRow(part, base.mean(part), target.mean(part)) for part in PARTS),
        operators,
        by_place.rows,
        _matched(*sides, [summary.rows("module") for summary in sides]) if by_module else (),
        _collectives(base.first, target.first),
        tuple(obstacles),
        tuple(unjudged),
        _settings(base.first, target.first),
        _interval([run.step for run in (base, *more_base)], [run.step for run in (target, *more_target)]),
    )


def _obstacles(base: ProfiledRun, target: ProfiledRun) -> list[Message]:
    obstacles: list[Message] = []
    for run in (base, target):
        for summary in run.ranks:
            obstacles += [
                say("{path}: {fault}", path=summary.trace.path, fault=fault) for fault in summary.trace.faults
            ]
    for run in (base, target):
        if run.first.trace.settings.get("rehearsal"):
            obstacles.append(say("{path} was rehearsed: its times are those of a CPU, not of the card", path=run.path))
    if base.first.marked != target.first.marked:
        unmarked = target if base.first.marked else base
        obstacles.append(
            say("{path} marks no steps, and the other trace does; profiler.step() marks them", path=unmarked.path)
        )
    sizes = [max(rank.trace.world_size for rank in run.ranks) or len(run.ranks) for run in (base, target)]
    if sizes[0] != sizes[1]:
        obstacles.append(say("the base ran on {base} ranks, the target on {target}", base=sizes[0], target=sizes[1]))
    if base.first.on_device != target.first.on_device:
        without = target if base.first.on_device else base
        obstacles.append(say("{path} has no work of a device, and the other trace has", path=without.path))
    return obstacles


def _other_work(
    base: Summary, target: Summary, operators: Sequence[MatchedRow], unjudged: list[Message]
) -> list[Message]:
    """Return how the inputs of the two runs differ: shapes, dtypes, calls."""
    obstacles: list[Message] = []
    sides = [_inputs(summary) for summary in (base, target)]
    if not all(any(shapes for shapes, _ in side.values()) for side in sides):
        unjudged.append(say("shapes and dtypes were not recorded in both traces: record_shapes=True records them"))
    for name in _COMPARED:
        if name not in sides[0] or name not in sides[1]:
            continue
        for number, differing in enumerate(_DIFFERING):
            first, second = sides[0][name][number], sides[1][name][number]
            if first and second and first != second:
                obstacles.append(
                    say(
                        differing,
                        name=name,
                        base=_some(first - second),
                        target=_some(second - first),
                    )
                )
    for row in operators:
        if row.name in _COMPARED and min(row.base_calls, row.target_calls) > 0:
            if abs(row.target_calls - row.base_calls) > _CALLS_DIFFER * max(row.base_calls, row.target_calls):
                obstacles.append(
                    say(
                        "{name} is called {base} times a step in the base, {target} in the target",
                        name=row.name,
                        base=f"{row.base_calls:g}",
                        target=f"{row.target_calls:g}",
                    )
                )
    return obstacles[:_SHOWN]


_SHOWN, _SHOWN_INPUTS = 8, 3
_DIFFERING = (
    translatable("{name} has inputs of {base} in the base, of {target} in the target"),
    translatable("{name} computes in {base} in the base, in {target} in the target"),
)


def _some(inputs: frozenset[str]) -> Message:
    """Return a few inputs as text."""
    shown = ", ".join(sorted(inputs)[:_SHOWN_INPUTS])
    if len(inputs) > _SHOWN_INPUTS:
        return say("{inputs} and {count} more", inputs=shown, count=len(inputs) - _SHOWN_INPUTS)
    return say("{inputs}", inputs=shown or "-")


def _inputs(summary: Summary) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Return for each operator that is compared the shapes and the dtypes of its inputs."""
    shapes: dict[str, set[str]] = {}
    dtypes: dict[str, set[str]] = {}
    for row in summary.rows("shape"):
        if row.name in _COMPARED:
            shape, _, dtype = row.detail.partition(DTYPES_AFTER)
            shapes.setdefault(row.name, set()).update([shape] if shape else [])
            dtypes.setdefault(row.name, set()).update([dtype] if dtype else [])
    return {name: (frozenset(shapes[name]), frozenset(dtypes[name])) for name in shapes}


def _matched(base: Summary, target: Summary, timed: Sequence[Sequence[TimeRow]]) -> tuple[MatchedRow, ...]:
    sides = [{row.name: row for row in rows} for rows in timed]
    rows = [
        MatchedRow(
            name,
            _own_time(base, sides[0].get(name)),
            _own_time(target, sides[1].get(name)),
            sides[0][name].calls / len(base.steps) if name in sides[0] else 0.0,
            sides[1][name].calls / len(target.steps) if name in sides[1] else 0.0,
        )
        for name in {**sides[0], **sides[1]}
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference), row.name)))


def _collectives(base: Summary, target: Summary) -> tuple[CollectivePair, ...]:
    """Return the collectives of both sides by kind and size; none where a side names no kinds or sizes."""
    sides = []
    for summary in (base, target):
        named = [row for row in summary.collectives if row.bandwidth is not None]
        if not named:
            return ()
        sides.append({(_kind_of_collective(row.name), row.size): row for row in named})
    steps = len(base.steps), len(target.steps)
    pairs = []
    for name, size in sorted({*sides[0], *sides[1]}, key=lambda key: (-key[1], key[0])):
        first, second = sides[0].get((name, size)), sides[1].get((name, size))
        pairs.append(
            CollectivePair(
                name,
                size,
                None if first is None else first.bandwidth,
                None if second is None else second.bandwidth,
                first.calls / steps[0] if first is not None else 0.0,
                second.calls / steps[1] if second is not None else 0.0,
            )
        )
    return tuple(pairs)


def _kind_of_collective(name: str) -> str:
    """Return the name of a collective as both sides may write it: `all_reduce`, `allreduce` and `AllReduce` are one."""
    return name.lower().replace("_", "")


def _own_time(summary: Summary, row: TimeRow | None) -> float | None:
    if row is None:
        return None
    return (row.device_self if summary.on_device else row.host_self) / len(summary.steps)


def _settings(base: Summary, target: Summary) -> tuple[tuple[str, str, str], ...]:
    sides = [dict(summary.trace.settings) for summary in (base, target)]
    for side, summary in zip(sides, (base, target), strict=True):
        if summary.trace.device_names:
            side["device"] = summary.trace.device_names[0]
    names = sorted({*sides[0], *sides[1]})
    return tuple(
        (name, sides[0].get(name, ""), sides[1].get(name, ""))
        for name in names
        if sides[0].get(name, "") != sides[1].get(name, "")
    )


def _interval(base: list[float], target: list[float]) -> tuple[float, float] | None:
    """Return Welch's 95 % interval of the difference of the means; None with fewer than two runs of a side."""
    if len(base) < 2 or len(target) < 2:
        return None
    shares = [statistics.variance(side) / len(side) for side in (base, target)]
    spread = sum(shares)
    difference = statistics.fmean(target) - statistics.fmean(base)
    if spread == 0:
        return difference, difference
    freedom = spread**2 / sum(share**2 / (len(side) - 1) for share, side in zip(shares, (base, target), strict=True))
    quantile = T_95[int(freedom) - 1] if 1 <= int(freedom) <= len(T_95) else 1.96 if freedom > 1 else T_95[0]
    reach = quantile * math.sqrt(spread)
    return difference - reach, difference + reach
