"""Streams and events of the simulated device: everything asked of it has already happened, and time is the host's."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import torch

from torchferry.rehearsal import events
from torchferry.rehearsal.device_module.context import DeviceContext, DeviceLike
from torchferry.rehearsal.torch_versions import EVENT_BASE, STREAM_BASE

_EVENT_HANDLE = b"torchferry event".ljust(64, b"\0")
"""Nothing in it tells events apart: what an event waits for is over when it is recorded. A card's has this size."""


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the streams, events and the functions that choose among streams, by their name below `torch.cuda`."""
    stream_class = _stream_class(context)
    event_class = _event_class(context)
    external_class = _external_stream_class(context, stream_class)

    def record_event(self: torch.Stream, event: torch.Event | None = None) -> torch.Event:
        recorded = event_class() if event is None else event
        recorded.record(self)
        return recorded

    # The two classes need each other: a stream makes events of the plugin's own class.
    stream_class.record_event = record_event  # type: ignore[method-assign]

    names: dict[str, object] = {"Stream": stream_class, "Event": event_class, "ExternalStream": external_class}
    names.update({f"streams.{name}": value for name, value in names.items()})
    names.update(_selectors(context, stream_class))
    return names


def _stream_class(context: DeviceContext) -> type[torch.Stream]:
    name = context.name

    class Stream(STREAM_BASE):  # type: ignore[misc]
        """A queue of work of one device; on a simulated device, work is done when it is queued."""

        def __new__(cls, device: DeviceLike = None, priority: int = 0, **identity: Any) -> Stream:
            if not identity:
                context.initialize()
                identity = _identity(context, context.native.new_stream(), context.existing(device))
            stream: Stream = super().__new__(cls, **identity)
            return stream

        def wait_stream(self, stream: torch.Stream) -> None:
            """Let later work of this stream wait for what `stream` has queued."""
            self.wait_event(stream.record_event())

        @property
        def _as_parameter_(self) -> ctypes.c_void_p:
            return ctypes.c_void_p(self.stream_id)

        def __repr__(self) -> str:
            return f"<{context.namespace}.Stream device={self.device} {name}_stream={self.stream_id:#x}>"

    # The number under which C code knows the stream bears the vendor's name.
    setattr(Stream, f"{name}_stream", property(lambda self: self.stream_id))
    return Stream


def _external_stream_class(context: DeviceContext, stream_class: type[torch.Stream]) -> type[torch.Stream]:
    class ExternalStream(stream_class):  # type: ignore[misc, valid-type]
        """A stream made elsewhere; here, one of this device under the number that it gave."""

        def __new__(cls, stream_ptr: int, device: DeviceLike = None, **options: Any) -> Any:
            return super().__new__(cls, **_identity(context, stream_ptr, context.existing(device)))

    return ExternalStream


def _event_class(context: DeviceContext) -> type[torch.Event]:
    class Event(EVENT_BASE):  # type: ignore[misc]
        """A point in the work of a stream.

        It keeps its own time: `torch.Event` measures no subclass of itself.
        """

        _recorded: float | None = None
        _timing: bool = False
        _interprocess: bool = False
        _sent_from: torch.device | None = None

        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
            if interprocess and enable_timing:
                raise events.refusal(
                    RuntimeError("An event that is shared between processes cannot have enable_timing=True.")
                )
            event: Event = super().__new__(
                cls,
                device=torch.device(context.name),
                enable_timing=enable_timing,
                blocking=blocking,
                interprocess=interprocess,
            )
            event._timing = enable_timing
            event._interprocess = interprocess
            return event

        @property
        def device(self) -> torch.device:
            """The device whose stream recorded the event."""
            own: torch.device = super().device
            return self._sent_from or own

        def record(self, stream: torch.Stream | None = None) -> None:
            """Record the event in `stream`, by default the current one."""
            context.initialize()
            super().record(*(() if stream is None else (stream,)))
            self._recorded = time.perf_counter()

        def wait(self, stream: torch.Stream | None = None) -> None:
            """Let later work of `stream` wait for the event."""
            context.initialize()
            super().wait(*(() if stream is None else (stream,)))

        def elapsed_time(self, end_event: torch.Event) -> float:
            """Return the milliseconds between two events, as the host's clock measured them.

            Raises:
                RuntimeError: an event was made without `enable_timing=True`, or was not recorded.
            """
            if not isinstance(end_event, Event):
                raise events.refusal(TypeError(f"expected {context.namespace}.Event, got {type(end_event).__name__}"))
            if not (self._timing and end_event._timing):
                raise events.refusal(RuntimeError("Both events must be created with argument 'enable_timing=True'."))
            if self._recorded is None or end_event._recorded is None:
                raise events.refusal(RuntimeError("Both events must be recorded before calculating elapsed time."))
            return (end_event._recorded - self._recorded) * 1e3

        @classmethod
        def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Event:
            """Return the event that another process shares: like every event here, it has already happened."""
            context.initialize()
            if handle != _EVENT_HANDLE:
                raise events.refusal(RuntimeError(f"this is no handle of an event of {context.name}"))
            event = cls(interprocess=True)
            event._sent_from = torch.device(context.name, context.existing(device))
            return event

        def ipc_handle(self) -> bytes:
            """Return what another process makes this event of.

            Raises:
                RuntimeError: the event was made without `interprocess=True`.
            """
            context.initialize()
            if not self._interprocess:
                raise events.refusal(RuntimeError("Only an event that was made with interprocess=True has a handle."))
            return _EVENT_HANDLE

        def __repr__(self) -> str:
            state = "uninitialized" if self._recorded is None else f"{self.event_id:#x}"
            return f"<{context.namespace}.Event {state}>"

    # The number under which C code knows the event bears the vendor's name, too.
    setattr(Event, f"{context.name}_event", property(lambda self: self.event_id))
    return Event


def _identity(context: DeviceContext, stream: int, device: int) -> dict[str, int]:
    """Return what tells a stream from any other."""
    return {"stream_id": stream, "device_index": device, "device_type": context.native.device_type()}


def _selectors(context: DeviceContext, stream_class: type[torch.Stream]) -> dict[str, object]:
    def current_stream(device: DeviceLike = None) -> torch.Stream:
        """Return the current stream of a device."""
        context.initialize()
        index = context.existing(device)
        return stream_class(**_identity(context, context.native.current_stream(index), index))

    def default_stream(device: DeviceLike = None) -> torch.Stream:
        """Return the default stream of a device."""
        context.initialize()
        return stream_class(**_identity(context, 0, context.existing(device)))

    def set_stream(stream: torch.Stream | None) -> None:
        """Make a stream current; None changes nothing."""
        if stream is not None:
            context.initialize()
            context.native.set_stream(stream.device_index, stream.stream_id)

    class StreamContext:
        """Make a stream, and its device, current within a block; None changes nothing."""

        def __init__(self, stream: torch.Stream | None) -> None:
            self.stream = stream
            self._previous: torch.Stream | None = None
            self._displaced: torch.Stream | None = None

        def __enter__(self) -> None:
            if self.stream is None:
                return
            self._previous = current_stream()
            if self.stream.device != self._previous.device:
                self._displaced = current_stream(self.stream.device)
            set_stream(self.stream)

        def __exit__(self, *exception: object) -> None:
            set_stream(self._displaced)
            set_stream(self._previous)

    def stream(stream: torch.Stream | None) -> StreamContext:
        """Make a stream current within a block."""
        return StreamContext(stream)

    return {
        "current_stream": current_stream,
        "default_stream": default_stream,
        "set_stream": set_stream,
        "StreamContext": StreamContext,
        "stream": stream,
    }
