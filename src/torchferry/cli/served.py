"""How a server ends that waits for a client's next line on standard input."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from torchferry.core import exitcodes
from torchferry.core.system import ENDINGS

_SECONDS = 2
"""That what is under way gets to end in, when the server is told to end."""


@contextmanager
def until_told_to_end() -> Iterator[None]:
    """Run a server that a signal ends: a thread that waits for the client's next line would keep it alive.

    Raises:
        KeyboardInterrupt: a signal ended it, also where the server's library takes that for its usual end.
    """
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        timer = threading.Timer(_SECONDS, os._exit, (exitcodes.INTERRUPTED,))
        timer.daemon = True
        timer.start()
        raise KeyboardInterrupt

    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` leaves it
            signal.signal(number, end)
    yield
    if received:
        raise KeyboardInterrupt
