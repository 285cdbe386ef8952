"""What a port leaves to people, item by item."""

from __future__ import annotations

from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple


class ReviewItem(NamedTuple):
    """One place that somebody has to look at.

    Attributes:
        path: The file, relative to the root, with `/`.
        line: Its line, from 1; 0 for the whole file.
        column: Its column, from 1; 0 for the whole line.
        kind: What kind of place it is.
        message: What is the matter, and what to do.
        excerpt: The line, or its beginning.
    """

    path: str
    line: int
    column: int
    kind: str
    message: Message
    excerpt: str
