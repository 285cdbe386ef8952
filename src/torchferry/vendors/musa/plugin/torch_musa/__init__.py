"""The package torch_musa as a program sees it, over a simulated Moore Threads card.

Names follow github.com/MooreThreads/torch_musa@8b583b3f2fd0 (2.7.1), read statically. The package is the device
module itself: `torch.musa` is `torch_musa`. What can be imported below it is what has a file there, so
`torch_musa.amp` is an attribute and no module to import from, as on the card.
"""

# ruff: noqa: E402 - torch may load this package while it is itself being imported


def _autoload() -> None:
    """Do nothing: torch calls it when it loads plugins by itself, which is inside the import of torch below."""


import torch as _torch

from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__)
_facade_support.become(__name__, _torch.musa)

from torch_musa import _namespace as _names

_names.complete(_torch.musa, _plugin, _autoload)
