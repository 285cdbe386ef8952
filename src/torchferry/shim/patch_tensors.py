"""What has a device: tensors and what holds them, files, and classes that are made with a device.

`torch.load` translates `map_location` alone: the path of a file is nobody's device. What was saved on CUDA is restored
on the card. Where torch has no storages for the card, a storage that is moved there raises, and what is loaded stays on
the CPU, which is said. `torch.set_default_tensor_type` is the older way to say a default device and dtype.

For `torch.Generator`, `torch.Stream` and `torch.Event`, which cannot be changed, a class replaces them that
makes the objects on the card and shows their device to the program; what torch or the plugin makes is an instance of it
as well. Streams and events also have their handle under CUDA's name.
"""

from __future__ import annotations

import functools
import sys
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.rnn import PackedSequence
from torch.storage import TypedStorage, UntypedStorage
from torch.utils.data import DataLoader

from torchferry.backends import cuda
from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.shim import torch_versions
from torchferry.shim.caller_policy import CallerPolicy, warn_user
from torchferry.shim.devices import Devices, Parameters, parameter_names, with_device
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find

_LEGACY = f"{cuda.NAMESPACE}."


_PIN = "pin_memory"


def patch_tensor_methods(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect the methods of `torch.Tensor` that name a device."""
    devices = resolver.devices
    tensor = torch.Tensor
    to = _to(tensor.to, devices)
    patches.set(tensor, "to", to)
    patches.set(tensor, "cuda", _cuda(to, devices))
    patches.set(tensor, "type", _type(tensor.type, to, devices, policy))
    patches.set(tensor, "device", property(shown_device(tensor.device.__get__, devices, policy)))
    patches.set(tensor, "is_cuda", property(_is_cuda(tensor.device.__get__, devices, policy)))
    if devices.numbers:
        patches.set(torch.nn.Module, "to", _to(torch.nn.Module.to, devices))
    packed = PackedSequence
    patches.set(packed, "is_cuda", property(shown_is_cuda(_packed_device, devices, policy)))
    patches.set(packed, "cuda", _packed_cuda(packed.cuda, devices))
    lazy: Any = UninitializedParameter.__mro__[1]  # the mixin of parameters and buffers, which has no public name
    patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, tensor.to, tensor.cuda])
    for name in ("pin_memory", "is_pinned"):
        patches.set(tensor, name, _first_is_device(getattr(tensor, name), devices))
    if _PIN in resolver.target.backend.LEFT_OUT_BY_TORCH:
        patches.set(tensor, _PIN, _not_pinned(getattr(tensor, _PIN), resolver.target))


def _to(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    of, kinds = devices.of, (str, torch.device, int) if devices.numbers else (str, torch.device)

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and args[0].__class__ in kinds:
            return original(self, of(args[0]), *args[1:], **kwargs)
        if "device" in kwargs:
            kwargs["device"] = of(kwargs["device"])
        return original(self, *args, **kwargs)

    return to


def _cuda(to: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    original = torch.Tensor.cuda

    @functools.wraps(original)
    def cuda_(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not devices.to_card:
            return original(self, device, *args, **kwargs)
        if devices.call_sites is not None:
            devices.call_sites.note("torch.Tensor.cuda")
        if args:
            kwargs["non_blocking"] = args[0]
        return to(self, devices.place(device), **kwargs)

    return cuda_


def _type(original: Callable[..., Any], to: Callable[..., Any], devices: Devices, policy: CallerPolicy) -> Any:
    card_prefix = f"torch.{devices.card}."

    @functools.wraps(original)
    def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        legacy = legacy_dtype(dtype) if devices.to_card else None
        if legacy is not None:
            return to(self, torch.device(devices.card), legacy, non_blocking=non_blocking)
        type_name = original(self, dtype, non_blocking, **kwargs)
        if dtype is None and type_name.startswith(card_prefix) and devices.to_card and not policy.sees_card():
            return _LEGACY + type_name.removeprefix(card_prefix)
        return type_name

    return type_


def legacy_dtype(kind: Any) -> torch.dtype | None:
    """Return the dtype of `torch.cuda.FloatTensor`, given by name or as what is there; None for anything else."""
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    name = name.rpartition(".")[2]
    if isinstance(kind, str):
        is_cuda_type = kind == _LEGACY + name
    else:
        is_cuda_type = name.endswith("Tensor") and vars(torch.cuda).get(name) is kind
    dtype = getattr(getattr(torch, name, None), "dtype", None) if is_cuda_type else None
    return dtype if isinstance(dtype, torch.dtype) else None


_READERS = frozenset({"device", "get_parameter_device"})
"""Functions that read a device for whoever calls them, such as the property of transformers' and diffusers' models.

The program compares `model.device` with that of a tensor, and a pipeline that of a model with that of a generator: both
must be seen as by the one who asks, not as by the library that happens to hold the property."""


def shown_device(
    get: Callable[[Any], torch.device], devices: Devices, policy: CallerPolicy, depth: int = 1
) -> Callable[[Any], Any]:
    """Return a getter of `.device` that shows the card to those who see it and a CUDA device to the program.

    Args:
        get: The device as it is.
        devices: Those of the card.
        policy: Who sees what.
        depth: How many frames up the one is who asks.
    """
    to_cuda, by_module, decide = devices.to_cuda, policy.by_module, policy.decide

    def device(self: Any) -> torch.device:
        real = get(self)
        cuda_device = to_cuda.get(real)
        if cuda_device is None:
            return real
        frame = sys._getframe(depth)
        while frame.f_code.co_name in _READERS and frame.f_back is not None:
            frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        sees_card = by_module.get(name)
        if sees_card is None:
            sees_card = decide(name)
        return real if sees_card else cuda_device

    return device


def _is_cuda(get: Callable[[Any], torch.device], devices: Devices, policy: CallerPolicy) -> Callable[[Any], bool]:
    to_cuda = devices.to_cuda

    def is_cuda(self: Any) -> bool:
        real = get(self)
        if real not in to_cuda:
            return real.type == cuda.DEVICE_TYPE
        if policy.sees_card():
            return False
        if devices.call_sites is not None:
            devices.call_sites.note("torch.Tensor.is_cuda")
        return True

    return is_cuda


def shown_is_cuda(get: Callable[[Any], torch.device], devices: Devices, policy: CallerPolicy) -> Callable[[Any], bool]:
    """Return a getter of `.is_cuda` of what has a device, answered for the one who asks."""

    def is_cuda(self: Any) -> bool:
        real = get(self)
        return real.type == cuda.DEVICE_TYPE or (real in devices.to_cuda and not policy.sees_card())

    return is_cuda


def _packed_device(packed: Any) -> torch.device:
    """torch asks the tensor, which shows torch the card, as it does here."""
    device: torch.device = packed.data.device
    return device


def _packed_cuda(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    @functools.wraps(original)
    def cuda_(self: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if not devices.to_card:
            return original(self, device, *args, **kwargs)
        if args:
            kwargs["non_blocking"] = args[0]
        return self.to(devices.place(device), **kwargs)

    return cuda_


def _first_is_device(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, device: Any = None) -> Any:
        return original(self) if device is None else original(self, devices.of(device))

    return call


class StorageStaysError(NotImplementedError):
    """A storage is to be moved to a card for which torch has none."""


def _not_pinned(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Return `original`, whose error, which speaks of another device, is followed by the reason."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except RuntimeError as error:
            text = say(
                "torch cannot pin memory for {target}: omit pin_memory, which only affects speed", target=target.title
            )
            raise NotImplementedError(f"torchferry: {text}") from error

    return call


def patch_storages(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect both kinds of storage."""
    devices = resolver.devices
    for kind in (UntypedStorage, TypedStorage):
        original = kind.device
        get = original.fget if isinstance(original, property) else original.__get__
        patches.set(kind, "device", property(shown_device(get, devices, policy)))
        patches.set(kind, "is_cuda", property(shown_is_cuda(get, devices, policy)))
        patches.set(kind, "cuda", _storage_cuda(kind.cuda, resolver))
        if hasattr(kind, "to"):  # since torch 2.2
            patches.set(kind, "to", _storage_to(kind.to, resolver))
    patches.set(UntypedStorage, "__new__", staticmethod(with_device(UntypedStorage.__new__, devices)))
    patches.set(TypedStorage, "__init__", with_device(TypedStorage.__init__, devices))


def _storage_cuda(original: Any, resolver: Resolver) -> Any:
    devices = resolver.devices

    def cuda_(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        if not devices.to_card:
            return original(self, device, non_blocking)
        return _move_storage(self, torch.device(devices.place(device)), resolver, non_blocking)

    return cuda_


def _move_storage(storage: Any, place: torch.device, resolver: Resolver, non_blocking: bool = False) -> Any:
    """Return a storage on a device of the card; torch 2.1 has the method alone that the plugin adds."""
    _refuse_storage(place, resolver)
    if hasattr(storage, "to"):
        return storage.to(device=place, non_blocking=non_blocking)
    return getattr(storage, place.type)(place.index, non_blocking)


def _refuse_storage(place: torch.device, resolver: Resolver) -> None:
    if place.type == resolver.devices.card and _stays_on_host(resolver):
        text = say("torch has no storages on {target}: move the tensor instead", target=resolver.target.title)
        raise StorageStaysError(f"torchferry: {text}")


def _stays_on_host(resolver: Resolver) -> bool:
    """Whether torch puts no storage onto the card: it is what a checkpoint is loaded by."""
    return resolver.target.backend.LOADS_TO_DEVICE is False


def _storage_to(original: Any, resolver: Resolver) -> Any:
    devices = resolver.devices

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        place = torch.device(devices.of(device))
        _refuse_storage(place, resolver)
        return original(self, device=place, non_blocking=non_blocking)

    return to


_PRIORITY = 15
"""Between torch's own CPU (10) and CUDA (20): storages saved on CUDA go to the card."""


def patch_load(patches: Patches, resolver: Resolver) -> None:
    """Redirect `torch.load`, `torch.jit.load` and the places that storages are restored to."""
    load = _load(torch.load, resolver, position=1)
    for module in (torch, torch.serialization):
        patches.set(module, "load", load)
    patches.set(torch.jit, "load", _load(torch.jit.load, resolver, position=1))
    registry = torch.serialization._package_registry
    entry = (_PRIORITY, _no_tag, _restore(resolver))
    registry.append(entry)
    registry.sort(key=lambda restorer: restorer[0])
    patches.at_end(lambda: registry.remove(entry))


def _load(original: Callable[..., Any], resolver: Resolver, position: int) -> Callable[..., Any]:
    @functools.wraps(original)
    def load(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], _map_location(args[position], resolver), *args[position + 1 :])
        elif "map_location" in kwargs:
            kwargs["map_location"] = _map_location(kwargs["map_location"], resolver)
        return original(*args, **kwargs)

    return load


def _map_location(location: Any, resolver: Resolver) -> Any:
    """Return `map_location` for the card: a device, or a table that serves files of CUDA and of the card."""
    devices = resolver.devices
    if isinstance(location, dict):
        locations = {key: str(_loadable(value, resolver)) for key, value in location.items()}
        return {**{str(devices.of(key)): value for key, value in locations.items()}, **locations}
    return _with_cuda_location(location, resolver) if callable(location) else _loadable(location, resolver)


def _loadable(location: Any, resolver: Resolver) -> Any:
    """Return the card's device for one of CUDA, and the CPU where torch loads nothing onto the card."""
    place = resolver.devices.of(location)
    if place is location or not _stays_on_host(resolver):
        return place
    _say_loaded_to_host(resolver)
    return _HOST


_HOST = torch.device("cpu")


def _say_loaded_to_host(resolver: Resolver) -> None:
    warn_user(
        say(
            "torch cannot load to {target}: the loaded tensors stay on the CPU; move those that "
            "`load_state_dict` does not copy",
            target=resolver.target.title,
        )
    )


def _with_cuda_location(function: Callable[[Any, str], Any], resolver: Resolver) -> Callable[[Any, str], Any]:
    """Return the program's function, which asks for places on CUDA, for files that were written on the card."""

    @functools.wraps(function)
    def call(storage: Any, location: str) -> Any:
        cuda_names = {str(card): str(cuda_) for card, cuda_ in resolver.devices.to_cuda.items()}
        try:
            return function(storage, cuda_names.get(location, location))
        except StorageStaysError:
            _say_loaded_to_host(resolver)
            return storage

    return call


def _no_tag(storage: Any) -> None:
    return None


def _restore(resolver: Resolver) -> Callable[[Any, str], Any]:
    def restore(storage: Any, location: str) -> Any:
        if not location.startswith(cuda.DEVICE_TYPE):
            return None
        place = resolver.devices.to_card.get(location)
        if place is None:
            return None
        if _stays_on_host(resolver):
            _say_loaded_to_host(resolver)
            return storage
        return _move_storage(storage, place, resolver)

    return restore


def patch_data_loader(patches: Patches, parameters: Parameters, devices: Devices) -> None:
    """Redirect `pin_memory_device`."""
    begin = parameters.translated(DataLoader.__init__)
    patches.set(DataLoader, "__init__", _pinning_for_card(begin, devices) if torch_versions.LOADER_ASKS_CUDA else begin)


def _pinning_for_card(begin: Callable[..., None], devices: Devices) -> Callable[..., None]:
    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - what it replaces
        begin(self, *args, **kwargs)
        if self.pin_memory and not self.pin_memory_device and devices.to_card:
            self.pin_memory_device = devices.card

    return __init__


def patch_fork_rng(patches: Patches, devices: Devices) -> None:
    """Let `torch.random.fork_rng` fork the card's generators where it is told no device type."""
    if not torch_versions.FORK_RNG_MEANS_CUDA:
        return
    original = torch.random.fork_rng
    position = parameter_names(original).index("device_type")

    @functools.wraps(original)
    def fork_rng(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= position and "device_type" not in kwargs and devices.to_card:
            kwargs["device_type"] = devices.card
        return original(*args, **kwargs)

    patches.set(torch.random, "fork_rng", fork_rng)


def patch_default_tensor_type(patches: Patches, devices: Devices) -> None:
    """Redirect `torch.set_default_tensor_type`; torch has such types for CUDA alone."""
    original = torch.set_default_tensor_type
    on_card = False

    @functools.wraps(original)
    def set_default_tensor_type(t: Any) -> None:
        nonlocal on_card
        dtype = legacy_dtype(t) if devices.to_card else None
        if dtype is not None and dtype.is_floating_point:
            torch.set_default_dtype(dtype)
            torch.set_default_device(devices.card)
            if not on_card:
                on_card = True
                warn_user(say("`torch.Tensor(...)` without a device still creates tensors on the CPU"))
            return
        if on_card:
            on_card = False
            torch.set_default_device(None)
        original(t)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def proxy_class(
    original: Any, devices: Devices, policy: CallerPolicy, before_move: Callable[[], None] | None = None
) -> type:
    """Return the class that replaces `original`.

    Args:
        original: The class of torch.
        devices: Those of the card.
        policy: Who sees what.
        before_move: Called when an object is asked for on CUDA, before it is made on the card; may raise.
    """

    def place(device: Any) -> Any:
        card_device = devices.of(device)
        if card_device is not device and before_move is not None:
            before_move()
        return card_device

    class ProxyMeta(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, original)

    class Proxy(original, metaclass=ProxyMeta):  # type: ignore[misc]
        __doc__ = original.__doc__

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 or (args and isinstance(args[0], (str, torch.device))):  # else numbers of a stream
                args = (place(args[0]), *args[1:])
            elif "device" in kwargs:
                kwargs["device"] = place(kwargs["device"])
            return original.__new__(cls, *args, **kwargs)

        device = property(shown_device(original.device.__get__, devices, policy))

    Proxy.__module__, Proxy.__name__, Proxy.__qualname__ = torch.__name__, original.__name__, original.__qualname__
    return Proxy


_CAN_CHANGE = 1 << 9
"""CPython's Py_TPFLAGS_HEAPTYPE: a class of C++ alone takes no new attributes."""

_PRIORITIES = "priority_range"


def patch_streams(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect the classes of torch, and what the plugin's own show of themselves."""
    for name, handle in (("Stream", "stream"), ("Event", "event")):
        _count_as(name, resolver)
        original = getattr(torch, name, None)
        row = resolver.target.api(f"{cuda.NAMESPACE}.{name}")
        refused = resolver.refusal(row.name, row, None) if row.status == "missing" else None
        if hasattr(original, "device"):  # since torch 2.4 a class that every device has
            patches.set(torch, name, proxy_class(original, resolver.devices, policy, refused))
        if row.use:
            _show(patches, resolver, policy, row.use, handle)


def _count_as(name: str, resolver: Resolver) -> None:
    """Let torch's abstract class (torch 2.3 to 2.5) count the card's as its own, as the tracer asks of CUDA's."""
    abstract = getattr(sys.modules.get("torch._streambase"), f"_{name}Base", None)
    stands = getattr(torch.cuda, name)
    if isinstance(abstract, ABCMeta) and isinstance(stands, type):
        abstract.register(stands)


def _show(patches: Patches, resolver: Resolver, policy: CallerPolicy, use: str, handle: str) -> None:
    devices = resolver.devices
    try:
        kind = find(use)
    except NotThereError:
        return
    if not isinstance(kind, type) or not kind.__flags__ & _CAN_CHANGE:
        return
    get = getattr(kind, "device", None)
    if get is not None:
        patches.set(kind, "device", property(shown_device(get.__get__, devices, policy)))
    patches.set(kind, f"{cuda.DEVICE_TYPE}_{handle}", property(_handle(f"{devices.card}_{handle}")))
    if handle == "stream" and not hasattr(kind, _PRIORITIES):
        patches.set(kind, _PRIORITIES, staticmethod(_no_priorities(resolver, use)))


def _no_priorities(resolver: Resolver, use: str) -> Callable[[], NoReturn]:
    def priority_range() -> NoReturn:
        text = say(
            "`{name}` would be `{use}` on {target}, which the installed plugin does not have; use "
            "streams without a priority, or with priority 0",
            name=f"{cuda.NAMESPACE}.Stream.{_PRIORITIES}",
            use=f"{use}.{_PRIORITIES}",
            target=resolver.target.title,
        )
        raise NotImplementedError(f"torchferry: {text}")

    return priority_range


def _handle(name: str) -> Callable[[Any], Any]:
    def handle(self: Any) -> Any:
        return getattr(self, name)

    return handle


def patch_generator(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect `torch.Generator`; what torch makes itself stays an instance of it."""

    def refuse_without_generator() -> None:
        if resolver.target.backend.DEVICE_GENERATOR is False:
            raise NotImplementedError(_no_generator(resolver))

    patches.set(torch, "Generator", proxy_class(torch.Generator, resolver.devices, policy, refuse_without_generator))


def _no_generator(resolver: Resolver) -> str:
    text = say(
        "{target} has no generator of its own; use one on the CPU, or seed the device", target=resolver.target.title
    )
    return f"torchferry: {text}"
