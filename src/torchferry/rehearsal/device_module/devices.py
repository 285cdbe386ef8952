"""Devices of the simulated card: which there are, which is current, and what they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from torchferry.rehearsal import events
from torchferry.rehearsal.device_module.context import DeviceContext, DeviceLike


class DeviceProperties:
    """What `get_device_properties` returns: the fields that the plugin has, with the values that are known."""

    def __init__(self, path: str, card: str, fields: tuple[str, ...], values: Mapping[str, object]) -> None:
        self._path = path
        self._card = card
        self._fields = fields
        self.__dict__.update({name: value for name, value in values.items() if not fields or name in fields})

    def __getattr__(self, name: str) -> Any:
        """Raise for a field that the plugin lacks, and for one whose value nobody has published."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._fields:
            events.record("not-rehearsed", f"{self._path}.{name}")
            raise NotImplementedError(f"{self._path} has {name}, whose value on {self._card} is not known")
        events.record("missing-api", f"{self._path}.{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items() if not name.startswith("_"))
        return f"{type(self).__name__}({shown})"


def host_memory() -> int:
    """Return the memory of this machine in bytes, which bounds a card whose own memory is not limited."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the functions that deal with devices, by their name below `torch.cuda`."""
    native, profile = context.native, context.profile
    described: dict[int, DeviceProperties] = {}

    def is_available() -> bool:
        """Whether there is a device."""
        return native.device_count() > 0

    def device_count() -> int:
        """Return the number of devices."""
        return native.device_count()

    def current_device() -> int:
        """Return the index of the current device."""
        context.initialize()
        return native.current_device()

    def set_device(device: DeviceLike) -> None:
        """Make `device` current; a negative number changes nothing."""
        index = context.index(device)
        if index >= 0:
            context.initialize()
            native.set_device(index)

    def synchronize(device: DeviceLike = None) -> None:
        """Wait for the device: what was asked of a simulated device has already happened."""
        context.initialize()
        context.native.synchronize(context.existing(device))

    def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
        """Return the properties of a device."""
        context.initialize()
        index = context.existing(device)
        values: dict[str, object] = {
            "name": profile.card,
            "total_memory": native.memory(index).capacity or host_memory(),
            **dict.fromkeys(profile.none_properties),
        }
        if profile.capability is not None:
            values["major"], values["minor"] = profile.capability
        values.update(profile.properties)
        path = f"{context.namespace}.get_device_properties()"
        properties = DeviceProperties(path, profile.card, profile.property_names, values)
        return described.setdefault(index, properties)  # one object a device, so that they compare as on CUDA

    def get_device_name(device: DeviceLike = None) -> str:
        """Return the name of a device."""
        return str(get_device_properties(device).name)

    def get_device_capability(device: DeviceLike = None) -> tuple[int, int] | None:
        """Return the major and minor number of the card's architecture, or None where the plugin has none."""
        context.initialize()
        context.existing(device)
        if not profile.capability_known:
            raise NotImplementedError(
                f"{context.namespace}.get_device_capability: the capability of {profile.card} is not known"
            )
        return profile.capability

    def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
        """Whether two devices can copy to each other."""
        context.initialize()
        if context.existing(device) < 0 or context.index(peer_device) >= native.device_count():
            raise events.refusal(AssertionError("Invalid peer device id"))
        return True

    def exchange_device(index: int) -> int:
        previous = native.current_device()
        if index >= 0 and index != previous:
            native.set_device(index)
        return previous

    names: dict[str, object] = {
        "is_available": is_available,
        "device_count": device_count,
        "current_device": current_device,
        "set_device": set_device,
        "synchronize": synchronize,
        "get_device_properties": get_device_properties,
        "get_device_name": get_device_name,
        "get_device_capability": get_device_capability,
        "can_device_access_peer": can_device_access_peer,
        "init": context.initialize,
        "is_initialized": context.is_initialized,
        "_lazy_init": context.initialize,
        "_lazy_call": _lazy_call(context),
        "_is_in_bad_fork": native.in_bad_fork,
        "_exchange_device": exchange_device,
        "_maybe_exchange_device": exchange_device,
    }
    names.update(_selectors(context, exchange_device))
    return names


def _lazy_call(context: DeviceContext) -> Callable[..., None]:
    def lazy_call(call: Callable[[], object], **kinds: bool) -> None:
        """Run `call` once the device is initialised."""
        context.when_initialized(call, seeds_all=kinds.get("seed_all", False))

    return lazy_call


def _selectors(context: DeviceContext, exchange_device: Callable[[int], int]) -> dict[str, object]:
    class device:  # noqa: N801 - the name that torch.cuda has
        """Make a device current within a block; a negative number changes nothing."""

        def __init__(self, device: DeviceLike) -> None:
            self.idx = context.index(device)
            self.prev_idx = -1

        def __enter__(self) -> None:
            context.initialize()
            self.prev_idx = exchange_device(self.idx)

        def __exit__(self, *exception: object) -> None:
            exchange_device(self.prev_idx)

    class device_of(device):  # noqa: N801 - the name that torch.cuda has
        """Make the device of a tensor or storage current within a block, where it is on such a device."""

        def __init__(self, obj: torch.Tensor) -> None:
            super().__init__(obj.device if obj.device.type == context.name else -1)

    class _DeviceGuard:
        def __init__(self, index: int) -> None:
            self.idx = index
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = exchange_device(self.idx)

        def __exit__(self, *exception: object) -> None:
            exchange_device(self.prev_idx)

    return {"device": device, "device_of": device_of, "_DeviceGuard": _DeviceGuard}
