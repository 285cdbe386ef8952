"""How much of the reference the comparison covers: what was not compared must not pass for the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.record import Rank, Record, RecordedStep

_EXPECTED = ("forward", "backward", names.GRADIENT)
"""Phases that a run has where the reference has them. What is computed again in backward may be on one side alone."""


@dataclass
class Coverage:
    """What both records have of the reference's run.

    Attributes:
        made: Steps that the reference's run made.
        steps: Of these, how many are in both records.
        recorded: Steps that the reference has operator by operator.
        compared: Of these, how many the other has too.
        aligned: Results that have a partner.
        unmeasured: Of these, how many have one of another size: few are parts of a sum that the other adds otherwise.
        blind: Aligned results that are NaN or infinite in all that their sketches add, in both runs alike: whether they
            differ is not known.
        phases: Phases of the reference's results, and whether any has a partner.
        gaps: Why it is not all.
    """

    made: int = 0
    steps: int = 0
    recorded: int = 0
    compared: int = 0
    aligned: int = 0
    unmeasured: int = 0
    blind: int = 0
    phases: dict[str, bool] = field(default_factory=dict)
    gaps: list[Message] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing of the reference is missing."""
        return not self.gaps

    def close(self) -> None:
        """Add the gaps that are known when all steps were compared."""
        if self.compared < self.recorded:
            self.gaps.append(
                say_plural(
                    "the second record has {compared} of the {count} step that the first has operator by operator",
                    "the second record has {compared} of the {count} steps that the first has operator by operator",
                    compared=self.compared,
                    count=self.recorded,
                )
            )
        elif not self.recorded:
            self.gaps.append(say("no step of the first run was recorded operator by operator"))
        if 2 * self.unmeasured > self.aligned:
            self.gaps.append(
                say_plural(
                    "{count} result has a different size in the second run",
                    "{count} results have a different size in the second run",
                    count=self.unmeasured,
                )
            )
        if self.compared:
            self.gaps += [
                say("no result of the phase {phase} has a counterpart in the second run", phase=phase)
                for phase in _EXPECTED
                if not self.phases.get(phase, True)
            ]


def coverage(a: Record, b: Record) -> Coverage:
    """Return how many steps of the reference both records have, and why that is not all."""
    others = {rank.number: rank for rank in b.ranks}
    covered = Coverage()
    same_world = a.world == b.world
    missing = [rank.number for rank in a.ranks if rank.number not in others] if same_world else []
    pairs = [(rank, others[rank.number]) for rank in a.ranks if rank.number in others]
    shared: list[int] = []
    for rank_a, rank_b in pairs if same_world else pairs[:1]:
        steps_made = rank_a.made
        if rank_a.ended != "":  # how far it would have come nobody knows: as far as the other at least
            steps_made = max(steps_made, rank_b.made)
        have = {step.number for step in rank_b.steps}
        shared.append(sum(step.number in have for step in rank_a.steps))
        covered.made = max(covered.made, steps_made)
    covered.steps = min(shared, default=0)
    if covered.steps < covered.made:
        covered.gaps.append(
            say_plural(
                "{steps} of the {count} step of the run are in both records",
                "{steps} of the {count} steps of the run are in both records",
                steps=covered.steps,
                count=covered.made,
            )
        )
    for rank in (*a.ranks, *b.ranks):
        if covered.steps < covered.made or rank.ended is None:  # nobody knows how far it would have come
            covered.gaps += _why_short(rank)
    covered.gaps = list({str(gap): gap for gap in covered.gaps}.values())
    without = [record.folder for record in (a, b) if any(rank.version < names.VERSION for rank in record.ranks)]
    if without:
        covered.gaps.append(
            say(
                "integers, optimizer states and updates: the record {path} is of an older torchferry and has none",
                path=", ".join(map(str, without)),
            )
        )
    unobserved: dict[str, int] = {}
    for rank in a.ranks:
        for name, count in rank.unobserved.items():
            unobserved[name] = unobserved.get(name, 0) + count
    if unobserved:
        covered.gaps.append(
            say_plural(
                "{count} call was not observed, as torch would compute it by other operators below a tool: {names}",
                "{count} calls were not observed, as torch would compute them by other operators below a tool: {names}",
                count=sum(unobserved.values()),
                names=", ".join(sorted(unobserved)),
            )
        )
    if missing:
        covered.gaps.append(say("the second record lacks the ranks {ranks}", ranks=", ".join(map(str, missing))))
    return covered


def remarks(a: Record, b: Record) -> Iterator[Message]:
    """Yield what is to be known of the two records, and takes nothing away."""
    for record in (a, b):
        if any(rank.version == names.WITHOUT_CHECKSUMS for rank in record.ranks):
            yield say(
                "{path} is a record of version {version}, which has no checksums: damage may not be detected",
                path=record.folder,
                version=names.WITHOUT_CHECKSUMS,
            )
    more = max(rank.made for rank in b.ranks) - max(rank.made for rank in a.ranks)
    if more > 0:
        yield say_plural(
            "the second run made {count} more step than the first",
            "the second run made {count} more steps than the first",
            count=more,
        )


def _why_short(rank: Rank) -> Iterator[Message]:
    if rank.cut:
        yield say("{path}: its last line is incomplete", path=rank.folder / names.STEPS)
    if rank.ended is None:
        yield say("{path} has no end mark: its program was killed, crashed or is still running", path=rank.folder)
    elif rank.ended:
        yield say("{path}: the recording ended before the run: {why}", path=rank.folder, why=rank.ended)


# Where whole tensors were kept: what they show of a difference.


@dataclass(frozen=True)
class Exact:
    """The difference of two tensors, element by element.

    Attributes:
        largest: The largest absolute difference,
        at: and where it is.
        values: What the two have there.
        relative: Distance over size.
        cosine: Of the angle between them.
        differing: How many elements differ,
        of: of how many.
    """

    largest: float
    at: tuple[int, ...]
    values: tuple[float, float]
    relative: float
    cosine: float
    differing: int
    of: int


def exact(a: RecordedStep, b: RecordedStep, row_a: int, row_b: int) -> Exact | None:
    """Compare the tensors of two rows, or return None where one was not kept, or has another shape."""
    if not (a.kept_file and b.kept_file):
        return None
    tensor_a, tensor_b = a.kept(row_a), b.kept(row_b)
    if tensor_a is None or tensor_b is None or tensor_a.shape != tensor_b.shape or not tensor_a.size:
        return None
    tensor_a, tensor_b = tensor_a.astype(np.float64), tensor_b.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(tensor_a - tensor_b)
        apart = np.where(
            tensor_a == tensor_b,
            0.0,
            np.where(np.isnan(apart), np.where(np.isnan(tensor_a) & np.isnan(tensor_b), 0.0, np.inf), apart),
        )
        place = np.unravel_index(int(np.argmax(apart)), tensor_a.shape)
        size = float(np.linalg.norm(tensor_a)) or 1e-30
        relative = float(np.linalg.norm(apart)) / size
        cosine = float((tensor_a * tensor_b).sum() / (np.linalg.norm(tensor_a) * np.linalg.norm(tensor_b)))
    return Exact(
        float(apart[place]),
        tuple(int(i) for i in place),
        (float(tensor_a[place]), float(tensor_b[place])),
        relative,
        cosine,
        int((apart > 0).sum()),
        tensor_a.size,
    )
