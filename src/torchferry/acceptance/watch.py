"""Looks on inside of a program: when its steps end, what memory they hold, where its model lies, what it loaded.

It adds no operator and waits for no device. A step ends as `torchferry profile` has it, with the optimizer. A program
without an optimizer makes passes instead: calls of a module that no other module calls.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn import Module

from torchferry.device.manager import DeviceManager
from torchferry.numerics.framework.dispatch import untraced
from torchferry.numerics.framework.launcher import ProcessTool, note_found
from torchferry.numerics.framework.module_hooks import ModuleHooks
from torchferry.numerics.framework.steps import Steps

_MOST = 4096
"""Samples of a process; with more, every other is dropped and so many steps lie between two."""

_NOTED_EVERY = 5.0
"""Seconds between two notes of what was seen, for a process that is killed."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

UNKNOWN_SIZE = -1
"""In place of bytes that nobody tells."""


def _elements(parameters: list[torch.nn.Parameter]) -> int:
    """Return how many elements parameters have, also while torch.jit traces the program, and outside of its graph."""
    with untraced():
        return sum(each.numel() for each in parameters)


class StepSamples:
    """Times and sizes at the ends of steps: `[step, seconds, bytes on the device, bytes of the process]` each."""

    def __init__(self) -> None:
        self.count = 0
        self.rows: list[list[float]] = []
        self._every = 1

    def add(self, seconds: float, device: int, host: int) -> None:
        """Add what holds at the end of one more step."""
        self.count += 1
        if self.count % self._every:
            return
        self.rows.append([self.count, seconds, device, host])
        if len(self.rows) >= _MOST:
            self.rows = self.rows[1::2]
            self._every *= 2


class ProcessWatch:
    """What is seen of one process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps = Steps()
        self._by_optimizer = StepSamples()
        self._by_pass = StepSamples()
        self._begin = self._noted = time.perf_counter()
        self._manager: DeviceManager | None = None
        self._card = ""
        self._problem = ""
        self._peak = UNKNOWN_SIZE
        self._deep = 0
        self._hooks = ModuleHooks(self._enter, self._leave)
        self._models: dict[str, dict[str, Any]] = {}
        self._loads = {"calls": 0, "keys": 0, "missing": 0, "unexpected": 0}
        self._load = Module.load_state_dict

    def start(self) -> None:
        """Begin to look on."""
        self._steps.after.append(self._step_ended)
        self._steps.start()
        self._hooks.start()
        Module.load_state_dict = self._counted(self._load)  # type: ignore[method-assign]

    def finish(self) -> dict[str, Any]:
        """End it, and say what was seen."""
        self._steps.stop()
        self._hooks.stop()
        Module.load_state_dict = self._load  # type: ignore[method-assign]
        return self._document()

    def _document(self) -> dict[str, Any]:
        samples = self._by_optimizer if self._by_optimizer.count else self._by_pass
        return {
            "torch": str(torch.__version__),
            "device": "" if self._manager is None else str(self._manager.device),
            "device_type": "" if self._manager is None else self._manager.device_type,
            "card": self._card,
            "kind": "step" if self._by_optimizer.count else "pass",
            "steps": samples.count,
            "samples": samples.rows,
            "peak": self._peak,
            "models": list(self._models.values()),
            "loads": self._loads,
            "seconds": time.perf_counter() - self._begin,
            "problem": self._problem,
        }

    def _counted(self, load: Callable[..., Any]) -> Callable[..., Any]:
        counts = self._loads

        def load_state_dict(module: Module, state: Any, *args: Any, **kwargs: Any) -> Any:
            result = load(module, state, *args, **kwargs)
            counts["calls"] += 1
            counts["keys"] += len(state)
            counts["missing"] += len(getattr(result, "missing_keys", ()))
            counts["unexpected"] += len(getattr(result, "unexpected_keys", ()))
            return result

        return load_state_dict

    def _enter(self, module: Module, inputs: Any) -> None:
        if self._deep == 0 and type(module).__name__ not in self._models and len(self._models) < 32:
            parameters = list(module.parameters())
            if parameters:
                self._models[type(module).__name__] = {
                    "name": type(module).__name__,
                    "parameters": _elements(parameters),
                    "devices": sorted({each.device.type for each in parameters}),
                }
        self._deep += 1

    def _leave(self, module: Module, inputs: Any, output: Any) -> None:
        self._deep = max(0, self._deep - 1)
        if self._deep == 0 and not self._by_optimizer.count:
            self._sample(self._by_pass)

    def _step_ended(self) -> None:
        self._sample(self._by_optimizer)
        if self._models:  # training: modules need not be looked at any longer, and steps cost less
            self._hooks.stop()

    def _sample(self, samples: StepSamples) -> None:
        if self._problem:
            return
        try:
            device = self._memory()
            samples.add(time.perf_counter() - self._begin, device, resident())
            if time.perf_counter() - self._noted > _NOTED_EVERY:
                self._noted = time.perf_counter()
                note_found(self._folder, self._document())
        except Exception as error:  # the program must not end because it is watched
            self._problem = f"{type(error).__name__}: {error}"

    def _memory(self) -> int:
        if self._manager is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a run on the CPU is one; the report says so
                self._manager = DeviceManager(fallback="allow")
            if self._manager.is_accelerator:
                self._card = self._manager.device_name
        if not self._manager.is_accelerator:
            return UNKNOWN_SIZE
        told = self._manager.memory_stats(show=False)
        if told.peak is not None:
            self._peak = max(self._peak, told.peak)
        return UNKNOWN_SIZE if told.allocated is None else told.allocated


def resident() -> int:
    """Return the bytes of this process that are in memory; `UNKNOWN_SIZE` where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return UNKNOWN_SIZE


def begin(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to look on in this process; `runs` names this function to the launcher."""
    watch = ProcessWatch(folder)
    watch.start()
    return watch
