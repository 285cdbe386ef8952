"""Whether a text speaks of a target."""

from __future__ import annotations

import re
from functools import lru_cache

from torchferry.backends.target import Target

_TAKEN_FOR_ASCII = "\u0130\u0131\u017f\u212a"
"""The letters that a search without regard to case takes for `i`, `s` and `k`."""


def names_target(target: Target, text: str) -> bool:
    """Whether a text speaks of a target anywhere."""
    if not any(letter in text for letter in _TAKEN_FOR_ASCII):  # then the lowered bytes hold all that is found below
        lowered = text.encode("utf-8", "surrogatepass").lower()
        if all(word.isascii() and word.lower().encode() not in lowered for word in target.words):
            return False
    return target_words(*target.words).search(text) is not None


@lru_cache(maxsize=16)
def target_words(*words: str) -> re.Pattern[str]:
    """Return a pattern for identifiers and strings that mean a target: `npu`, `is_npu_available`, `"npu:0"`."""
    alternatives = "|".join(sorted({re.escape(word) for word in words}))
    return re.compile(rf"(?<![a-z])(?:{alternatives})(?![a-z])", re.IGNORECASE)
