"""What the comparison of ranks came to, from what the processes of a command left."""

from __future__ import annotations

from typing import Any

from torchferry.core.messages import say
from torchferry.numerics.framework.launcher import Outcome


def found(outcome: Outcome) -> dict[str, Any] | None:
    """Return what the ranks said of each other: a difference before all else; None where they were not asked."""
    answers: list[dict[str, Any]] = [result["ranks"] for result in outcome.results if "ranks" in result]
    if not answers:
        return None
    return min(
        answers,
        key=lambda judgement: (not judgement.get("differences"), not judgement.get("failure"), -judgement["checks"]),
    )


def lines(outcome: Outcome, lang: str) -> list[str]:
    """Return what is to be said of it; nothing where the ranks were not asked."""
    ranks = found(outcome)
    if ranks is None:
        return []
    first, *others = ranks["said"][lang]
    if ranks.get("step") is not None and not ranks["equal"]:
        first = say("step {step}: {what}", step=ranks["step"], what=first).render(lang)
    return [first, *(f"  {line}" for line in others)]


def differ(outcome: Outcome) -> bool:
    """Whether something differs that should be equal."""
    ranks = found(outcome)
    return ranks is not None and bool(ranks.get("differences"))
