"""Ranks: what should be equal on all processes of a training is compared, and the first that differs is named.

A number for each tensor is gathered, and no pickle.
"""

from __future__ import annotations

import weakref
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from torchferry.core.messages import Message, say, say_plural
from torchferry.core.terminal import print_notice
from torchferry.numerics.framework import torch_versions
from torchferry.numerics.framework.attribution import ModulePaths
from torchferry.numerics.framework.dispatch import WithoutDispatchModes
from torchferry.numerics.framework.steps import Steps
from torchferry.numerics.recording.sketching import Hasher

# A number for the bits of a tensor, made on its device: tensors with the same number are the same, bit for bit.

_HASHER = Hasher()


def sketches(tensors: Sequence[Tensor | None]) -> Tensor:
    """Return int64[n, 2] on the CPU: for each tensor the hash of its bits, and the bits of its norm as float64.

    A tensor that is not there has its own number. The device is waited for once for each device.
    """
    with torch.no_grad():
        hashes = [_sketch(tensor) for tensor in tensors]
    rows = torch.zeros(len(hashes), 2, dtype=torch.int64)
    for device in {number.device for number, _ in hashes}:
        own = [index for index, (number, _) in enumerate(hashes) if number.device == device]
        numbers = torch.stack([hashes[index][0] for index in own]).cpu()
        norms = torch.stack([hashes[index][1] for index in own]).cpu()
        rows[own, 0] = numbers
        rows[own, 1] = norms.to(torch.float64).view(torch.int64)
    return rows


def _sketch(tensor: Tensor | None) -> tuple[Tensor, Tensor]:
    if tensor is None:
        return torch.tensor(-1, dtype=torch.int64), torch.tensor(0.0)
    tensor = tensor.detach()
    number = _HASHER.whole(tensor)[0]
    numbers = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    floating = numbers.is_floating_point() and numbers.element_size() > 1
    norm = torch.linalg.vector_norm(numbers.float()) if floating else torch.zeros(())
    return number, norm.float().to(number.device)


# Which tensors of a model must be the same on all ranks, and why the others need not be.


PARAMETER, GRADIENT, BUFFER = "parameter", "gradient", "buffer"


@dataclass
class Chosen:
    """What is compared of a model.

    Attributes:
        names: Kind and name of each tensor, `("gradient", "blocks.0.weight")`.
        tensors: The tensors; None for a gradient that is not there.
        left_out: Why tensors are not compared, with their names.
    """

    names: list[tuple[str, str]] = field(default_factory=list)
    tensors: list[Tensor | None] = field(default_factory=list)
    left_out: dict[Message, list[str]] = field(default_factory=dict)

    def add(self, kind: str, name: str, tensor: Tensor | None) -> None:
        """Compare a tensor, or say why not."""
        reason = None if tensor is None else _unfit(tensor)
        if reason is not None:
            self.leave(reason, name)
        else:
            self.names.append((kind, name))
            self.tensors.append(tensor)

    def leave(self, reason: Message, name: str) -> None:
        """Note that a tensor is not compared."""
        self.left_out.setdefault(reason, []).append(name)


def choose(model: nn.Module, gradients: bool, buffers: bool) -> Chosen:
    """Return what of a model must be the same on all ranks."""
    chosen = Chosen()
    ignored, prefix = _ignored(model)
    sharded = _sharded(model)
    for name, parameter in model.named_parameters():
        short = name.removeprefix(prefix)
        if short in ignored:
            chosen.leave(say("DistributedDataParallel is configured to ignore them"), short)
        elif any(name == path or name.startswith(f"{path}.") or not path for path in sharded):
            chosen.leave(say("each rank has a part of them (FSDP)"), short)
        else:
            chosen.add(PARAMETER, short, parameter)
            if gradients and parameter.requires_grad and chosen.names[-1:] == [(PARAMETER, short)]:
                chosen.add(GRADIENT, short, parameter.grad)
    for name, buffer in model.named_buffers():
        short = name.removeprefix(prefix)
        if short in ignored:
            chosen.leave(say("DistributedDataParallel is configured to ignore them"), short)
        elif buffers:
            chosen.add(BUFFER, short, buffer)
        else:
            chosen.leave(
                say("buffers may differ between ranks; only check_equal_across_ranks(buffers=True) compares them"),
                short,
            )
    return chosen


