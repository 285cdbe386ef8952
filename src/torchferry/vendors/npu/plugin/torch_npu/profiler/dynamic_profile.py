"""Profiling that is switched on from outside, which is not rehearsed."""

from torchferry.rehearsal import vendor_package as _vendor_package

globals().update(_vendor_package.stubs(__name__, ["init", "start", "step"]))
