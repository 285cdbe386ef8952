"""Did the two runs use the same optimizers, told the same?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchferry.core.messages import Message, say
from torchferry.numerics.rundiff.cause import CERTAIN, NOTE, Cause, short
from torchferry.numerics.runlog.record import Rank

_NAMES: dict[str, tuple[str, Message]] = {
    "lr": ("learning rate", say("the learning rate differs")),
    "initial_lr": ("learning rate", say("the learning rate differs")),
    "weight_decay": ("weight decay", say("the weight decay differs")),
    "eps": ("optimizer epsilon", say("the optimizer's epsilon differs")),
    "betas": ("optimizer betas", say("the optimizer's betas differ")),
    "momentum": ("momentum", say("the momentum differs")),
}
_WITHOUT_EFFECT = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Settings that choose how a step is computed: they change its rounding."""


def causes(a: Rank, b: Rank) -> Iterator[Cause]:
    """Yield each setting that differs, at the first step at which it does."""
    told: set[tuple[str, str]] = set()
    others = {step.number: step for step in b.steps}
    for step in a.steps:
        other = others.get(step.number)
        if other is None or not (step.optimizers and other.optimizers):
            continue
        if list(step.optimizers) != list(other.optimizers):
            if ("", "") not in told:
                told.add(("", ""))
                yield Cause(
                    "optimizer",
                    f"step {step.number}",
                    ", ".join(step.optimizers),
                    ", ".join(other.optimizers),
                    say("use the same optimizer, with the same settings"),
                    CERTAIN,
                    say("the optimizer differs"),
                )
            continue
        for name, groups in step.optimizers.items():
            others_groups = other.optimizers[name]
            if len(groups) != len(others_groups) and (name, "") not in told:
                told.add((name, ""))
                yield Cause(
                    "optimizer groups",
                    f"step {step.number}, {name}",
                    str(len(groups)),
                    str(len(others_groups)),
                    say("group the parameters in the same way on both sides"),
                    CERTAIN,
                    say("the optimizer has other groups of parameters"),
                )
                continue
            for number, (one, two) in enumerate(zip(groups, others_groups, strict=False)):
                for key in sorted(one.keys() & two.keys()):
                    if not _equal(one[key], two[key]) and (name, key) not in told:
                        told.add((name, key))
                        yield _cause(step.number, name, number, key, one[key], two[key])


def _cause(step: int, name: str, group: int, key: str, a: Any, b: Any) -> Cause:
    what, text = _NAMES.get(key, (f"optimizer {key}", say("the optimizer's setting {name} differs", name=key)))
    effect = key not in _WITHOUT_EFFECT
    return Cause(
        what,
        f"step {step}, {name}, group {group}, {key}",
        short(a),
        short(b),
        say("set the same value on both sides; a scheduler may change it")
        if effect
        else say("the steps are computed in another way, with other rounding"),
        CERTAIN if effect else NOTE,
        text,
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b))
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal(one, two) for one, two in zip(a, b, strict=True))
    return bool(a == b)
