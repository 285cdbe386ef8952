"""What an environment variable of CUDA becomes; shared by the rules for Python, shell and configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN, Row
from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, noted, say
from torchferry.core.record import NamedTuple

VARIABLE = lazy_regex(
    r"(?:TORCH_)?(?:CUDA|CUDNN|CUBLAS|NCCL|NVIDIA)_[A-Z0-9_]*[A-Z0-9]\Z|PYTORCH_(?:NO_)?CUDA_\w+\Z|DIFFUSERS_ATTN_BACKEND\Z|DIFFUSERS_ATTENTION_TYPE\Z"
)
"""A whole word that is spelt as an environment variable of CUDA, NCCL or the NVIDIA container runtime."""


_HIDES_EVERY_CARD = lazy_regex(r"(?:-1|none|void|NoDevFiles)?\Z", re.IGNORECASE)
"""Values with which a program sees no card, whoever made it."""

_NVIDIA_CARD = lazy_regex(r"(?:.*,[ \t]*)?(?:GPU|MIG)-", re.IGNORECASE)
"""Values that name a card of NVIDIA, or a part of one, by its UUID."""

_NUMBERS = lazy_regex(r"[\d,\s]+\Z|.*[$<{`]")
"""Values that are numbers, or known only when the program runs."""


class VariableReplacement(NamedTuple):
    """What to do about one variable: `use` is empty where nothing is written in its place.

    `refused` says that the target has such a variable, which does not take the value; `effect` is what becomes of the
    setting where nothing is done.
    """

    use: str
    grade: Grade
    message: Message
    refused: bool = False
    effect: Effect = Effect.WRONG


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
        refusal = None if value is None else _visible(target, row, name, value) or _refusal(target, row, name, value)
        if refusal is not None:
            return VariableReplacement("", Grade.MANUAL, refusal, refused=True)
        message = noted(say("`{name}` is `{use}` on {target}", name=name, use=row.use, target=target.title), row.remark)
        return VariableReplacement(row.use, Grade.SAFE, message)
    if row.status in REWRITTEN:
        message = noted(say("`{name}` on {target}", name=name, target=target.title), row.remark)
        return VariableReplacement("", Grade.NOTE, message, effect=Effect.NOTHING)
    if row.status == "missing":
        message = noted(say("`{name}` has no counterpart on {target}", name=name, target=target.title), row.remark)
        effect = _effect(row, value)
        return VariableReplacement("", Grade.NOTE if effect is Effect.NOTHING else Grade.MANUAL, message, effect=effect)
    message = noted(
        say("the counterpart of `{name}` on {target} is UNKNOWN", name=name, target=target.title), row.remark
    )
    return VariableReplacement("", Grade.MANUAL, message)


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
    """Return why a person has to choose the cards that a program may see; None where numbers say it, or it is open."""
    if not name.endswith("_VISIBLE_DEVICES"):
        return None
    if _HIDES_EVERY_CARD.match(value.strip()):
        return say(
            "`{name}` hides every card here; on {target} `{use}` would hide them all: decide what is intended",
            name=name,
            target=target.title,
            use=row.use,
        )
    if _NVIDIA_CARD.match(value.strip()):
        message = say(
            "`{name}` names a card of NVIDIA by its UUID here; for {target} choose the cards in `{use}`",
            name=name,
            target=target.title,
            use=row.use,
        )
        return noted(message, row.remark)
    if row.note and not _NUMBERS.match(value):
        return noted(say("`{name}` is `{use}` on {target}", name=name, use=row.use, target=target.title), row.remark)
    return None


def _refusal(target: Target, row: Row, name: str, value: str) -> Message | None:
    """Return why a value of a variable is none for the target's own variable, or None where nothing is known of it.

    Args:
        target: The target.
        row: The row of the variable in the target's table.
        name: The variable of CUDA.
        value: Its value, as it is written; what a shell puts in is not known.
    """
    if not value.strip() or any(letter in value for letter in "$`{<"):
        return None
    entries = [entry.strip() for entry in value.split(",")]
    if row.extra.get("ascending") and all(entry.isdecimal() for entry in entries):
        numbers = [int(entry) for entry in entries]
        if numbers != sorted(set(numbers)):
            return say(
                "`{name}={value}`: `{use}` accepts only ascending numbers on {target}, and reading stops at the first "
                "other one; choose the cards in order",
                name=name, value=value, use=row.use, target=target.title,
            )  # fmt: skip
    for text in row.extra.get("refuses", ()):
        if text in value:
            return say(
                "`{name}={value}`: `{use}` takes no `{text}` on {target}; {note}",
                name=name, value=value, use=row.use, text=text, target=target.title, note=row.remark or "",
            )  # fmt: skip
    if "keys" not in row.extra and "excludes" not in row.extra:
        return None
    given = {key.strip(): setting.strip() for key, _, setting in (entry.partition(":") for entry in entries)}
    unknown = [key for key in given if key and key not in row.extra.get("keys", given)]
    if unknown:
        return say(
            "`{name}={value}`: `{use}` has no setting `{key}` on {target}, and an unknown one is an error; omit it",
            name=name, value=value, use=row.use, key=unknown[0], target=target.title,
        )  # fmt: skip
    for key, others in row.extra.get("excludes", {}).items():
        excluded = [other for other in others if other in given]
        if given.get(key, "").lower() == "true" and excluded:
            return say(
                "`{name}={value}`: `{use}` refuses `{key}` together with `{other}` on {target}; decide for one",
                name=name, value=value, use=row.use, key=key, other=excluded[0], target=target.title,
            )  # fmt: skip
    return None
