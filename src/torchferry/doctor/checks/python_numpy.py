"""Do torch and NumPy understand each other? A torch that was built against NumPy 1 exchanges no data with NumPy 2."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.core.secrets import masked
from torchferry.doctor.check import check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, warned

_FIRST = (2, 3)
"""The first torch that works with NumPy 2."""

_SOURCE = "pytorch/pytorch issues 107302 and 132179: torch 2.3.0 is the first that works with NumPy 2"


@check("python.numpy", rank=12, side="python", title=say_in("check", "torch and NumPy"))
def python_numpy(context: CheckContext) -> Iterator[Result]:
    """Take what happened after the import of torch; where nothing was imported, compare the versions."""
    torch, numpy, imported = context.torch, context.python.installed("numpy"), context.imported
    if not torch or not numpy:
        yield skipped(say("torch or NumPy is missing"))
        return
    values = {"torch": torch, "numpy": numpy}
    seen = imported.tried and not imported.error
    old = _numbers(numpy) >= (2,) and _numbers(torch) < _FIRST
    if imported.numpy or (old and not seen):
        yield warned(
            say("torch {torch} cannot exchange data with NumPy {numpy}", **values),
            say(
                "this torch was built with NumPy 1: `tensor.numpy()` and `torch.from_numpy()` fail, for example "
                "in data loaders"
            )
            if old
            else say("converting a tensor to NumPy failed"),
            f"{context.host.python} -m pip install 'numpy<2'",
            source=_SOURCE if old else "",
            evidence=(masked(imported.numpy),) if imported.numpy else (),
        )
    else:
        yield passed(say("torch {torch} works with NumPy {numpy}", **values))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
