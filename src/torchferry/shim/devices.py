"""Arguments of torch's functions: what the program says of `cuda`, as the card's own device.

Translated is what a parameter of a certain name takes: a device, a device type, a collective backend. Only whole device
strings are known (`cuda`, `cuda:1`). A path, a message or a key that has the word in it is never looked at.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from torchferry.backends import cuda
from torchferry.backends.base import Backend

if TYPE_CHECKING:
    from torchferry.shim.call_sites import CallSites

MOST = 64
"""Devices of one machine that a device string may number."""

_DEVICE = torch.device("cpu").__class__
"""The class of every device: a plugin may have put a class of its own in the place of the name `torch.device`."""


class Devices:
    """The devices of the card and the names that the program has for them.

    Attributes:
        card: The card's device type.
        to_card: Device of CUDA, as text or as a `torch.device`, to the card's `torch.device`. Empty once the redirect
            is over, so that what still holds a patched function gets what it asked for.
        to_cuda: The card's devices to those that the program sees.
        call_sites: Where the lines are noted at which a device is translated; None for nowhere.
    """

    def __init__(self, backend: type[Backend], call_sites: CallSites | None = None) -> None:
        self.card = backend.DEVICE_TYPE
        self.call_sites = call_sites
        self.to_card: dict[Any, torch.device] = {}
        self.to_cuda: dict[torch.device, torch.device] = {}
        self.numbers = backend.INTEGER_DEVICE is not True and torch._C._get_privateuse1_backend_name() != self.card
        """Whether a bare number has to be translated: torch takes it for the plugin's device where it is one."""

        for index in (None, *range(MOST)):
            suffix = "" if index is None else f":{index}"
            card, cuda_ = torch.device(self.card + suffix), torch.device(cuda.DEVICE_TYPE + suffix)
            self.to_card[str(cuda_)] = self.to_card[cuda_] = card
            self.to_cuda[card] = cuda_

    def of(self, device: Any) -> Any:
        """Return the card's device for one of CUDA; anything else as it is."""
        kind = device.__class__
        if kind is str or kind is _DEVICE:
            card_device = self.to_card.get(device)
            if card_device is None:
                return device
            if self.call_sites is not None:
                self.call_sites.note(cuda.DEVICE_TYPE)
            return card_device
        if kind is int and self.numbers and self.to_card:
            return torch.device(self.card, device)
        if kind is list or kind is tuple:
            return kind(self.of(part) for part in device)
        return device

    def place(self, device: Any) -> Any:
        """Return where `.cuda(device)` moves to: the current device of the card, or one by its number or name."""
        if device is None:
            return torch.device(self.card)
        return torch.device(self.card, device) if isinstance(device, int) else self.of(device)

    def type_of(self, device_type: Any) -> Any:
        """Return the card's device type, as text, for CUDA's; for parameters that take a type and no index."""
        if device_type != cuda.DEVICE_TYPE or not self.to_card:
            return device_type
        if self.call_sites is not None:
            self.call_sites.note(cuda.DEVICE_TYPE)
        return self.card

    def end(self) -> None:
        """Translate nothing from now on."""
        self.to_card.clear()
        self.to_cuda.clear()


Translate = Callable[[Any], Any]


