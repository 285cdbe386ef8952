"""The package torch_gcu as a program sees it, over a simulated Enflame S60.

Names follow github.com/sunnygui-L/torch-gcu@e63ff282355f (copy of EnflameTechnology/torch-gcu 2.10.0), read
statically.
"""

# ruff: noqa: E402 - torch may load this package while it is itself being imported


def _autoload() -> None:
    """Do nothing: torch calls it when it loads plugins by itself, which is inside the import of torch below."""


import torch as _torch

from torchferry.rehearsal import facade_support as _facade_support

_plugin = _facade_support.start(__name__)
__version__ = _facade_support.stated_version()
is_transfer_to_gcu = False

gcu = _torch.gcu

from torch_gcu import _namespace as _names

_names.complete(gcu, _plugin)

from torch_gcu import distributed

_torch.distributed.is_eccl_available = distributed.is_available
_facade_support.add_profiler_activity("GCU")

__all__ = ["distributed", "gcu"]
__getattr__ = _facade_support.missing(__name__)
