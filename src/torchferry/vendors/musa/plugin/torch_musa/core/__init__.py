"""The parts that torch_musa is made of, where programs reach for them by path."""

from torch_musa.core import amp
from torchferry.rehearsal import vendor_package as _vendor_package

__all__ = ["amp"]
__getattr__ = _vendor_package.missing(__name__)
