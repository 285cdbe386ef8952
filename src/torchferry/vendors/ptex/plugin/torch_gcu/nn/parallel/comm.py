"""Copies between the cards of one process, which are not rehearsed."""

from torchferry.rehearsal import vendor_package as _vendor_package

_NAMES = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
globals().update(_vendor_package.stubs(__name__, _NAMES))
