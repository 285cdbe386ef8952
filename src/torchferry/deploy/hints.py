"""What the output of a failing step means, and what to do: the hints of a target's `deploy.toml`, tried in their order."""

from __future__ import annotations

from torchferry.backends.deployment import Deployment
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple


class Explanation(NamedTuple):
    """Why a step failed and what to do; `source` says where this is known from."""

    cause: Bilingual
    do: Bilingual
    source: str


def explain(facts: Deployment, step: str, output: str) -> Explanation | None:
    """Return what an output means, by the first hint that matches; None where no hint knows it.

    Args:
        facts: What is known of the target's installation.
        step: The name of the step; hints of other steps are not asked.
        output: What the step said.
    """
    for hint in facts.hints:
        if hint.steps and step not in hint.steps:
            continue
        match = hint.match.search(output)
        if match is not None:
            groups = {name: text or "" for name, text in match.groupdict().items()}
            return Explanation(_filled(hint.cause, groups), _filled(hint.do, groups), hint.source)
    return None


def _filled(text: Bilingual, groups: dict[str, str]) -> Bilingual:
    """Put what the expression named into a text; other braces stay."""
    for name, value in groups.items():
        text = Bilingual(text.en.replace(f"{{{name}}}", value), text.zh.replace(f"{{{name}}}", value))
    return text
