"""What an older torch lacks of the classes that the simulated device derives its own from.

Everything else asks torch itself (`hasattr`) where it needs to; here is what takes more than that.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend

if TYPE_CHECKING:
    from torchferry.rehearsal.native import Native

_HAS_GENERIC_STREAMS = hasattr(torch.Stream, "record_event")
"""Whether `torch.Stream` and `torch.Event` work for any device: from torch 2.5 on."""


class _BareStream(torch.Stream):
    """`torch.Stream` with the methods that it has from torch 2.5 on; work on a simulated device is always done."""

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def synchronize(self) -> None:
        """Wait for all work."""

    def wait_event(self, event: Any) -> None:
        """Let later work wait for an event."""
        event.wait(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, torch.Stream) and _identity(self) == _identity(other)

    def __hash__(self) -> int:
        return hash(_identity(self))


def _identity(stream: torch.Stream) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


class _BareEvent:
    """What `torch.Event` is from torch 2.5 on."""

    def __new__(cls, *, device: torch.device, **options: bool) -> _BareEvent:
        event = super().__new__(cls)
        event._device = device
        event.event_id = id(event)
        return event

    _device: torch.device
    event_id: int

    @property
    def device(self) -> torch.device:
        """The device whose stream recorded the event."""
        return self._device

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event in a stream."""
        if stream is not None:
            self._device = stream.device

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Let later work of a stream wait for the event."""

    def query(self) -> bool:
        """Whether the event has happened."""
        return True

    def synchronize(self) -> None:
        """Wait for the event."""


STREAM_BASE: Any = torch.Stream if _HAS_GENERIC_STREAMS else _BareStream
EVENT_BASE: Any = torch.Event if _HAS_GENERIC_STREAMS else _BareEvent


def autocast_functions(native: Native) -> dict[str, Callable[..., object]]:
    """Return what asks and sets autocast of the device; torch before 2.4 asks the module of the device for it."""
    if not hasattr(torch, "get_autocast_dtype"):
        return native.autocast_functions()
    names = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
    return {name: functools.partial(getattr(torch, name), native.device_name) for name in names}


def process_group(store: Any, rank: int, size: int) -> Any:
    """Return an empty process group, whose constructor wants options up to torch 2.5.

    Raises:
        RuntimeError: torch 2.1 does not hand a process group to operators.
    """
    distributed: Any = torch.distributed
    options = getattr(distributed.ProcessGroup, "Options", None)
    group = distributed.ProcessGroup(store, rank, size, *([] if options is None else [options("gloo")]))
    if not hasattr(group, "boxed"):
        raise RuntimeError(
            f"torch {torch.__version__} cannot rehearse several ranks with the simulated plugin: "
            "use a later torch, or the vendor's own plugin (--plugin) [rehearsal]"
        )
    return group


OUT_OF_MEMORY: type[Exception] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
"""What PyTorch raises where a device of any kind has no memory left; it has the first name from torch 2.5 on."""


def name_methods_after_device() -> None:
    """Give tensors, modules, storages and packed sequences (from torch 2.2 on) the methods named after the device."""
    generate: Callable[..., None] = generate_methods_for_privateuse1_backend
    wanted = ("for_tensor", "for_module", "for_packed_sequence", "for_storage")
    generate(**{name: True for name in wanted if name in inspect.signature(generate).parameters})


@functools.cache
def grad_scaler() -> Any:
    """Return the scaler for any device: `torch.amp.GradScaler`; before torch 2.3, that of `torch.cuda.amp`."""
    return torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else _scaler_for_any_device()


def _scaler_for_any_device() -> Any:
    """Let go of the two places where `torch.cuda.amp.GradScaler` insists on CUDA (torch 2.2)."""
    scalers: Any = importlib.import_module("torch.cuda.amp.grad_scaler")

    class Replicator(scalers._MultiDeviceReplicator):  # type: ignore[misc]
        def __init__(self, master_tensor: torch.Tensor) -> None:
            self.master = master_tensor
            self._per_device_tensors: dict[torch.device, torch.Tensor] = {}

    class AnyDeviceGradScaler(scalers.GradScaler):  # type: ignore[misc]
        def __init__(
            self,
            device: str,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            super().__init__(enabled=False)  # where there is no CUDA device it would switch itself off, with a warning
            self._enabled = enabled
            if enabled:
                self._init_scale = init_scale
                self._scale: Any = None
                self._growth_factor = growth_factor
                self._backoff_factor = backoff_factor
                self._growth_interval = growth_interval
                self._init_growth_tracker = 0
                self._growth_tracker = None
                self._per_optimizer_states = scalers.defaultdict(scalers._refresh_per_optimizer_state)

        def scale(self, outputs: Any) -> Any:
            if not self._enabled:
                return outputs
            if isinstance(outputs, torch.Tensor):
                if self._scale is None:
                    self._lazy_init_scale_growth_tracker(outputs.device)
                return outputs * self._scale.to(device=outputs.device, non_blocking=True)
            if isinstance(outputs, (list, tuple)):
                scaled = [self.scale(output) for output in outputs]
                return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    scalers._MultiDeviceReplicator = Replicator
    return AnyDeviceGradScaler
