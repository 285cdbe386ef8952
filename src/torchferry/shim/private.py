"""Names of `torch._C` that only a torch built for CUDA has: a program that uses one is told what it met."""

from __future__ import annotations

from typing import NoReturn

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim.patches import Patches

_PREFIX = f"_{cuda.DEVICE_TYPE}_"
_FINDER = "__getattr__"


def patch(patches: Patches, target: Target) -> None:
    """Let a missing name of CUDA's say more than that it is missing; `hasattr` goes on to say False."""
    module = torch._C
    if hasattr(module, _FINDER):
        return

    def missing(name: str) -> NoReturn:
        if name.startswith(_PREFIX):
            text = say(
                "`torch._C.{name}` is a private name of a torch that was built for CUDA, and {target} has none of them;"
                " the public names of torch.cuda are redirected",
                name=name,
                target=target.title,
            )
            raise AttributeError(f"torchferry: {text}", name=name, obj=module)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    patches.set(module, _FINDER, missing)
