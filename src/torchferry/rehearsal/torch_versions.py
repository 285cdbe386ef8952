"""What an older torch lacks of the classes that the simulated device derives its own from.

Everything else asks torch itself (`hasattr`) where it needs to; here is what takes more than that.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
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


def custom_forward(forward: Callable[..., Any], cast_inputs: torch.dtype | None, native: Native) -> Callable[..., Any]:
    """Return what `torch.amp.custom_fwd` makes of a forward; torch before 2.4 has it for CUDA alone."""
    if hasattr(torch.amp, "custom_fwd"):
        return torch.amp.custom_fwd(forward, device_type=native.device_name, cast_inputs=cast_inputs)  # type: ignore[no-any-return]
    return custom_forward_for(forward, cast_inputs, native.device_name, autocast_functions(native))


def custom_forward_for(
    forward: Callable[..., Any],
    cast_inputs: torch.dtype | None,
    device_type: str,
    functions: Mapping[str, Callable[..., Any]],
) -> Callable[..., Any]:
    """Return the same, of a device type and its functions for the state of autocast."""

    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            meant = value.is_floating_point() and value.device.type == device_type and value.dtype is not torch.float64
            return value.to(cast_inputs) if meant else value
        if isinstance(value, Mapping):
            return {cast(key): cast(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(cast, value))
        return value

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        context, on = args[0], functions["is_autocast_enabled"]()
        context._dtype = functions["get_autocast_dtype"]()
        context._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return forward(*args, **kwargs)
        with torch.autocast(device_type, enabled=False):
            return forward(*cast(args), **cast(kwargs))

    return call


def custom_backward(backward: Callable[..., Any], native: Native) -> Callable[..., Any]:
    """Return what `torch.amp.custom_bwd` makes of a backward."""
    if hasattr(torch.amp, "custom_bwd"):
        return torch.amp.custom_bwd(backward, device_type=native.device_name)  # type: ignore[no-any-return]
    return custom_backward_for(backward, native.device_name)


def custom_backward_for(backward: Callable[..., Any], device_type: str) -> Callable[..., Any]:
    """Return the same, of a device type."""

    @functools.wraps(backward)
    def call(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with torch.autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return backward(*args, **kwargs)

    return call


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


_libraries: list[Any] = []
"""Keeps what was registered: an operator goes with its library."""


def complete_cpu() -> None:
    """Give the CPU the operators of gradient scaling that the device computes by it, before torch 2.3 CUDA's alone."""
    kernels = {"_amp_foreach_non_finite_check_and_unscale_": unscale, "_amp_update_scale_": update_scale}
    if not _libraries:
        for name, kernel in kernels.items():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"):
                library: Any = torch.library.Library("aten", "IMPL", "CPU")  # type: ignore[no-untyped-call]
                library.impl(name, kernel)
                _libraries.append(library)


def unscale(gradients: list[torch.Tensor], found_inf: torch.Tensor, inverse_scale: torch.Tensor) -> None:
    """Multiply gradients in place, and note in `found_inf` whether one of them was not finite."""
    for gradient in gradients:
        if not bool(torch.isfinite(gradient).all()):
            found_inf.fill_(1.0)
        wide = torch.promote_types(gradient.dtype, torch.float32)
        gradient.copy_(gradient.to(wide) * inverse_scale.to(wide))


def update_scale(
    scale: torch.Tensor,
    growth_tracker: torch.Tensor,
    found_inf: torch.Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> torch.Tensor:
    """Make the scale smaller after a step that was left out, and larger after many that were not."""
    if bool(found_inf):
        growth_tracker.fill_(0)
        return scale.mul_(backoff_factor)
    good_steps = int(growth_tracker) + 1
    grows = good_steps == growth_interval
    growth_tracker.fill_(0 if grows else good_steps)
    if grows and bool(torch.isfinite(scale * growth_factor)):
        scale.mul_(growth_factor)
    return scale


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
