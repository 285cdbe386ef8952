# ruff: noqa: N999 - the name is the plugin's
"""The compiled part of the package, as far as programs ask it: the torch_musa manual (2.0.0, 5.7) reads a switch here.

Source of the two functions: torch_musa/core/mudnn.py, 2.7.1, whose property `allow_tf32` calls them.
"""

from __future__ import annotations

import torch

from torchferry.rehearsal import facade_support as _facade_support


def _get_allow_tf32() -> bool:
    """Return whether products and convolutions may round their inputs to TF32."""
    return bool(torch.backends.mudnn.allow_tf32)  # type: ignore[attr-defined] # the plugin's own


def _set_allow_tf32(allow: bool) -> None:
    """Let products and convolutions round their inputs to TF32, or not."""
    torch.backends.mudnn.allow_tf32 = allow  # type: ignore[attr-defined]


__getattr__ = _facade_support.missing("torch_musa._MUSAC")
