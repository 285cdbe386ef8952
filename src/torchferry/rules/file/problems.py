"""Findings about files that could not be examined; each has a rule of its own, so that each has a page."""

from __future__ import annotations

from typing import ClassVar

from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message
from torchferry.rules.base import Rule


class FileProblem(Rule):
    """A problem with a file as a whole, found while it is read rather than by looking for words."""

    BLOCKS: ClassVar[bool] = False
    """Whether the project cannot be said to be ready while the problem lasts."""

    LEAVES_VERDICT_OPEN: ClassVar[bool] = False
    """Whether nothing is known of the file, so that settings, which may come with the tree, cannot silence it."""

    @classmethod
    def at(cls, path: str, message: Message, line: int = 0) -> Finding:
        """Build the finding for a file, at a line if one is known."""
        place = Location(path, max(line, 1), 1, max(line, 1), 1)
        return Finding(cls.CODE, place, message, Grade.MANUAL, blocker=cls.BLOCKS, effect=cls.EFFECT)
