"""The program's random numbers, while an operator of somebody else's runs again on the CPU.

Operators of torch say by a tag that they draw. One that a program registers may draw and not say so: run again, it
would take numbers that the program is still to get.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import torch

from torchferry.core.messages import say
from torchferry.numerics.compare.decompositions import decomposition
from torchferry.numerics.compare.snapshot import Untestable
from torchferry.numerics.framework.operators import Operator

_OWN = frozenset({"aten", "prims"})
"""Namespaces whose operators say whether they draw."""


@cache
def is_foreign(operator: Operator) -> bool:
    """Whether the reference runs code of which nothing is known: neither torch's nor a description of ours."""
    return operator.space not in _OWN and decomposition(operator) is None


def run(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run an operator on the CPU, as a description of ours says where there is one.

    Raises:
        Untestable: it moved a generator of the program's, which is put back.
        Exception: whatever the operator raises.
    """
    instead = decomposition(operator)
    function = operator.overload if instead is None else instead
    if not is_foreign(operator):
        return function(*args, **kwargs)
    with kept():
        return function(*args, **kwargs)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put the generators of the CPU back as they were.

    Raises:
        Untestable: one was moved.
    """
    numpy: Any = sys.modules.get("numpy.random")
    before = torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.get_state()
    try:
        yield
    finally:
        moved = not torch.equal(torch.get_rng_state(), before[0]) or random.getstate() != before[1]
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy is not None:
            moved |= not _same(numpy.get_state(), before[2])
            numpy.set_state(before[2])
    if moved:
        raise Untestable(say("it draws random numbers without saying so"))


def _same(state: Any, other: Any) -> bool:
    return all(
        bool((one == its).all()) if hasattr(one, "all") else one == its for one, its in zip(state, other, strict=True)
    )
