"""When the profiler waits, warms up and records. Source: torch_npu/profiler/scheduler.py, torch-npu 2.9.0 wheel."""

from __future__ import annotations

import enum

from torch.profiler import schedule as _schedule

from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support
from torchferry.rehearsal.plugin_namespace import current as _current

_SKIPS_FIRST_WAIT = "2.7.1.post8 2.9.0.post6 2.10.0.post4 2.11.0"
"""The first versions, each for its torch, that can skip the first wait."""


class ProfilerAction(enum.Enum):
    """What the profiler does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class Schedule:
    """Cycles of waiting, warming up and recording; newer versions can skip the first wait."""

    def __init__(
        self, wait: int, active: int, warmup: int = 0, repeat: int = 0, skip_first: int = 0, **newer: int
    ) -> None:
        unknown = set(newer) - ({"skip_first_wait"} if _current().at_least(_SKIPS_FIRST_WAIT) else set())
        if unknown:
            raise _events.refusal(TypeError(f"__init__() got an unexpected keyword argument {min(unknown)!r}"))
        self.wait, self.active, self.warmup = max(wait, 0), max(active, 1), max(warmup, 0)
        self.repeat, self.skip_first = max(repeat, 0), max(skip_first, 0)
        self._schedule = _schedule(
            wait=self.wait,
            warmup=self.warmup,
            active=self.active,
            repeat=self.repeat,
            skip_first=self.skip_first,
            **newer,
        )

    def __call__(self, step: int) -> ProfilerAction:
        """Return what the profiler does at `step`."""
        if step < 0:
            raise _events.refusal(ValueError("Invalid parameter step, which must be not less than 0."))
        return ProfilerAction(self._schedule(step).value)


if _current().at_least(_SKIPS_FIRST_WAIT):
    _facade_support.show_parameters(Schedule, newer={"skip_first_wait": 0})
else:
    _facade_support.show_parameters(Schedule, newer={})
__getattr__ = _facade_support.missing(__name__)
