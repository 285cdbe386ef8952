"""`torch.cuda`: each public name of it, and of its submodules, leads to what the card has in its place.

Which names there are comes from torch itself, what each becomes from the api table of the backend. Private names that
only a torch built for CUDA can serve, those of `torch._C` and the functions of `torch.cuda` that call them, say what
the program met. Device properties have the fields that CUDA programs read, as far as the card has them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import torch

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import Message, noted, say
from torchferry.shim.caller_policy import CallerPolicy
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import Resolver

QUESTIONS = frozenset({"is_available", "device_count", "is_bf16_supported", "is_tf32_supported"})
"""What a library asks in order to choose its device: those that know the card are told the truth."""

_AMP_QUESTION = "amp_definitely_not_available"
"""Asked by every enabled autocast and scaler of torch 2.1 to 2.11, whatever its device: no where the card is there."""

_DESCRIPTIONS = frozenset(
    {
        "get_arch_list",
        "get_device_capability",
        "get_device_name",
        "get_device_properties",
        "get_gencode_flags",
        "is_initialized",
    }
)
"""What describes CUDA itself: torch's modules ask it to know about CUDA, not about the card."""


def patch_public_names(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.cuda`; a name that several of its modules share leads to one thing everywhere."""
    counterparts: dict[int, Any] = {}
    listed = {row.name for row in resolver.target.backend.table("api")}
    for module in _modules():
        for name, original in list(vars(module).items()):
            path = f"{module.__name__}.{name}"
            if id(original) in counterparts:
                patches.set(module, name, counterparts[id(original)], path)
            elif path in listed if name.startswith("_") else _belongs(path, module, original):
                value = counterparts[id(original)] = _counterpart(path, name, original, resolver, policy)
                patches.set(module, name, value, path)
    for name in ("_exchange_device", "_maybe_exchange_device"):
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, _exchange(resolver))
    patches.set(torch.cuda, "_lazy_init", _begun_by(torch.cuda._lazy_init))
    patches.set(torch.cuda, "_lazy_call", _now)


def _modules() -> list[ModuleType]:
    """Return `torch.cuda`, then its public modules."""
    prefix = cuda.NAMESPACE + "."
    names = sorted(name for name in sys.modules if name.startswith(prefix) and "._" not in name)
    return [torch.cuda, *(sys.modules[name] for name in names)]


def _belongs(path: str, module: ModuleType, value: Any) -> bool:
    """Whether a name is CUDA's own, rather than something that the module imported for itself."""
    if inspect.ismodule(value) or isinstance(value, (bool, int, str, dict)):
        return False
    if cuda.api_group(path) not in {"", "unlisted"}:
        return True
    return callable(value) and getattr(value, "__module__", "") == module.__name__


def _begun_by(original: Callable[[], None]) -> Callable[[], None]:
    """Return what torch calls before it makes something on CUDA: the card starts with its first operator.

    Functions of `torch.cuda` itself run only where torch is told the truth, that there is no CUDA.
    """

    def lazy_init() -> None:
        if f"{sys._getframe(1).f_globals.get('__name__', '')}.".startswith(f"{cuda.NAMESPACE}."):
            original()

    return lazy_init


def _exchange(resolver: Resolver) -> Callable[[int], int]:
    """Return what the tracer calls around `with torch.cuda.device(...)`: it selects a device and returns the former."""
    current = resolver.counterpart("torch.cuda.current_device", torch.cuda.current_device)
    select = resolver.counterpart("torch.cuda.set_device", torch.cuda.set_device)

    def exchange_device(device: int) -> int:
        if device < 0:
            return -1
        before: int = current()
        select(device)
        return before

    return exchange_device


def _now(callable: Callable[[], None], **kwargs: Any) -> None:  # noqa: A002 - torch's name
    """What torch puts off until CUDA has begun."""
    callable()


def _counterpart(path: str, name: str, original: Any, resolver: Resolver, policy: CallerPolicy) -> Any:
    if name == "get_device_properties":
        shown = describe(resolver.counterpart(path, original, quiet=True), resolver.target)
        return policy.dispatch_by_caller(original, shown)
    if name == _AMP_QUESTION:
        return _amp_question(resolver)
    value = resolver.counterpart(path, original)
    if name == "get_device_capability":
        value = refusing_none(value, path, resolver.target)
    if (name in QUESTIONS or name in _DESCRIPTIONS) and callable(original):
        return policy.dispatch_by_caller(original, value)
    return value


def _amp_question(resolver: Resolver) -> Callable[[], bool]:
    available = resolver.counterpart("torch.cuda.is_available", torch.cuda.is_available)

    def amp_definitely_not_available() -> bool:
        return not available()

    return amp_definitely_not_available


_PREFIX = f"_{cuda.DEVICE_TYPE}_"
_FINDER = "__getattr__"


def patch_private_names(patches: Patches, target: Target, policy: CallerPolicy) -> None:
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
        patches.hide(torch.cuda, name, policy)
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
                "`{name}` is a private name of a torch that was built for CUDA; for {target}, only the "
                "public names of torch.cuda are redirected",
                name=f"{module.__name__}.{name}",
                target=target.title,
            )
            text = f"torchferry: {text}"
        raise AttributeError(text, name=name, obj=module)

    return missing


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
