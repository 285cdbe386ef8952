"""The first thing that a process of a rehearsal does after `import torch`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from torchferry.core import supported_torch
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say


def start() -> None:
    """Begin to observe this process. What is wrong with the rehearsal ends the process: it would rehearse nothing."""
    or_end(require_torch)
    from torchferry.rehearsal import session

    or_end(session.observe)


def load_device() -> None:
    """Make the device known to torch, on import of the simulated plugin."""
    or_end(require_torch)
    from torchferry.rehearsal import session

    or_end(session.start)


def require_torch() -> None:
    """Refuse a torch that lacks what the modules of a rehearsal import from it.

    Raises:
        TorchferryError: it is too old.
    """
    import torch

    supported_torch.require(str(torch.__version__), say("a rehearsal"))


def or_end(step: Callable[[], object]) -> None:
    """Run a step; what torchferry says against it ends the process, which would rehearse nothing."""
    try:
        step()
    except TorchferryError as error:
        print("torchferry: " + "\n  ".join(error.lines()), file=sys.stderr, flush=True)
        raise SystemExit(2) from None
