"""Arguments, by the name of the parameter that takes them: devices, device types, collective backends.

Nothing else is translated: a path, a message or a key that has the word `cuda` in it is none of these.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.shim.devices import Devices
from torchferry.shim.signatures import parameters

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
        known = function if like is None else like
        steps: tuple[tuple[int, str, Translate], ...] | None = None
        by_name: dict[str, Translate] = {}
        renamed = dict(keywords or {})

        @functools.wraps(function if like is None or not inspect.isroutine(like) else like)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal first, steps
            if steps is None:  # asked for now rather than at the start: most functions are never called
                steps = self._steps(known)
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

    def shown(self, value: Any) -> Any:
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
            return type(value)(self._numbered(one) for one in value)
        return value if isinstance(value, int) else self._devices.of(value)

    def _steps(self, function: Any) -> tuple[tuple[int, str, Translate], ...]:
        """Return position, name and translation of the parameters that are translated."""
        method = 0
        if isinstance(function, type):
            own = "__init__" if "__init__" in vars(function) else "__new__"
            function, method = getattr(function, own), 1
            if isinstance(function, BuiltinFunctionType):
                return ()  # takes what `__init__` takes, and names nothing
        try:
            names = parameters(function)[method:]
        except (TypeError, ValueError):  # a builtin without a signature: by keyword alone
            return tuple((MANY, name, step) for name, step in self._by_name.items())
        return tuple((i, name, self._by_name[name]) for i, name in enumerate(names) if name in self._by_name)


MANY = 1 << 30
"""A position that no argument has."""
