"""Graph capture, which is not rehearsed: its names at the place where torch_musa defines them."""

import torch

from torchferry.rehearsal import facade_support as _facade_support

for _name in ("MUSAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"):
    globals()[_name] = getattr(torch.musa, _name)
__getattr__ = _facade_support.missing(__name__)
