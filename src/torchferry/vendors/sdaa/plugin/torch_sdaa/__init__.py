"""The package torch_sdaa as a program sees it, over a simulated Tecorigin card.

The plugin is closed source: names come from public programs that run on it, which the tables beside it cite. A name
that no such program uses is not here, and asking for it is reported as not verified rather than as missing.
"""

# ruff: noqa: E402 - torch may load this package while it is itself being imported


def _autoload() -> None:
    """Do nothing: torch calls it when it loads plugins by itself, which is inside the import of torch below."""


import os as _os

import torch as _torch

from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__, known=False)
__version__ = _facade_support.stated_version()

_facade_support.add_profiler_activity("SDAA")
sdaa = _torch.sdaa

from torch_sdaa import amp, optim, utils

__all__ = ["amp", "optim", "sdaa", "utils"]


def __getattr__(name: str) -> object:
    if not name.startswith("_"):
        _events.record("unverified-api", f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if _os.environ.get("TORCH_SDAA_AUTOLOAD") == "cuda_migrate":
    _facade_support.redirect("TORCH_SDAA_AUTOLOAD=cuda_migrate")
