"""What receivers make tensors and events of."""

from torchferry.rehearsal.sharing import rebuild_event as rebuild_npu_event
from torchferry.rehearsal.sharing import rebuild_tensor as rebuild_npu_tensor

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]
