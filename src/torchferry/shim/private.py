"""Private names that only a torch built for CUDA can serve: a program that uses one is told what it met.

They are names of `torch._C`, and the private functions of `torch.cuda` that call those, such as `torch.cuda._sleep`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NoReturn

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.patches import Patches

_PREFIX = f"_{cuda.DEVICE_TYPE}_"
_FINDER = "__getattr__"


def patch(patches: Patches, target: Target, viewers: Viewers) -> None:
    """Let a private name of CUDA's say more than that it is missing; `hasattr` says False."""
    module = torch._C
    if not hasattr(module, _FINDER):
        patches.set(module, _FINDER, _finder(module, lambda name: name.startswith(_PREFIX), target))
    private = {
        name
        for name, value in vars(torch.cuda).items()
        if name.startswith("_") and isinstance(value, FunctionType) and _calls_cuda(value)
    }
    for name in private:
        patches.hide(torch.cuda, name, viewers)
    if private and not hasattr(torch.cuda, _FINDER):
        patches.set(torch.cuda, _FINDER, _finder(torch.cuda, private.__contains__, target))


def _calls_cuda(function: FunctionType) -> bool:
    return any(name.startswith(_PREFIX) for name in _names(function.__code__))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _finder(module: Any, is_cudas: Callable[[str], bool], target: Target) -> Callable[[str], NoReturn]:
    def missing(name: str) -> NoReturn:
        text: str | Message = f"module {module.__name__!r} has no attribute {name!r}"
        if is_cudas(name):
            text = say(
                "`{name}` is a private name of a torch that was built for CUDA, and {target} has none of them;"
                " the public names of torch.cuda are redirected",
                name=f"{module.__name__}.{name}",
                target=target.title,
            )
            text = f"torchferry: {text}"
        raise AttributeError(text, name=name, obj=module)

    return missing
