"""Measuring: the profiler's activities and class, and time that waits for the device."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from torchferry.core.messages import say
from torchferry.device.failures import NotOnThisDeviceError, plain, warn
from torchferry.device.names import DescribedDevice, find, required, resolve


def wait(place: DescribedDevice) -> None:
    """Wait until the device has done all that it was given; a lazy device is made to run what it has put off."""
    if not place.facts.namespace and not place.facts.plugin:
        return
    if place.facts.run_pending:
        run = resolve(place.facts.run_pending)
        if run is None:
            raise NotOnThisDeviceError(
                say("the installed {plugin} has no {path}", plugin=place.facts.plugin, path=place.facts.run_pending)
            )
        run(place.device)
    required(place.facts, "synchronize")(place.device)


class Timing:
    """Seconds of a block, with the device's work in it: `with manager.timing() as timing: ...; timing.seconds`."""

    def __init__(self, place: DescribedDevice) -> None:
        self._place = place
        self._start = 0.0
        self._seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds from the begin to the end of the block.

        Raises:
            RuntimeError: the block has not ended.
        """
        if self._seconds is None:
            raise RuntimeError(say("the timing block has not ended: read `seconds` after the `with` block").render())
        return self._seconds

    def __enter__(self) -> Timing:
        wait(self._place)
        self._start = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # after an error, waiting could raise another and hide it
            wait(self._place)
        self._seconds = time.perf_counter() - self._start


def activities(place: DescribedDevice) -> list[Any]:
    """Return what to give to the profiler: the CPU, and the device where its work can be recorded.

    Where it cannot, or nobody has verified how, a warning says so.
    """
    path = place.facts.profiler_activity
    if path:
        activity = resolve(path)
        if activity is not None:
            return [resolve(path.rpartition(".")[0] + ".CPU"), activity]
        warn(say("the profiler shows only the CPU: the installed {plugin} has no {path}",
                 plugin=place.facts.plugin or "torch", path=path))  # fmt: skip
    elif place.facts.profiler_note.en:
        warn(say("the profiler shows only the CPU: {note}", note=place.facts.profiler_note))
    elif path is None:
        warn(say("the profiler shows only the CPU: how work on {title} is recorded is not known",
                 title=place.facts.title))  # fmt: skip
    return [resolve("torch.profiler.ProfilerActivity.CPU")]


def new_profiler(place: DescribedDevice, options: dict[str, Any]) -> Any:
    """Return the profiler that records the device.

    Raises:
        NotOnThisDeviceError: the installed plugin does not have it.
    """
    profiler = resolve(place.facts.profiler)
    if profiler is None:
        raise NotOnThisDeviceError(
            say("the installed {plugin} has no {path}", plugin=place.facts.plugin, path=place.facts.profiler)
        )
    if "activities" not in options:
        options = {"activities": activities(place), **options}
    return profiler(**options)


def time_column(place: DescribedDevice, own: bool) -> str:
    """Return the column for `key_averages().table(sort_by=...)`: time on the device, without callees if `own`.

    Raises:
        NotOnThisDeviceError: the device's profiler has no table, or nobody has verified its columns.
    """
    key = place.facts.profiler_sort_key
    if key is None:
        raise NotOnThisDeviceError(
            say("the columns of the profiler's table are not known on {title}", title=place.facts.title),
            say("sort by `cpu_time_total`, which exists everywhere"),
        )
    if not key:
        raise NotOnThisDeviceError(
            say("the profiler of {title} has no table", title=place.facts.title),
            plain(place.facts.profiler_note) if place.facts.profiler_note.en else None,
        )
    return f"{'self_' if own else ''}{key}_total"


def new_stream(place: DescribedDevice, options: dict[str, Any]) -> Any:
    """Return a new stream of the device.

    Raises:
        NotOnThisDeviceError: the device has no streams.
    """
    return required(place.facts, "Stream", _IN_ORDER)(device=place.device, **options)


def use_stream(place: DescribedDevice, chosen: Any) -> Any:
    """Return a context in which work goes to a stream.

    Raises:
        NotOnThisDeviceError: the device has no streams.
    """
    return required(place.facts, "stream", _IN_ORDER)(chosen)


def new_event(place: DescribedDevice, enable_timing: bool) -> Any:
    """Return an event of the device.

    Raises:
        NotOnThisDeviceError: the device has no events.
    """
    return required(place.facts, "Event", _MEASURED)(enable_timing=enable_timing)


def has_streams(place: DescribedDevice) -> bool:
    """Whether the device has streams."""
    return find(place.facts, "Stream") is not None


_IN_ORDER = say("the device runs its work in order; omit the stream, or check has_streams first")
_MEASURED = say("measure with timing()")
