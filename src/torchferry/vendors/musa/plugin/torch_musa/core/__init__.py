"""The parts that torch_musa is made of, where programs reach for them by path."""

from torch_musa.core import amp
from torchferry.rehearsal import facade_support as _facade_support

__all__ = ["amp"]
__getattr__ = _facade_support.missing(__name__)