def _ignored(model: nn.Module) -> tuple[frozenset[str], str]:
    """Return the names that DistributedDataParallel leaves alone, and what it puts in front of names."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return frozenset(getattr(model, "parameters_to_ignore", ())), "module."
    return frozenset(), ""


def _sharded(model: nn.Module) -> list[str]:
    """Return the paths of modules whose parameters FSDP (the first one) has cut up; the second one has DTensors."""
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except ImportError:
        return []
    return [name for name, module in model.named_modules() if isinstance(module, FullyShardedDataParallel)]


def _unfit(tensor: Tensor) -> Message | None:
    if type(tensor) not in torch_versions.OWN_CLASSES:
        if hasattr(tensor, "placements"):
            return say("each rank has a part of them (DTensor)")
        return say("they are of a special class, {kind}", kind=type(tensor).__name__)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return say("they are sparse, quantized or nested")
    if tensor.device.type == "meta":
        return say("they have no values (meta)")
    return None


TIMEOUT = 60.0
"""Seconds to wait for a rank."""


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
                {
                    "kind": difference.kind,
                    "name": difference.name,
                    "ranks": list(difference.ranks),
                    "norms": list(difference.norms),
                }
                for difference in self.differences
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
    """Check whether parameters and gradients that should be equal on all ranks are, bit for bit.

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
        return Agreement(left_out=chosen.left_out, failure=say("there is only one process"), step=step)
    ranks = tuple(dist.get_process_group_ranks(group if group is not None else dist.group.WORLD))
    try:
        with WithoutDispatchModes():
            own = _group(group, ranks, timeout)
            dist.monitored_barrier(own, timedelta(seconds=timeout), wait_all_ranks=True)
            return _compared(chosen, own, ranks, step)
    except (RuntimeError, ValueError) as error:
        _GROUPS.clear()  # who was late may be anywhere in it
        reason = str(error).strip().partition("\n")[0][:300]
        why = say("not all ranks arrived within {seconds} s: {error}", seconds=f"{timeout:g}", error=reason)
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
    wrong = _against_most([tuple(head.tolist()) for head in heads], ranks)
    if wrong:
        why = say(
            "rank {ranks} has different tensors or is at a different step than the others ({counts} tensors by rank)",
            ranks=", ".join(map(str, wrong)),
            counts=", ".join(str(int(head[0])) for head in heads),
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
    gathered = [torch.empty_like(value) for _ in ranks]
    dist.all_gather(gathered, value, group=group)
    return gathered


def _against_most(values: list[Any], ranks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks whose value is not that of most of them; in a draw, not that of the lowest rank."""
    counts = Counter(values)
    most = max(counts.values())
    usual = next(value for value in values if counts[value] == most)
    return tuple(rank for rank, value in zip(ranks, values, strict=True) if value != usual)


# Compare the ranks of a program each N steps, before the optimizer changes the parameters.


class RankWatch:
    """Compares what DistributedDataParallel keeps equal; models that it does not wrap are each rank's own.

    It stops after the first difference, and after a rank that did not answer: what follows would say no more.

    Attributes:
        checks: How many comparisons there were.
        found: The first that was not equal, or the last one; None where there was none.
    """

    def __init__(self, every: int, timeout: float = TIMEOUT) -> None:
        self.checks = 0
        self.found: Agreement | None = None
        self._every = max(every, 1)
        self._timeout = timeout
        self._steps = Steps()
        self._modules = ModulePaths()
        self._roots: list[weakref.ref[nn.Module]] = []  # in the order that they were met, as on all ranks
        self._done = -1
        self._active = False

    def start(self) -> None:
        """Begin to follow models and steps."""
        self._modules.on_root.append(self._meet)
        self._modules.start()
        self._steps.before.append(self._check)
        self._steps.skipped.append(self._check)  # a scaler may leave a step out on one rank and not on another
        self._steps.start()
        self._active = True

    def stop(self) -> None:
        """Follow no more."""
        self._modules.stop()
        self._steps.stop()
        self._active = False

    def document(self) -> dict[str, Any]:
        """Return what was found, in values that JSON has."""
        document = self.found.document() if self.found is not None else {"equal": None}
        said = {lang: [line.render(lang) for line in self.lines()] for lang in ("en", "zh")}
        return {"checks": self.checks, **document, "said": said}

    def lines(self) -> list[Message]:
        """Return what is to be said at the end."""
        if self.found is None:
            return [say("the ranks were not compared: {why}", why=say("no DistributedDataParallel model was trained"))]
        return self.found.lines()

    def _meet(self, module: nn.Module, args: Any) -> None:
        if isinstance(module, nn.parallel.DistributedDataParallel):
            if not any(root() is module for root in self._roots):
                self._roots.append(weakref.ref(module))

    def _check(self, optimizer: Optimizer) -> None:
        step = self._steps.count
        if not self._active or step == self._done or step % self._every or not dist.is_initialized():
            return
        self._done = step
        owned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for model in filter(None, [root() for root in self._roots]):
            if not any(id(parameter) in owned for parameter in model.parameters()):
                continue
            agreement = check_equal_across_ranks(model, group=model.process_group, timeout=self._timeout, step=step)
            self.checks += 1
            self.found = agreement
            if not agreement.equal:
                self._active = False
                self._tell(agreement)
                return

    def _tell(self, agreement: Agreement) -> None:
        if dist.get_rank() == agreement.ranks[0]:
            for line in agreement.lines()[:2]:
                said = say("step {step}: {what}", step=agreement.step, what=line).render()
                print_notice(f"torchferry: {said}")
