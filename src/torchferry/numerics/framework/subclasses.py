"""Tensors that dispatch by themselves, in a call that a mode of ours sees first."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

_OF_MODES = frozenset({"FakeTensor", "FunctionalTensor"})
"""Subclasses that leave a call to the mode of theirs, which lies below us if it is there at all."""

_PLAIN = Tensor.__torch_dispatch__


def is_plain(kind: type) -> bool:
    """Whether a type of tensor leaves dispatch to torch, as Parameter does."""
    return kind.__torch_dispatch__ is _PLAIN  # type: ignore[attr-defined]


def of_modes(types: Iterable[type]) -> bool:
    """Whether a call is to go on below us unseen: its tensors hold no values."""
    return any(kind.__name__ in _OF_MODES for kind in types)


def unwrap_themselves(types: Iterable[type]) -> bool:
    """Whether a call is to be returned as NotImplemented: a tensor unwraps itself, and what it calls comes to us."""
    return not all(map(is_plain, types))
