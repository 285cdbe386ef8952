"""Why a way may do otherwise with a probe than the others: each row leaves some outcomes out of the comparison."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Expected(NamedTuple):
    """Outcomes that are right as they are.

    Attributes:
        probe: Pattern of the probe's name.
        setting: Pattern of the target, with `wheel` where its plugin is the vendor's own.
        way: The way, or `*`.
        outcome: Pattern of what comes of it.
        reason: Why that is right.
    """

    probe: str
    setting: str
    way: str
    outcome: str
    reason: str

    def holds(self, probe: str, setting: str, way: str, outcome: str) -> bool:
        """Whether the row is about an outcome."""
        found = (probe, setting, way, outcome)
        return all(fnmatchcase(text, pattern) for text, pattern in zip(found, self[:4], strict=True))


EXPECTED = (
    Expected("*", "*", "portable", "told*", "portable code has what every plugin has; the report says what is missing"),
)
