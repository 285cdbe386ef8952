"""The switches of muDNN, which programs write as `torch.backends.mudnn`. Source: torch_musa/core/mudnn.py, 2.7.1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchferry.rehearsal import facade_support as _facade_support


def version() -> int:
    """Return the version of muDNN, which is not here."""
    return _facade_support.stubs("torch.backends.mudnn", ["version"])["version"]()


@contextmanager
def flags(allow_tf32: bool = True) -> Iterator[None]:
    """Set the switches within a block."""
    before = mudnn.allow_tf32
    mudnn.allow_tf32 = allow_tf32
    try:
        yield
    finally:
        mudnn.allow_tf32 = before


class _Switches(_facade_support.Switches):
    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "allow_tf32":
            _facade_support.round_products("tf32", matmul=bool(value), convolution=bool(value))


mudnn = _Switches(allow_tf32=False, version=version, flags=flags)
"""One switch for products and convolutions."""
