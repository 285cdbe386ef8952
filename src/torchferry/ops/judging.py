"""What becomes of each operator that a run needs, on a target: native, composite, forced, missing or unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from torchferry.backends.operators import newer_than
from torchferry.core.messages import Message, say, translatable
from torchferry.ops.lists import OperatorList
from torchferry.ops.needs import OperatorNeed

MISSING, FORCED, UNLISTED, COMPOSITE, NATIVE = "missing", "forced", "unknown", "composite", "native"

SUPPORT = {
    MISSING: translatable("missing"),
    FORCED: translatable("on the CPU, by the vendor"),
    UNLISTED: translatable("unknown"),
    COMPOSITE: translatable("composed of others"),
    NATIVE: translatable("native"),
}
"""What can become of an operator, worst first.

`missing`: the plugin has no kernel, and torch does not make it of others. `forced`: it is registered, and the vendor
runs it on the CPU. `composite`: torch makes it of others, which are judged by themselves. `native`: registered.
"""

COPIED = frozenset({MISSING, FORCED})
"""What runs on the CPU if it runs: its tensors are copied there and back."""

ENDS_IN = {
    "convolution": ("convolution_overrideable",),
    "_convolution": ("convolution_overrideable",),
    "convolution_backward": ("convolution_backward_overrideable",),
    "copy_": ("_copy_from",),
    "_to_copy": ("_copy_from",),
    "clone": ("_copy_from",),
}
"""Composed operators that end, on a device like this, in one that only a plugin can have."""

ONLY_RAISE = frozenset(
    {
        "convolution_overrideable",
        "convolution_backward_overrideable",
        "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_dot_product_fused_attention_overrideable_backward",
    }
)
"""Operators whose composed kernel says that there is none."""

_OF_CUDA = ("cudnn_", "_cudnn_", "miopen_", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient",
            "_scaled_dot_product_cudnn", "_flash_attention", "_efficient_attention", "_fused_sdp_choice")  # fmt: skip
"""What CUDA's own libraries bring: a run on CUDA calls it where another device calls something else."""


@dataclass(frozen=True)
class JudgedOperator:
    """An operator with what becomes of it.

    Attributes:
        need: What the run needs of it.
        support: One of `SUPPORT`.
        through: The other operator that this depends on: what it is made of, or what the plugin lacks.
        remark: What else a user should know; None for nothing.
        refused: Dtypes of the run that the card's kernels do not take in any argument, by the published lists.
        refused_rank: How many dimensions a tensor of the run has that no argument may have; 0 for none.
    """

    need: OperatorNeed
    support: str
    through: str = ""
    remark: Message | None = None
    refused: tuple[str, ...] = ()
    refused_rank: int = 0

    @property
    def copied_bytes(self) -> int:
        """Bytes that go between the card and the CPU if the CPU runs it."""
        return self.need.bytes if self.support in COPIED else 0


def judge(needs: Iterable[OperatorNeed], known: OperatorList, device: str = "") -> tuple[JudgedOperator, ...]:
    """Return what becomes of operators, worst first.

    Args:
        needs: The operators.
        known: What the target's plugin registers.
        device: Type of the device that they were seen on; what CUDA's libraries bring is nobody else's.
    """
    newer = newer_than(known.table.torch)
    judged = [_judged(need, known, newer, device) for need in _reached(list(needs), known)]
    order = list(SUPPORT)
    return tuple(sorted(judged, key=lambda each: (order.index(each.support), -each.need.calls, each.need.name)))


def _reached(needs: list[OperatorNeed], known: OperatorList) -> list[OperatorNeed]:
    """Return what is called on the target: what torch composes an operator of counts only where it composes it."""
    registered = known.registered
    natives = None if registered is None else registered | known.autograd

    def composes(parent: str, open_names: frozenset[str]) -> float:
        """Return the share of a composed operator's calls that the target composes."""
        if natives is None or parent.removeprefix("aten::") in natives:
            return 0.0
        return share(parent, open_names)

    by_name = {need.name: need for need in needs}

    def share(name: str, open_names: frozenset[str] = frozenset()) -> float:
        """Return the share of an operator's calls that are made on the target."""
        need = by_name.get(name)
        if need is None or not need.inside or name in open_names or not need.calls:
            return 1.0
        within = open_names | {name}
        lost = sum(number * (1.0 - composes(parent, within)) for parent, number in need.inside.items())
        return max(0.0, 1.0 - lost / need.calls)

    reached = []
    for need in needs:
        part = share(need.name)
        calls = round(need.calls * part)
        if calls:
            reached.append(replace(need, calls=calls, bytes=round(need.bytes * part)))
    return reached


