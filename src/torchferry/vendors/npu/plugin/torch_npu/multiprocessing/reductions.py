"""What receivers make tensors and events of."""

from torchferry.rehearsal import facade_support as _facade_support
from torchferry.rehearsal import sharing as _sharing
from torchferry.rehearsal.plugin_namespace import current as _current
from torchferry.rehearsal.sharing import rebuild_tensor as rebuild_npu_tensor

__all__ = ["rebuild_npu_tensor"]

if _current().target.shares_events() is True:
    rebuild_npu_event = _sharing.rebuild_event
__getattr__ = _facade_support.missing(__name__)
