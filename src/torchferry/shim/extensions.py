"""Extensions with CUDA sources, which no card compiles: what they need is said in place of `CUDA_HOME is not set`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NoReturn

from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim.caller_policy import Viewers
from torchferry.shim.failures import porting
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver
from torchferry.shim.signatures import parameters

_MODULE = "torch.utils.cpp_extension"

NAMES = ("CUDAExtension", "load", "load_inline")
"""Functions that are given sources."""

_SUFFIXES = (".cu", ".cuh")
"""By which torch itself knows CUDA sources (torch/utils/cpp_extension.py, `_is_cuda_file`)."""

_TOOLKIT = "_join_cuda_home"
"""Function of torch that looks for the CUDA toolkit, for headers and for the compiler."""


def patch(patches: Patches, resolver: Resolver, viewers: Viewers) -> None:
    """Redirect `torch.utils.cpp_extension` once it is imported."""

    def step(module: ModuleType) -> None:
        for name in NAMES:
            path, original = f"{_MODULE}.{name}", getattr(module, name)
            row = resolver.target.api(path)
            own = row.status == "missing" or (row.status in REWRITTEN and row.use not in {"", path})
            value = resolver.counterpart(path, original) if own else original
            patches.set_view(module, name, _checked(value, original, resolver.target), viewers)
        if hasattr(module, _TOOLKIT):
            patches.set(module, _TOOLKIT, _toolkit(getattr(module, _TOOLKIT), resolver.target))

    patches.when_imported(_MODULE, step)


def _checked(function: Callable[..., Any], original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    names = parameters(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        sources = _cuda_sources(given)
        if sources:
            text = say(
                "the extension `{name}` has CUDA sources ({sources}), which {target} does not compile",
                name=given.get("name", ""),
                sources=", ".join(sources),
                target=target.title,
            )
            raise NotImplementedError(f"torchferry: {porting(target, text)}")
        return function(*args, **kwargs)

    return call


def _cuda_sources(given: Mapping[str, Any]) -> list[str]:
    sources = given.get("sources")
    listed = sources if isinstance(sources, (list, tuple)) else [] if sources is None else [sources]
    found = [str(source) for source in listed if str(source).endswith(_SUFFIXES)]
    if given.get("cuda_sources"):
        found.append("cuda_sources")
    if not found and given.get("with_cuda"):
        found.append("with_cuda=True")
    return found


def _toolkit(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except OSError as error:
            _refuse(target, error)

    return call


def _refuse(target: Target, error: OSError) -> NoReturn:
    text = say("the build of an extension needs the CUDA toolkit, which {target} does not have", target=target.title)
    raise NotImplementedError(f"torchferry: {porting(target, text)}") from error
