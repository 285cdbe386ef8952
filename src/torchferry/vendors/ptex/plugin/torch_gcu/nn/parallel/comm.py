"""Copies between the cards of one process, which are not rehearsed."""

from torchferry.rehearsal import facade_support as _facade_support

_NAMES = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
globals().update(_facade_support.stubs(__name__, _NAMES))
