"""The first thing that a process of a rehearsal does after `import torch`."""

from __future__ import annotations

from torchferry.core import supported_torch
from torchferry.core.messages import say
from torchferry.core.torch_start import or_end


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
