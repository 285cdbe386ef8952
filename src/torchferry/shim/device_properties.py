"""Device properties with the fields that CUDA programs read, as far as the card has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.messages import noted, say

FIELDS = {
    "name",
    "major",
    "minor",
    "total_memory",
    "multi_processor_count",
    "is_integrated",
    "is_multi_gpu_board",
    "max_threads_per_multi_processor",
    "gcnArchName",
    "warp_size",
    "uuid",
    "L2_cache_size",
    "regs_per_multiprocessor",
    "shared_memory_per_block",
    "shared_memory_per_multiprocessor",
}
"""Public fields of torch's own `_CudaDeviceProperties` (torch 2.13 torch/csrc/cuda/Module.cpp)."""


class Properties:
    """The card's properties; a field of CUDA's that it lacks raises and names those that there are."""

    def __init__(self, real: Any, target: Target) -> None:
        self._real = real
        self._target = target

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(self._real, name)
        except AttributeError:
            if name not in FIELDS:
                raise
            value = None
        if value is None and name in FIELDS:  # a plugin has fields of CUDA's that it never sets
            stated_fields = ", ".join(sorted(field for field in dir(self._real) if self._says(field)))
            text = say(
                "{target} does not provide the device property `{name}`; it has {there}",
                name=name,
                target=self._target.title,
                there=stated_fields,
            )
            raise AttributeError(f"torchferry: {text}") from None
        return value

    def _says(self, field: str) -> bool:
        return not field.startswith("_") and getattr(self._real, field, None) is not None

    def __dir__(self) -> list[str]:
        return dir(self._real)

    def __repr__(self) -> str:
        return repr(self._real)

    def __eq__(self, other: object) -> bool:
        return bool(self._real == (other._real if isinstance(other, Properties) else other))

    def __hash__(self) -> int:
        return hash(self._real)


def describe(function: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Return `get_device_properties` of the card; without an argument it speaks of the current device, as CUDA's."""

    def get_device_properties(*args: Any, **kwargs: Any) -> Properties:
        if not args and "device" not in kwargs:
            import torch

            args = (torch.cuda.current_device(),)
        return Properties(function(*args, **kwargs), target)

    return get_device_properties


def refusing_none(function: Callable[..., Any], name: str, target: Target) -> Callable[..., Any]:
    """Return a function that raises where the card's answers None, which no CUDA program expects."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        answer = function(*args, **kwargs)
        if answer is None:
            text = noted(
                say("{target} does not provide `{name}`", target=target.title, name=name), target.api(name).remark
            )
            raise NotImplementedError(f"torchferry: {text}")
        return answer

    return call
