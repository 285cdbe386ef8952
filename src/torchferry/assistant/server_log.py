"""What the library of a server logs, as one short line each on standard error.

A client decides what it sends, so a record may hold a message of a megabyte or a traceback for each.
"""

from __future__ import annotations

import logging

from torchferry.core import env
from torchferry.core.terminal import print_notice

_LONGEST = 200


class BriefLog(logging.Handler):
    """Prints the first line of a record, and the kind of the error; `TORCHFERRY_TRACEBACK=1` shows all of it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        if env.shows_traceback():
            print_notice(*self.format(record).split("\n"))
            return
        text = (record.getMessage().splitlines() or [""])[0]
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        error = record.exc_info[0] if record.exc_info else None
        print_notice(f"torchferry: {text}" if error is None else f"torchferry: {text} ({error.__name__})")


def log_briefly(name: str) -> None:
    """Let a library log in this way.

    Args:
        name: Of its logger.
    """
    logger = logging.getLogger(name)
    logger.handlers = [BriefLog(logging.WARNING)]
    logger.propagate = False