def _judged(need: OperatorNeed, known: OperatorList, newer: frozenset[str], device: str) -> JudgedOperator:
    space, _, name = need.name.partition("::")
    registered = known.registered
    if space != "aten":
        return JudgedOperator(need, UNLISTED, "", say("no list has the operators of `{library}`", library=space))
    if registered is None:
        return JudgedOperator(need, UNLISTED, "", _noted(known, name))
    if device == "cuda" and name.startswith(_OF_CUDA) and name not in registered:
        remark = say("exists only for CUDA; other devices call another operator here: trace again with `--target`")
        return JudgedOperator(need, UNLISTED, "", remark)
    derived = need.derived_from.removeprefix("aten::")
    for each in (name, derived):
        if each and (each in registered or each in known.autograd):
            through = "" if each == name else f"aten::{each}"
            return _present(need, known, each, through)
    base = name.partition(".")[0]
    if need.composition in {"implicit", "explicit"} and name not in ONLY_RAISE:
        absent = [each for each in ENDS_IN.get(name, ()) if each not in registered]
        if not absent:
            return JudgedOperator(need, COMPOSITE, "", _noted(known, name))
        return JudgedOperator(need, MISSING, f"aten::{absent[0]}", _noted(known, name))
    if base in newer or base.rstrip("_") in newer:
        remark = say("added to torch after {version}, the torch of this list", version=known.table.torch)
        return JudgedOperator(need, UNLISTED, "", remark)
    return JudgedOperator(need, MISSING, f"aten::{derived}" if derived else "", _noted(known, name))


def _present(need: OperatorNeed, known: OperatorList, name: str, through: str) -> JudgedOperator:
    table = known.table
    if name in table.forced_on(known.card):
        return JudgedOperator(need, FORCED, through, _noted(known, name))
    when = table.sometimes_forced_on(known.card).get(name)
    if when:
        return JudgedOperator(need, NATIVE, through, say("on the CPU when {condition}", condition=when))
    refused, rank = _refused(need, known, name), _refused_rank(need, known, name)
    remark = _noted(known, name) or _limited(need, known, name, refused, rank)
    return JudgedOperator(need, NATIVE, through, remark, refused, rank)


def _refused(need: OperatorNeed, known: OperatorList, name: str) -> tuple[str, ...]:
    """Return the dtypes that no argument of an operator may have; none where an argument is without a list.

    A run tells the dtypes of all arguments and results together. What one argument may have is refused by none, and of
    several dtypes a whole number may be a result's, such as the places of a sort.
    """
    limits = known.limits.of(name, known.card) if known.limits is not None else []
    return _in_none_of(need, [limit.dtypes for limit in limits if limit.dtypes is not None])


def _in_none_of(need: OperatorNeed, lists: list[frozenset[str]]) -> tuple[str, ...]:
    if not lists or len(lists) < _tensors(need):
        return ()
    asked = need.dtypes if len(need.dtypes) == 1 else [each for each in need.dtypes if not _WHOLE.match(each)]
    return tuple(dtype for dtype in asked if all(dtype not in each for each in lists))


def _tensors(need: OperatorNeed) -> int:
    return max(1, need.schema.partition("->")[0].count("Tensor"))


def _refused_rank(need: OperatorNeed, known: OperatorList, name: str) -> int:
    """Return the most dimensions of a tensor, if no argument may have as many; 0 where one is without a limit."""
    limits = known.limits.of(name, known.card) if known.limits is not None else []
    ranks = [limit.rank for limit in limits if limit.rank]
    if not ranks or len(ranks) < _tensors(need):
        return 0
    most = max((len(found.split(",")) for kind in need.shapes for found in _SHAPE.findall(kind)), default=0)
    return most if most > max(ranks) else 0


_SHAPE = re.compile(r"\[(\d[\d,]*)\]")


_WHOLE = re.compile(r"u?int\d+$|bool$")


def _limited(need: OperatorNeed, known: OperatorList, name: str, refused: tuple[str, ...], rank: int) -> Message | None:
    if known.limits is None:
        return None
    limits = known.limits.of(name, known.card)
    if refused:
        return say("no kernel of the card takes {dtypes} ({function})", dtypes=", ".join(refused),
                   function=limits[0].function)  # fmt: skip
    if rank:
        return say(
            "no kernel of the card takes {count} dimensions ({function})", count=rank, function=limits[0].function
        )
    slow = [dtype for dtype in need.dtypes if any(dtype in limit.slow for limit in limits)]
    if slow:
        return say("{dtypes}: computed on the card's own host processor, slow", dtypes=", ".join(slow))
    unlisted = _in_none_of(need, [limit.named for limit in limits if limit.named is not None])
    if unlisted:
        return say("the vendor does not say whether the kernel takes {dtypes}", dtypes=", ".join(unlisted))
    function = known.limits.varying(name, known.card)
    return say("not deterministic by default ({function})", function=function) if function else None


def _noted(known: OperatorList, name: str) -> Message | None:
    note = known.table.notes.get(name) or known.table.notes.get(name.partition(".")[0])
    return None if note is None else say("{note}", note=note)


def consequence(known: OperatorList) -> Message:
    """Return what the plugin does with an operator that it lacks."""
    return {
        "error": say("the plugin raises NotImplementedError"),
        "warn": say("the plugin runs it on the CPU, with a warning"),
        "silent": say("the plugin runs it on the CPU without a warning"),
    }.get(known.table.fallback, say("it is not known what the plugin does when it is called"))
