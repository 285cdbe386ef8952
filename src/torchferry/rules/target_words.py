"""Whether a text speaks of a target."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from torchferry.backends.target import Target

_TAKEN_FOR_ASCII = "\u0130\u0131\u017f\u212a"
"""The letters that a search without regard to case takes for `i`, `s` and `k`."""


def names_target(target: Target, text: str) -> bool:
    """Whether a text speaks of a target anywhere."""
    return may_have(text, target.words) and target_words(*target.words).search(text) is not None


def may_have(text: str, words: Iterable[str]) -> bool:
    """Whether a text has the letters of a word, in any case: if not, `target_words` finds none, which takes longer."""
    if any(letter in text for letter in _TAKEN_FOR_ASCII):
        return True
    lowered = text.encode("utf-8", "surrogatepass").lower()
    return any(not word.isascii() or word.lower().encode() in lowered for word in words)


@lru_cache(maxsize=16)
def target_words(*words: str) -> re.Pattern[str]:
    """Return a pattern for identifiers and strings that mean a target: `npu`, `is_npu_available`, `"npu:0"`."""
    alternatives = "|".join(sorted({re.escape(word) for word in words}))
    return re.compile(rf"(?<![a-z])(?:{alternatives})(?![a-z])", re.IGNORECASE)
