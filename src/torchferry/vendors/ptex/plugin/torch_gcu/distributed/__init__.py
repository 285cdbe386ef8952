"""The plugin's own distributed module: it takes the backend `eccl` alone, and lacks some functions of torch's.

Source: github.com/mango-MilkT/torch_gcu@14a99843d05c distributed/distributed_c10d.py. The work is done by torch's own
module, so a program that mixes the two runs here, while on the card torch's has no group.
"""

from torch_gcu.distributed import distributed_c10d as _c10d
from torch_gcu.distributed.distributed_c10d import *  # noqa: F403 - the vendor's package does so
from torchferry.rehearsal import facade_support as _facade_support

__all__ = list(_c10d.__all__)
__getattr__ = _facade_support.missing(__name__)


def is_available() -> bool:
    """Whether the plugin has collectives."""
    return True
