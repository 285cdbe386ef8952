"""Device tensors in other processes, as `torch.multiprocessing` sends those of CUDA: shared memory, no copies.

The plugins that can do so put functions of theirs in the place of torch's; so does this. The tuple of arguments is
CUDA's, since programs take it apart: the seventh is the device, which a receiver may change.

What holds for CUDA (torch's "Sharing CUDA tensors") holds here: a process that sent a tensor must live as long as the
receivers use it, what came from another process is not sent on, and an event of the rehearsal says where that fails.
"""

from __future__ import annotations

import importlib
import multiprocessing.reduction
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.multiprocessing import reductions

from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.terminal import print_notice
from torchferry.rehearsal import events
from torchferry.rehearsal.config import read, session_folder
from torchferry.rehearsal.native import Native

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]
"""What a reduction returns: how the receiver makes the object, and of what."""

_reduce_any_tensor: Callable[[torch.Tensor], Reduced] = reductions.reduce_tensor
_reduce_any_storage: Callable[[Any], Reduced] = reductions.reduce_storage


class _Sharing:
    """How one target's tensors leave and enter this process."""

    def __init__(self, target: Target, native: Native, event_class: Any) -> None:
        self.name = target.backend.DEVICE_TYPE
        self.plugin = target.backend.PLUGIN
        self.native = native
        self.event_class = event_class
        self.tensors = target.shares_tensors()
        self.events = target.shares_events()

    def check(self, shares: bool | Unknown, what: str) -> None:
        """Raise where the plugin does not send `what`, as its torch does; note where nobody knows."""
        if isinstance(shares, Unknown):
            events.record("unverified-api", f"torch.multiprocessing ({what} of {self.name})")
        elif not shares:
            events.record("sharing", "send", f"{self.plugin} does not share {what}")
            raise RuntimeError(
                f"_share_fd_: only available on CPU [rehearsal: {self.plugin} does not share {what} with other "
                "processes; send a copy on the CPU and move it to the device in the process that receives it]"
            )

    def described(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        """Share the storage of a tensor; return device, handle, bytes, offset, counter with offset, event with need."""
        handle = self.native.share(tensor).encode() or None
        return tensor.device.index, handle, tensor.untyped_storage().nbytes(), 0, handle, 0, b"", False

    def reduced(self, tensor: torch.Tensor) -> Reduced:
        """Return what another process rebuilds the tensor from."""
        self.check(self.tensors, "tensors")
        device, handle, size, offset, *rest = self.described(tensor)
        shape = (tensor.size(), tensor.stride(), tensor.storage_offset())
        kind = torch.storage.TypedStorage
        return rebuild_tensor, (
            type(tensor), *shape, kind, tensor.dtype, device, handle, size, offset, tensor.requires_grad, *rest,
        )  # fmt: skip


_sharing: _Sharing | None = None


def _current() -> _Sharing:
    """Return how this process shares; one that receives before it has used the device loads the plugin first."""
    if _sharing is None:
        importlib.import_module(read(session_folder()).resolved().backend.PLUGIN)  # which begins the session
    assert _sharing is not None
    return _sharing


def reduce_tensor(tensor: torch.Tensor) -> Reduced:
    """Return what another process makes `tensor` of.

    Raises:
        RuntimeError: it is no leaf and needs a gradient, came from another process, or cannot be sent by this plugin.
    """
    state = _current()
    if tensor.device.type != state.name or tensor.layout is not torch.strided or tensor.is_nested:
        return _reduce_any_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return _reduce_any_tensor(tensor)  # which refuses, in torch's words
    torch.utils.hooks.warn_if_has_hooks(tensor)
    return state.reduced(tensor)


def rebuild_tensor(
    tensor_cls: type,
    tensor_size: tuple[int, ...],
    tensor_stride: tuple[int, ...],
    tensor_offset: int,
    storage_cls: type,
    dtype: torch.dtype,
    storage_device: int | str | torch.device,
    storage_handle: bytes | None,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: bytes | None,
    ref_counter_offset: int,
    event_handle: bytes,
    event_sync_required: bool,
) -> torch.Tensor:
    """Make a tensor on the memory that another process sent; names and order are those of CUDA's function.

    Raises:
        RuntimeError: the process that sent it has ended, or this one was forked after it had used the device.
    """
    state = _current()
    device = _device(state, storage_device)
    if storage_handle is None or storage_size_bytes == 0:
        tensor = torch.empty_strided(tensor_size, tensor_stride, dtype=dtype, device=device)
    else:
        tensor = state.native.receive(
            storage_handle.decode(), device.index, dtype, tensor_size, tensor_stride, tensor_offset
        )
    if tensor_cls is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad=requires_grad)  # at once: integers take no other
    tensor.requires_grad = requires_grad
    return tensor


