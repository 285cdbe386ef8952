"""Helpers of torch_npu, none of which can be rehearsed."""

from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)
