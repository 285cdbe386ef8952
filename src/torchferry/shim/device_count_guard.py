"""A plugin that is installed and sees no card: the program is told so, rather than that there is no CUDA.

The plugin is asked when somebody asks it, and never before: its count starts the driver, which then reads no other list
of visible cards and serves no forked child (torch_npu's own tests hold it to that; torch_musa keeps its first count).
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from torchferry.backends import cuda
from torchferry.backends.tables import REWRITTEN
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say
from torchferry.shim import no_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, find
from torchferry.shim.visible_devices import hidden

QUESTIONS = ("is_available", "device_count")
_OF_CACHES = ("cache_clear", "cache_info")


class DeviceCountGuard:
    """Whether the plugin has seen a card in this process, or in the one that it was forked from."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._seen = False

    def patch(self, patches: Patches) -> None:
        """Watch what the plugin answers, whoever asks: a library that knows the card would take the CPU as well."""
        for question in QUESTIONS:
            path = self._path(f"{cuda.NAMESPACE}.{question}")
            module, _, name = path.rpartition(".")
            try:
                owner, original = find(module), find(path)
            except (NotThereError, ValueError):
                continue  # what stands in its place raises, and says so
            patches.set(owner, name, self.watched(original, path), path)

    def watched(self, original: Callable[..., Any], path: str) -> Callable[..., Any]:
        """Return a function that raises where `original` finds no card that it ought to find."""

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            answer = original(*args, **kwargs)
            if answer:
                self._seen = True
            elif not self._seen and not hidden(self._target) and not self._forked_too_late():
                why = self._why(path, answer)
                reason = no_device.tell(TorchferryError(why, no_device.ask_the_doctor(self._target)))
                raise RuntimeError(f"torchferry: {reason}")
            return answer

        for name in _OF_CACHES:
            if hasattr(original, name):
                setattr(call, name, getattr(original, name))
        return call

    def _path(self, name: str) -> str:
        row, namespace = self._target.api(name), self._target.backend.NAMESPACE
        if row.status in REWRITTEN:
            return row.use
        return namespace + name.removeprefix(cuda.NAMESPACE) if namespace else ""

    def _forked_too_late(self) -> bool:
        """Whether the process was forked from one that had started the card, which answers to no child of it."""
        import torch

        module = getattr(torch, self._target.backend.DEVICE_TYPE, None)
        bad = getattr(module, "_is_in_bad_fork", None)
        return bool(bad is not None and bad())

    def _why(self, path: str, answer: Any) -> Message:
        backend = self._target.backend
        why = say(
            "the plugin `{plugin}` of {target} finds no card: {name}() is {answer}",
            plugin=backend.PLUGIN,
            target=self._target.title,
            name=path,
            answer=answer,
        )
        variable = str(backend.VISIBLE_DEVICES)
        value = os.environ.get(variable)
        if value is None:
            return why
        return say("{why}; `{variable}` is `{value}`", why=why, variable=variable, value=value)
