"""The compiled part of torch_npu, of which programs use the options of process groups."""

from torch_npu._C import _distributed_c10d
from torchferry.rehearsal import vendor_package as _vendor_package

__all__ = ["_distributed_c10d"]
__getattr__ = _vendor_package.missing(__name__)
