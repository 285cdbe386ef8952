"""One reason why two runs differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchferry.core.messages import Message

CERTAIN, POSSIBLE, NOTE = "certain", "possible", "note"
"""How much a difference explains: it changes the numbers; it may; it is told for completeness."""


@dataclass(frozen=True)
class Cause:
    """A difference that changes numbers, or may.

    Attributes:
        cause: What differs, in stable English words: `data order`.
        where: Which of it: `step 3`, `GPT.blocks.0.drop`, `lr`.
        a: What the first run had.
        b: What the second had.
        advice: What to do.
        grade: `CERTAIN`, `POSSIBLE` or `NOTE`.
        text: The name of the cause for people.
    """

    cause: str
    where: str
    a: str
    b: str
    advice: Message
    grade: str
    text: Message

    def as_dict(self, lang: str) -> dict[str, Any]:
        """Return it for a document."""
        return {
            "cause": self.cause,
            "where": self.where,
            "a": self.a,
            "b": self.b,
            "advice": self.advice.render(lang),
            "grade": self.grade,
        }


def short(value: object, limit: int = 120) -> str:
    """Return a value as a text of one line and of limited length."""
    text = " ".join(str(value).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
