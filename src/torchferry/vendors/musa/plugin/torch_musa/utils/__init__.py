"""Helpers of torch_musa."""

from torch_musa.utils import musa_extension
from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension
from torchferry.rehearsal import vendor_package as _vendor_package

__all__ = ["BuildExtension", "MUSAExtension", "musa_extension"]
__getattr__ = _vendor_package.missing(__name__)
