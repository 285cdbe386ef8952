"""What the output of a failing step means, and what to do: the hints of a target's `deploy.toml`, in order."""

from __future__ import annotations

from torchferry.backends.deployment import DeployHint, Deployment
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple


class FailureExplanation(NamedTuple):
    """Why a step failed and what to do; `source` says where this is known from."""

    cause: Bilingual
    do: Bilingual
    source: str


def explain(facts: Deployment, step: str, output: str) -> FailureExplanation | None:
    """Return what an output means, by the first hint that matches; None where no hint knows it.

    Args:
        facts: What is known of the target's installation.
        step: The name of the step; hints of other steps are not asked.
        output: What the step said.
    """
    hint = matching_hint(facts, step, output)
    if hint is None:
        return None
    match = hint.match.search(output)
    groups = {name: text or "" for name, text in match.groupdict().items()} if match else {}
    return FailureExplanation(_filled(hint.cause, groups), _filled(hint.do, groups), hint.source)


def matching_hint(facts: Deployment, step: str, output: str) -> DeployHint | None:
    """Return the first hint that an output matches; the arguments are those of `explain`."""
    for hint in facts.hints:
        if (not hint.steps or step in hint.steps) and hint.match.search(output):
            return hint
    return None


def _filled(text: Bilingual, groups: dict[str, str]) -> Bilingual:
    """Put what the expression named into a text; other braces stay."""
    for name, value in groups.items():
        text = Bilingual(text.en.replace(f"{{{name}}}", value), text.zh.replace(f"{{{name}}}", value))
    return text
