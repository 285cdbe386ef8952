"""Functions and modules that the vendor wrote for its card, none of which can be rehearsed."""

from torchferry.rehearsal import vendor_package as _vendor_package

__getattr__ = _vendor_package.missing(__name__)
