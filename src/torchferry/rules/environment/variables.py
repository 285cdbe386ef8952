"""What an environment variable of CUDA becomes; shared by the rules for Python, shell and configuration."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.backends.variable_values import hides_every_card, is_open, names_nvidia_card
from torchferry.backends.variable_values import refusal as value_refusal
from torchferry.core.finding import Effect, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.core.record import NamedTuple

VARIABLE = lazy_regex(
    r"(?:TORCH_)?(?:CUDA|CUDNN|CUBLAS|NCCL|NVIDIA)_[A-Z0-9_]*[A-Z0-9]\Z|PYTORCH_(?:NO_)?CUDA_\w+\Z|DIFFUSERS_ATTN_BACKEND\Z|DIFFUSERS_ATTENTION_TYPE\Z"
)
"""A whole word that is spelt as an environment variable of CUDA, NCCL or the NVIDIA container runtime."""


class VariableReplacement(NamedTuple):
    """What to do about one variable: `use` is empty where nothing is written in its place.

    `refused` says that the target has such a variable, and a person decides its value; `is_outside`, that the value is
    none which that variable takes. `effect` is what becomes of the setting where nothing is done.
    """

    use: str
    grade: Grade
    message: Message
    refused: bool = False
    effect: Effect = Effect.WRONG
    is_outside: bool = False


@lru_cache(maxsize=1)
def known_variables() -> frozenset[str]:
    """Return the variables that the tables speak of."""
    return frozenset().union(*(group.names for group in cuda.groups("env").values()))


def replacement(target: Target, name: str, value: str | None = None) -> VariableReplacement | None:
    """Return what to do about a variable, or None for one that says nothing about CUDA.

    Args:
        target: The target.
        name: The variable.
        value: The value that it is given there; None where it is given none, or one that is not written there.
    """
    if name in known_variables():
        row = target.row("env", name)
    elif name.startswith(("NCCL_", "TORCH_NCCL_")):
        message = say(
            "`{name}` configures NCCL; {target} uses {collective}, which has its own settings",
            name=name,
            target=target.title,
            collective=target.backend.COLLECTIVE.upper(),
        )
        return VariableReplacement("", Grade.MANUAL, message)
    else:
        return None
    if row.status in REWRITTEN and row.use and row.use != name:
        hidden = None if value is None else _visible(target, row, name, value)
        refusal = None if value is None else hidden or value_refusal(target, row, value)
        if refusal is not None:
            return VariableReplacement("", Grade.MANUAL, refusal, refused=True, is_outside=hidden is None)
        message = noted(say("`{name}` is `{use}` on {target}", name=name, use=row.use, target=target.title), row.remark)
        if value is not None and is_open(row, value):
            message = say(
                "{message}; a part of the value is not known here, and `{use}` does not accept every "
                "value that CUDA accepts",
                message=message,
                use=row.use,
            )
            return VariableReplacement(row.use, Grade.UNSAFE, message)
        return VariableReplacement(row.use, Grade.SAFE, message)
    if row.status in REWRITTEN:
        message = noted(say("`{name}` stays as it is on {target}", name=name, target=target.title), row.remark)
        return VariableReplacement("", Grade.NOTE, message, effect=Effect.NOTHING)
    if row.status == "missing":
        message = noted(say("`{name}` has no counterpart on {target}", name=name, target=target.title), row.remark)
        effect = _effect(row, value)
        return VariableReplacement("", Grade.NOTE if effect is Effect.NOTHING else Grade.MANUAL, message, effect=effect)
    message = noted(
        say("the counterpart of `{name}` on {target} is UNKNOWN", name=name, target=target.title), row.remark
    )
    return VariableReplacement("", Grade.MANUAL, message)


def replacement_of_any(target: Target, name: str, values: Sequence[str]) -> VariableReplacement | None:
    """Return what to do about a variable that is given one of several values: one that the target refuses decides.

    Where it refuses none, one of which it may refuse a part does.
    """
    first = replacement(target, name, values[0] if values else None)
    each_of = [each for value in values[1:] if (each := replacement(target, name, value)) is not None]
    refused = next((each for each in each_of if each.refused), None)
    if refused is not None or first is None or first.grade is not Grade.SAFE:
        return refused or first
    return next((each for each in each_of if each.grade is Grade.UNSAFE), first)


def _effect(row: Row, value: str | None) -> Effect:
    """Return what becomes of a setting that nothing takes over on the target: unknown where no source says it."""
    harmless: Sequence[str] = row.extra.get("harmless", ())
    if harmless:
        if value is None or any(letter in value for letter in "$`{<"):
            return Effect.UNKNOWN
        if value in harmless:
            return Effect.NOTHING
    return Effect(row.extra.get("effect", Effect.UNKNOWN.value if row.note else Effect.WRONG.value))


def _visible(target: Target, row: Row, name: str, value: str) -> Message | None:
    """Return why a person has to choose the cards that a program may see; None where the list has cards."""
    if not name.endswith("_VISIBLE_DEVICES"):
        return None
    if hides_every_card(value):
        return say(
            "`{name}` hides every card here; on {target} `{own}` would hide them all: {answer}",
            name=name,
            target=target.title,
            own=row.use,
            answer=say("decide whether the program may see the target's cards"),
        )
    if names_nvidia_card(value):
        message = say(
            "`{name}` names a card of NVIDIA by its UUID here; for {target} choose the cards in `{use}`",
            name=name,
            target=target.title,
            use=row.use,
        )
        return noted(message, row.remark)
    return None
