"""The compiled part of torch_npu, of which programs use the options of process groups."""

from torch_npu._C import _distributed_c10d
from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["_distributed_c10d"]
__getattr__ = _facade_support.missing(__name__)