def _device(state: _Sharing, device: int | str | torch.device) -> torch.device:
    full_device = torch.device(state.name, device) if isinstance(device, int) else torch.device(device)
    return full_device if full_device.index is not None else torch.device(state.name, state.native.current_device())


def _reduce_storage(storage: Any) -> Reduced:
    state = _current()
    if storage.device.type == state.name:
        state.check(state.tensors, "tensors")
        title = state.native.title
        raise events.refusal(RuntimeError(f"Cannot pickle {title} storage; try pickling a {title} tensor instead"))
    return _reduce_any_storage(storage)


def _reduce_event(event: Any) -> Reduced:
    state = _current()
    state.check(state.events, "events")
    return rebuild_event, (event.device, event.ipc_handle())


def rebuild_event(device: torch.device, handle: bytes) -> Any:
    """Make an event that another process sent.

    Raises:
        RuntimeError: the handle is none, or this process was forked after it had used the device.
    """
    return _current().event_class.from_ipc_handle(device, handle)


def _share_storage(storage: Any) -> tuple[Any, ...]:
    """What `_share_cuda_` is for CUDA."""
    untyped = getattr(storage, "_untyped_storage", storage)
    return _current().described(torch.empty(0, dtype=torch.uint8, device=untyped.device).set_(untyped))


def new_shared_storage(
    device: int, handle: bytes, size_bytes: int, offset_bytes: int, *ref_counter_and_event: object
) -> torch.UntypedStorage:
    """Return the storage that another process sent; takes what `_share_cuda_` returned there."""
    state = _current()
    return state.native.receive(handle.decode(), device, torch.uint8, (size_bytes,), (1,), 0).untyped_storage()


def register(target: Target, native: Native, namespace: ModuleType) -> None:
    """Let `torch.multiprocessing` send tensors and events of the device as the target's plugin does, or not at all."""
    global _sharing  # noqa: PLW0603 - torch takes one such device a process
    event = namespace.__dict__.get("Event")
    state = _sharing = _Sharing(target, native, event)
    reductions.reduce_tensor = reduce_tensor
    reductions.reduce_storage = _reduce_storage
    reductions.init_reductions()  # type: ignore[no-untyped-call]
    if event is not None:
        multiprocessing.reduction.register(event, _reduce_event)
    if state.tensors is True:
        _add_vendor_methods(state)


def _add_vendor_methods(state: _Sharing) -> None:
    """Give storages the methods that plugins add in place of `_share_cuda_` and `_new_shared_cuda`."""
    untyped: Any = torch.UntypedStorage
    typed: Any = torch.TypedStorage
    for storage in (untyped, typed):
        setattr(storage, f"_share_{state.name}_", _share_storage)
        setattr(storage, f"_new_shared_{state.name}", staticmethod(new_shared_storage))


def end(native: Native) -> None:
    """Say, as CUDA does, that this process ends before others have let go what it sent."""
    if native.end_sharing() > 0:
        print_notice(
            f"[W] Producer process has been terminated before all shared {native.title} tensors released. "
            f"See Note [Sharing {native.title} tensors]"
        )
