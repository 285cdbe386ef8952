"""Profiling: torch's own profiler records the host, because there is no card to record."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from torch_npu.profiler.experimental_config import _ExperimentalConfig
from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support
from torchferry.rehearsal.plugin_namespace import current as _current


class ProfilerActivity(enum.Enum):
    """What is recorded."""

    CPU = 0
    NPU = 1


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be recorded."""
    return set(ProfilerActivity)


class _KinetoProfile:
    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
    ) -> None:
        chosen = set(activities) if activities else supported_activities()
        if not chosen <= supported_activities():
            warnings.warn("Invalid activities, only CPU and NPU are supported, reset it to default.", stacklevel=3)
            chosen = supported_activities()
        self.activities = chosen
        self.experimental_config = experimental_config
        self._options: dict[str, Any] = {
            "activities": [torch.profiler.ProfilerActivity.CPU],
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "with_modules": with_modules,
        }
        self._host = torch.profiler.profile(**self._options)

    def start(self) -> None:
        """Begin to record."""
        self._host.start()

    def stop(self) -> None:
        """End recording."""
        self._host.stop()

    def export_chrome_trace(self, output_path: str) -> None:
        """Write the trace of the host."""
        self._host.export_chrome_trace(output_path)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace."""
        self._host.add_metadata(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON text to the trace."""
        self._host.add_metadata_json(key, value)

    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks, which is not rehearsed."""
        _facade_support.stubs("torch_npu.profiler.profile", ["export_stacks"])["export_stacks"]()

    def export_memory_timeline(self, output_path: str, device: str | None = None) -> None:
        """Write memory over time, which is not rehearsed."""
        _facade_support.stubs("torch_npu.profiler.profile", ["export_memory_timeline"])["export_memory_timeline"]()


def tensorboard_trace_handler(
    dir_name: str | None = None,
    worker_name: str | None = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> Callable[[Any], None]:
    """Return a function that writes what was recorded into a folder; here, the trace of the host."""
    write = torch.profiler.tensorboard_trace_handler(dir_name or "./", worker_name)
    return lambda profiler: write(profiler._host if isinstance(profiler, _KinetoProfile) else profiler)


class profile(_KinetoProfile):  # noqa: N801 - the vendor's name
    """Record a block, step by step where there is a schedule."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        use_cuda: bool | None = None,
        **newer: Any,
    ) -> None:
        unknown = newer.keys() - _newer().keys()
        if unknown:
            raise _events.refusal(TypeError(f"__init__() got an unexpected keyword argument {min(unknown)!r}"))
        super().__init__(
            activities, record_shapes, profile_memory, with_stack, with_flops, with_modules, experimental_config
        )
        ready = None if on_trace_ready is None else lambda host: on_trace_ready(self)
        actions = None if schedule is None else lambda step: torch.profiler.ProfilerAction(schedule(step).value)
        self._host = torch.profiler.profile(**self._options, schedule=actions, on_trace_ready=ready)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def step(self) -> None:
        """Say that a step of the program ended."""
        self._host.step()

    @classmethod
    def enable_profiler_in_child_thread(
        cls,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        """Record a further thread, which is not rehearsed."""
        _refuse("enable_profiler_in_child_thread")

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """Record a further thread no longer, which is not rehearsed."""
        _refuse("disable_profiler_in_child_thread")


def _refuse(name: str) -> None:
    _facade_support.stubs("torch_npu.profiler.profile", [name])[name]()


_NAMES_TRACES = "2.7.1.post8 2.9.0.post6 2.10.0.post4 2.11.0"
"""The first versions, each for its torch, in which a program gives traces their names."""


def _newer() -> dict[str, object]:
    """Return the arguments that came later, with their defaults, in the order of the newest version."""
    observer = {"execution_trace_observer": None} if _current().at_least("2.12.0.post3") else {}
    return {**observer, **({"custom_trace_id_callback": None} if _current().at_least(_NAMES_TRACES) else {})}


_facade_support.show_parameters(profile, newer=_newer(), before="use_cuda")
if _current().at_least(_NAMES_TRACES):

    def _set_custom_trace_id_callback(self: profile, callback: Callable[[], str]) -> None:
        """Say what names traces, which is not rehearsed."""
        _refuse("set_custom_trace_id_callback")

    def _get_trace_id(self: profile) -> str:
        """Return the name of the trace, which is not rehearsed."""
        _refuse("get_trace_id")
        return ""

    profile.set_custom_trace_id_callback, profile.get_trace_id = _set_custom_trace_id_callback, _get_trace_id
__getattr__ = _facade_support.missing(__name__)
