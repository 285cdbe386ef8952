"""Profiling that is switched on from outside, which is not rehearsed."""

from torchferry.rehearsal import vendor_package as _vendor_package

__getattr__ = _vendor_package.missing(__name__)
