"""The first thing that a process of a rehearsal does after `import torch`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torchferry.core.errors import TorchferryError


def start() -> None:
    """Begin to observe this process. What is wrong with the rehearsal ends the process: it would rehearse nothing."""
    from torchferry.rehearsal import session

    or_end(session.observe)


def load_device() -> None:
    """Make the device known to torch, on import of the simulated plugin."""
    from torchferry.rehearsal import session

    or_end(session.start)


def or_end(step: Callable[[], object]) -> None:
    """Run a step; what torchferry says against it ends the process, which would rehearse nothing."""
    try:
        step()
    except TorchferryError as error:
        print("torchferry: " + "\n  ".join(error.lines()), file=sys.stderr, flush=True)
        raise SystemExit(2) from None
