"""A pipe from the process that started us: when its other end closes, we end, and what we run with us.

A server whose client goes away may be killed in any way, and cannot end what it started then. The system closes its end
of the pipe all the same.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from torchferry.core import command, exitcodes
from torchferry.core.env import LIFELINE

SECONDS = 3.0
"""What a command under way gets to end in by itself, as after Ctrl-C."""


def watch() -> None:
    """End this process when the pipe that its environment names is closed; do nothing where none is named.

    What we start sees neither the variable nor the pipe.
    """
    named = os.environ.pop(LIFELINE, "")
    if not (named.isascii() and named.isdigit()):
        return
    descriptor = int(named)
    try:
        os.set_inheritable(descriptor, False)
    except OSError:  # somebody else's variable
        return
    threading.Thread(target=_wait, args=(descriptor,), name="lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    except OSError:
        return
    alone = os.getpgrp() == os.getpid()  # as a server starts us: the group is what we started
    _send(signal.SIGTERM, alone)
    time.sleep(SECONDS)
    command.kill_all()
    if alone:
        _send(signal.SIGKILL, alone)
    os._exit(exitcodes.INTERRUPTED)


def _send(number: signal.Signals, alone: bool) -> None:
    if alone:
        os.killpg(0, number)
    else:
        os.kill(os.getpid(), number)
