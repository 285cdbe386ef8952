"""Ask all ranks whether tensors that should be equal are: a number for each tensor is gathered, and no pickle."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.ranks.chosen import GRADIENT, Chosen, choose
from torchferry.numerics.ranks.sketch import sketches
from torchferry.numerics.unseen import Unseen

TIMEOUT = 60.0
"""Seconds that a rank may be late."""


@dataclass(frozen=True)
class Difference:
    """A tensor that is not the same on all ranks.

    Attributes:
        kind: `parameter`, `gradient` or `buffer`.
        name: Its name in the model.
        ranks: The ranks that differ from most of them; with no majority, from the lowest one.
        norms: Its norm on each rank.
    """

    kind: str
    name: str
    ranks: tuple[int, ...]
    norms: tuple[float, ...]

    def message(self) -> Message:
        """Return `gradient fc.weight differs on rank 1; norms: 1.5, 1.7`."""
        norms = ", ".join(f"{norm:.6g}" for norm in self.norms[:8]) + (", ..." if len(self.norms) > 8 else "")
        return say(
            "{kind} {name} differs on rank {ranks}; norms by rank: {norms}",
            kind=self.kind,
            name=self.name,
            ranks=", ".join(map(str, self.ranks)),
            norms=norms,
        )


@dataclass(frozen=True)
class Agreement:
    """What a check came to.

    Attributes:
        compared: Tensors that were compared.
        ranks: Ranks that took part.
        differences: Tensors that differ, in the order of the model.
        left_out: Why tensors were not compared, with their names.
        failure: Why there was no comparison; None where there was.
        step: The step after which it was asked.
    """

    compared: int = 0
    ranks: tuple[int, ...] = ()
    differences: tuple[Difference, ...] = ()
    left_out: dict[Message, list[str]] = field(default_factory=dict)
    failure: Message | None = None
    step: int | None = None

    @property
    def equal(self) -> bool:
        """Whether something was compared, and all of it is equal."""
        return self.failure is None and not self.differences and self.compared > 0

    def lines(self) -> list[Message]:
        """Return what is to be said of it: the first tensor that differs, how many, and what was left out."""
        said = []
        if self.failure is not None:
            said.append(say("the ranks were not compared: {why}", why=self.failure))
        elif self.differences:
            said.append(self.differences[0].message())
            if len(self.differences) > 1:
                said.append(
                    say_plural(
                        "{n} of {count} tensor differs",
                        "{n} of {count} tensors differ",
                        n=len(self.differences),
                        count=self.compared,
                    )
                )
        elif self.compared:
            said.append(
                say_plural(
                    "{count} tensor is equal on {ranks} ranks",
                    "{count} tensors are equal on {ranks} ranks",
                    count=self.compared,
                    ranks=len(self.ranks),
                )
            )
        else:
            said.append(say("the ranks were not compared: {why}", why=say("no tensor of the model has to be equal")))
        said += [
            say_plural(
                "{count} tensor was not compared: {why}",
                "{count} tensors were not compared: {why}",
                count=len(names),
                why=why,
            )
            for why, names in self.left_out.items()
        ]
        return said

    def document(self) -> dict[str, Any]:
        """Return it in values that JSON has."""
        return {
            "step": self.step,
            "compared": self.compared,
            "ranks": list(self.ranks),
            "equal": self.equal,
            "failure": None if self.failure is None else self.failure.render("en"),
            "differences": [
                {"kind": one.kind, "name": one.name, "ranks": list(one.ranks), "norms": list(one.norms)}
                for one in self.differences
            ],
            "left_out": {why.render("en"): names for why, names in self.left_out.items()},
        }


_GROUPS: dict[tuple[Any, float], Any] = {}
"""For a process group, the group of this check: it has a time limit of its own, and works on the CPU."""


def check_equal_across_ranks(
    model: nn.Module,
    *,
    gradients: bool = True,
    buffers: bool = False,
    group: Any = None,
    timeout: float = TIMEOUT,
    step: int | None = None,
) -> Agreement:
    """Ask whether parameters and gradients that should be equal on all ranks are, bit for bit.

    All ranks of the group call it at the same point: with gradients after they were reduced, so after `backward` and
    before `optimizer.step`. Parts of parameters (FSDP, DTensor) and what DistributedDataParallel ignores are left out.

    Args:
        model: The model, or what wraps it.
        gradients: Whether gradients are compared as well.
        buffers: Whether buffers are compared, which are equal only from a broadcast to the next forward.
        group: The process group; without it, all ranks.
        timeout: Seconds to wait for the others; who does not answer is named, and nothing is raised.
        step: For the report.
    """
    if group is not None and group is dist.group.WORLD:
        group = None
    chosen = choose(model, gradients, buffers)
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size(group) < 2:
        return Agreement(left_out=chosen.left_out, failure=say("there is one process only"), step=step)
    ranks = tuple(dist.get_process_group_ranks(group if group is not None else dist.group.WORLD))
    try:
        with Unseen():
            own = _group(group, ranks, timeout)
            dist.monitored_barrier(own, timedelta(seconds=timeout), wait_all_ranks=True)
            return _compared(chosen, own, ranks, step)
    except (RuntimeError, ValueError) as error:
        _GROUPS.clear()  # who was late may be anywhere in it
        reason = str(error).strip().partition("\n")[0][:300]
        why = say("not all ranks came within {seconds} s: {error}", seconds=f"{timeout:g}", error=reason)
        return Agreement(ranks=ranks, left_out=chosen.left_out, failure=why, step=step)


def _group(group: Any, ranks: tuple[int, ...], timeout: float) -> Any:
    key = (group if group is not None else dist.group.WORLD, timeout)
    if key not in _GROUPS:
        _GROUPS[key] = dist.new_group(
            list(ranks), timeout=timedelta(seconds=timeout), backend="gloo", use_local_synchronization=group is not None
        )
    return _GROUPS[key]


def _compared(chosen: Chosen, group: Any, ranks: tuple[int, ...], step: int | None) -> Agreement:
    outline = [
        (kind, name, None if tensor is None or kind == GRADIENT else (tuple(tensor.shape), tensor.dtype))
        for (kind, name), tensor in zip(chosen.names, chosen.tensors, strict=True)
    ]
    number = zlib.crc32(repr(outline).encode())
    head = torch.tensor([len(outline), number, -1 if step is None else step], dtype=torch.int64)
    heads = _gathered(head, ranks, group)
    wrong = _against_most([tuple(one.tolist()) for one in heads], ranks)
    if wrong:
        why = say(
            "rank {ranks} has other tensors or is at another step than the others ({counts} tensors by rank)",
            ranks=", ".join(map(str, wrong)),
            counts=", ".join(str(int(one[0])) for one in heads),
        )
        return Agreement(ranks=ranks, left_out=chosen.left_out, failure=why, step=step)
    if not chosen.names:
        return Agreement(ranks=ranks, left_out=chosen.left_out, step=step)
    rows = torch.stack(_gathered(sketches(chosen.tensors), ranks, group))
    differences = []
    for index in (rows[:, :, 0] != rows[:1, :, 0]).any(dim=0).nonzero().flatten().tolist():
        kind, name = chosen.names[index]
        norms = rows[:, index, 1].contiguous().view(torch.float64).tolist()
        apart = _against_most(rows[:, index, 0].tolist(), ranks)
        differences.append(Difference(kind, name, apart, tuple(norms)))
    return Agreement(len(chosen.names), ranks, tuple(differences), chosen.left_out, step=step)


def _gathered(value: torch.Tensor, ranks: tuple[int, ...], group: Any) -> list[torch.Tensor]:
    found = [torch.empty_like(value) for _ in ranks]
    dist.all_gather(found, value, group=group)
    return found


def _against_most(values: list[Any], ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks whose value is not that of most of them; in a draw, not that of the lowest rank."""
    counts = Counter(values)
    most = max(counts.values())
    usual = next(value for value in values if counts[value] == most)
    return tuple(rank for rank, value in zip(ranks, values, strict=True) if value != usual)
