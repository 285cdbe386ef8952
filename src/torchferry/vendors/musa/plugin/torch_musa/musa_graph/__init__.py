"""Graph capture at the place where torch_musa keeps it; it is not rehearsed."""

from torch_musa.musa_graph import graphs
from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["graphs"]
globals().update({name: value for name, value in vars(graphs).items() if not name.startswith("_") and name != "torch"})
__getattr__ = _facade_support.missing(__name__)
