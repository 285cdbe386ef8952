"""Helpers of torch_musa."""

from torch_musa.utils import musa_extension
from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension
from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["BuildExtension", "MUSAExtension", "musa_extension"]
__getattr__ = _facade_support.missing(__name__)
