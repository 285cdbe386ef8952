"""What is said of a process of ours that ended without a result."""

from __future__ import annotations

import signal

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say


def left_nothing(what: Message, code: int) -> TorchferryError:
    """Return the error for a process that ended before it wrote what it was started for.

    Args:
        what: What it did, as the subject of a sentence: `the process that ran model.py:build`.
        code: How it ended, negative for a signal.
    """
    if code == -signal.SIGKILL:
        return TorchferryError(
            say("{what} was killed (SIGKILL), as the system does when memory runs out; it left no result", what=what),
            say("give it more memory, or a smaller model, batch or wheel"),
        )
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return TorchferryError(
            say("{what} was ended by {signal} and left no result", what=what, signal=name), say("its output is above")
        )
    return TorchferryError(
        say("{what} ended with {code} and left no result", what=what, code=code), say("its output is above")
    )
