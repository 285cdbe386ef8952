"""Profiling that is switched on from outside, which is not rehearsed."""

from torchferry.rehearsal import facade_support as _facade_support

__getattr__ = _facade_support.missing(__name__)