class Parameters:
    """Translates the arguments of torch's functions."""

    def __init__(self, backend: type[Backend], devices: Devices) -> None:
        self._collective = backend.COLLECTIVE
        self._devices = devices
        by_name: dict[str, Translate] = dict.fromkeys(
            ("device", "devices", "device_id", "peer_device", "pin_memory_device"), devices.of
        )
        by_name |= dict.fromkeys(("device_ids", "output_device", "device_index"), self._numbered)
        by_name |= {"device_type": devices.type_of, "backend": self.to_card}
        self._by_name = by_name

    def translated(
        self,
        function: Callable[..., Any],
        like: Any = None,
        *,
        keywords: Mapping[str, str] | None = None,
        first: Callable[[], None] | None = None,
    ) -> Callable[..., Any]:
        """Return a function that calls `function` with its arguments translated.

        Args:
            function: What is called.
            like: The function of torch whose parameters the caller knows; without it, `function` itself.
            keywords: Old to new names of keyword arguments.
            first: Called before the first call.
        """
        signature_of = function if like is None else like
        steps: tuple[tuple[int, str, Translate], ...] | None = None
        by_name: dict[str, Translate] = {}
        renamed = dict(keywords or {})

        @functools.wraps(function if like is None or not inspect.isroutine(like) else like)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal first, steps
            if steps is None:  # asked for now rather than at the start: most functions are never called
                steps = self._steps(signature_of)
                by_name.update((name, step) for _, name, step in steps)
            if first is not None:
                once, first = first, None
                once()
            if args:
                for position, _, step in steps:
                    if position < len(args):
                        args = (*args[:position], step(args[position]), *args[position + 1 :])
            if kwargs:
                for name in by_name.keys() & kwargs.keys():
                    kwargs[name] = by_name[name](kwargs[name])
                for old, new in renamed.items():
                    if old in kwargs:
                        kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    def takes_any(self, function: Any) -> bool:
        """Whether a function or class takes anything that is translated."""
        return bool(self._steps(function))

    def to_card(self, backend: Any) -> Any:
        """Return a collective backend as the card has it: `nccl`, or a part of `cpu:gloo,cuda:nccl`."""
        if not isinstance(backend, str) or not self._devices.to_card or cuda.COLLECTIVE not in backend.lower():
            return backend
        return ",".join(self._part(part) for part in backend.lower().split(","))

    def to_program(self, backend: str) -> str:
        """Return a collective backend's name as the program has it."""
        return cuda.COLLECTIVE if backend == self._collective and self._devices.to_card else backend

    def as_cuda(self, value: Any) -> Any:
        """Return a device or a device type as the program has it."""
        if value == self._devices.card and self._devices.to_card:
            return cuda.DEVICE_TYPE
        return self._devices.to_cuda.get(value, value)

    def _part(self, part: str) -> str:
        device, colon, name = part.strip().rpartition(":")
        return f"{self._devices.type_of(device)}{colon}{self._collective if name == cuda.COLLECTIVE else name}"

    def _numbered(self, value: Any) -> Any:
        """Translate devices and leave bare numbers, which count the card's devices already."""
        if isinstance(value, (list, tuple)):
            return type(value)(self._numbered(part) for part in value)
        return value if isinstance(value, int) else self._devices.of(value)

    def _steps(self, function: Any) -> tuple[tuple[int, str, Translate], ...]:
        """Return position, name and translation of the parameters that are translated."""
        method = 0
        if isinstance(function, type):
            constructor = "__init__" if "__init__" in vars(function) else "__new__"
            function, method = getattr(function, constructor), 1
            if isinstance(function, BuiltinFunctionType):
                return ()  # takes what `__init__` takes, and names nothing
        try:
            names = parameter_names(function)[method:]
        except (TypeError, ValueError):  # a builtin without a signature: by keyword alone
            return tuple((MANY, name, step) for name, step in self._by_name.items())
        return tuple((i, name, self._by_name[name]) for i, name in enumerate(names) if name in self._by_name)


MANY = 1 << 30
"""A position that no argument has."""


def parameter_names(function: Any) -> list[str]:
    """Return the names of the parameters, in order.

    A function of Python is asked for its code alone: `inspect.signature` takes ten times as long, and the start of a
    redirect asks for hundreds.

    Raises:
        TypeError, ValueError: what has no signature, such as some functions of C++.
    """
    innermost = inspect.unwrap(function, stop=lambda wrapped: hasattr(wrapped, "__signature__"))
    if type(innermost) is not FunctionType or hasattr(innermost, "__signature__"):
        return list(inspect.signature(function).parameters)
    code = innermost.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if code.co_flags & inspect.CO_VARARGS:
        names.insert(code.co_argcount, code.co_varnames[len(names)])
    return names


def with_device(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    """Return `original` with its keyword `device` translated."""
    of = devices.of

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = of(device)
        return original(*args, **kwargs)

    return call
