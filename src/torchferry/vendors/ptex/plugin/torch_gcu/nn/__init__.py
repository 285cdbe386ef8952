"""torch's modules, and the plugin's own parallel ones."""

from torch.nn.modules import *  # noqa: F403 - the vendor's package does so

from torch_gcu.nn import parallel
from torch_gcu.nn.parallel import DataParallel

__all__ = ["DataParallel", "parallel"]
