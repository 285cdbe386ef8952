"""Precision: automatic mixed precision in every spelling, and the switches of TF32.

`torch.cuda.amp` itself belongs to the namespace; here are the functions that take a device type, or mean CUDA where
they are given none: `torch.amp`, `torch.autocast`, the state functions. A CUDA switch of precision turns the
card's own, and a switch without counterpart says so, once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.amp
import torch.backends.cuda
import torch.backends.cudnn

from torchferry.backends import cuda
from torchferry.backends.tables import Row
from torchferry.core.messages import Message, noted, say
from torchferry.shim.caller_policy import CallerPolicy, warn_user
from torchferry.shim.devices import Devices, parameter_names
from torchferry.shim.patch_factories import script_as
from torchferry.shim.patches import Patches
from torchferry.shim.resolve import NotThereError, Resolver, find

STATE = ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype")
"""Functions of torch that take a device type in front, or speak of CUDA without one."""

OLD_STATE = {"get_autocast_gpu_dtype": "get_autocast_dtype", "set_autocast_gpu_dtype": "set_autocast_dtype"}
"""Older names that speak of CUDA alone, and the function that takes a device type."""

_HALVES = (torch.float16, torch.bfloat16)
"""What autocast computes in; torch's own, given another dtype, warns and is off."""


def patch_autocast(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect mixed precision."""
    devices = resolver.devices
    autocast = torch.amp.autocast_mode.autocast
    patches.set(autocast, "__init__", _typed(autocast.__init__, devices, position=1))
    if resolver.target.backend.AUTOCAST is False:
        plugin_autocast = _own_autocast(resolver, autocast)
        for module in (torch, torch.amp, torch.amp.autocast_mode):
            patches.set_view(module, "autocast", plugin_autocast, policy)
    if hasattr(torch.amp, "grad_scaler"):  # since torch 2.3
        scaler = torch.amp.grad_scaler.GradScaler
        patches.set(
            scaler, "__init__", _typed(scaler.__init__, devices, position=1, default=cuda.DEVICE_TYPE, name="device")
        )
    if not hasattr(torch, "get_autocast_dtype"):
        _patch_older(patches, devices)
        return
    for name in ("custom_fwd", "custom_bwd"):
        patched = _typed(getattr(torch.amp, name), devices)
        for module in (torch.amp, torch.amp.autocast_mode):
            patches.set(module, name, patched)
    for module in (torch.amp, torch.amp.autocast_mode):
        patches.set(module, "is_autocast_available", _typed(torch._C._is_autocast_available, devices, position=0))
    for name in STATE:
        original = getattr(torch, name)
        patched = _state(original, devices)
        script_as(patches, patched, original)
        patches.set(torch, name, patched)
    for old, new in OLD_STATE.items():
        patches.set(torch, old, _old_state(getattr(torch, old), getattr(torch, new), devices))


def _patch_older(patches: Patches, devices: Devices) -> None:
    """Redirect the state functions of torch 2.1 to 2.3, which take no device type, to those of the plugin."""
    plugin_namespace = getattr(torch, devices.card, None)
    for name in ("is_autocast_enabled", "set_autocast_enabled", *OLD_STATE):
        counterpart = getattr(plugin_namespace, OLD_STATE.get(name, name), None)
        if counterpart is not None:
            patches.set(torch, name, _while_redirected(getattr(torch, name), counterpart, devices))


def _while_redirected(original: Callable[..., Any], counterpart: Callable[..., Any], devices: Devices) -> Any:
    @functools.wraps(original)
    def call(*args: Any) -> Any:
        return (counterpart if devices.to_card else original)(*args)

    return call


def _typed(
    original: Callable[..., Any],
    devices: Devices,
    *,
    position: int = -1,
    default: str | None = None,
    name: str = "device_type",
) -> Callable[..., Any]:
    """Return `original` with its device type, at `position` or under `name`, translated."""
    type_of = devices.type_of

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if 0 <= position < len(args):
            args = (*args[:position], type_of(args[position]), *args[position + 1 :])
        elif name in kwargs:
            kwargs[name] = type_of(kwargs[name])
        elif default is not None:
            kwargs[name] = type_of(default)
        return original(*args, **kwargs)

    return call


def _state(original: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    type_of = devices.type_of

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and args[0].__class__ is str:
            args = (type_of(args[0]), *args[1:])
        elif "device_type" in kwargs:
            kwargs["device_type"] = type_of(kwargs["device_type"])
        else:
            args = (type_of(cuda.DEVICE_TYPE), *args)
        return original(*args, **kwargs)

    return call


def _old_state(original: Callable[..., Any], typed: Callable[..., Any], devices: Devices) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any) -> Any:
        return typed(devices.card, *args) if devices.to_card else original(*args)

    return call


def _own_autocast(resolver: Resolver, original: type) -> type:
    """Return what represents `torch.autocast` where torch's own does not serve the card: the plugin's, for CUDA."""
    plugin_autocast = resolver.counterpart("torch.cuda.amp.autocast", original)
    devices = resolver.devices

    class AutocastMeta(type):
        def __call__(
            cls,
            device_type: str,
            dtype: torch.dtype | None = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> Any:
            if devices.type_of(device_type) == device_type:
                return original(device_type, dtype, enabled, cache_enabled)
            options: dict[str, Any] = {"enabled": enabled}
            if dtype in _HALVES:
                options["dtype"] = dtype
            elif dtype is not None and enabled:
                warn_user(
                    say("autocast supports float16 and bfloat16, not {dtype}: it is off here, as on CUDA", dtype=dtype)
                )
                options["enabled"] = False
            if cache_enabled is not None:
                options["cache_enabled"] = cache_enabled
            return plugin_autocast(**options)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (original, plugin_autocast) if isinstance(plugin_autocast, type) else original)

    return AutocastMeta("autocast", (), {"__doc__": original.__doc__, "__module__": original.__module__})


SETTINGS = {
    "torch.backends.cuda.matmul.allow_tf32": (type(torch.backends.cuda.matmul), "allow_tf32"),
    "torch.backends.cudnn.allow_tf32": (type(torch.backends.cudnn), "allow_tf32"),
}
"""Settings of CUDA's precision, and the class whose attribute each one is."""

_BY_OPERATION = {
    "matmul": "torch.backends.cuda.matmul.allow_tf32",
    "conv": "torch.backends.cudnn.allow_tf32",
}
"""Operations of `fp32_precision` (torch 2.9 and later), and the older setting that the card's own represents."""

_TF32 = "tf32"

_SET_PRECISION = "_set_fp32_precision_setter"
"""Function of `torch._C` behind every spelling of `fp32_precision`."""


def patch_tf32(patches: Patches, resolver: Resolver, policy: CallerPolicy) -> None:
    """Redirect the settings."""
    settings: dict[str, _Setting] = {}
    for name, (kind, attribute) in SETTINGS.items():
        row = resolver.target.api(name)
        if row.use == name or row.status == "same":
            continue
        setting = settings[name] = _Setting(row, resolver)
        patches.set(kind, attribute, setting, name)
        if "__setattr__" in vars(kind):  # which would come before the property
            patches.set(kind, "__setattr__", _setter(kind.__setattr__, attribute, setting))
        if kind is type(torch.backends.cudnn):
            module: Any = torch.backends.cudnn
            patches.set(module.m, "set_flags", _flags(module.m.set_flags, setting))
        else:
            patches.set(torch, "set_float32_matmul_precision", _precision(setting))
    uses = [setting.use for setting in settings.values()]
    for setting in settings.values():
        setting.is_shared = uses.count(setting.use) > 1
    if settings and hasattr(torch._C, _SET_PRECISION):
        patches.set(torch._C, _SET_PRECISION, _by_operation(settings))
    original = torch.backends.cuda.is_built
    built = resolver.counterpart("torch.backends.cuda.is_built", original)
    patches.set(torch.backends.cuda, "is_built", policy.dispatch_by_caller(original, built))


def _setter(original: Any, attribute: str, setting: _Setting) -> Any:
    def set_attribute(self: Any, name: str, value: Any) -> None:
        if name == attribute:
            setting.__set__(self, value)
        else:
            original(self, name, value)

    return set_attribute


def _flags(original: Callable[..., Any], setting: _Setting) -> Callable[..., Any]:
    """Return `torch.backends.cudnn.set_flags`, which `flags(...)` calls as well, with `allow_tf32` for the card."""
    position = parameter_names(original).index("_allow_tf32")

    @functools.wraps(original)
    def set_flags(*args: Any, **kwargs: Any) -> Any:
        allow_tf32 = args[position] if position < len(args) else kwargs.get("_allow_tf32")
        before = setting.__get__(None)
        former_flags = original(*args, **kwargs)
        if allow_tf32 is not None:
            setting.put(allow_tf32)
        return (*former_flags[:position], before, *former_flags[position + 1 :])

    return set_flags


def _precision(setting: _Setting) -> Callable[[str], None]:
    """Return `torch.set_float32_matmul_precision`, which on CUDA turns TF32 on, and off again."""
    original = torch.set_float32_matmul_precision

    @functools.wraps(original)
    def set_float32_matmul_precision(precision: str) -> None:
        original(precision)
        setting.__set__(None, precision != "highest")

    return set_float32_matmul_precision


def _by_operation(settings: dict[str, _Setting]) -> Callable[[str, str, str], Any]:
    """Return what sets `fp32_precision`, of all operations or of one, and hands on what that changes for the card."""
    original = getattr(torch._C, _SET_PRECISION)
    # what counts for an operation, also where a wider setting says it
    precision_of = torch._C._get_fp32_precision_getter

    @functools.wraps(original)
    def set_fp32_precision(backend: str, operation: str, precision: str) -> Any:
        before = {changed: precision_of(cuda.DEVICE_TYPE, changed) for changed in _BY_OPERATION}
        done = original(backend, operation, precision)
        for changed, name in _BY_OPERATION.items():
            now = precision_of(cuda.DEVICE_TYPE, changed)
            if now != before[changed] and name in settings:
                settings[name].turn(now == _TF32, f"{name.rpartition('.')[0]}.fp32_precision")
        return done

    return set_fp32_precision


class _Setting:
    """A property of a settings object that reads and writes the card's setting.

    Where the card has one setting for several of CUDA's, each of these is read as the program set it.
    """

    def __init__(self, row: Row, resolver: Resolver) -> None:
        self.is_shared = False
        self.use = row.use
        self._row = row
        self._target = resolver.target
        self._value: Any = None
        self._said = False

    def _owner(self) -> tuple[Any, str] | None:
        owner, _, name = self._row.use.rpartition(".")
        try:
            return (find(owner), name) if owner else None
        except NotThereError:
            return None

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        owner = self._owner()
        if owner is None or (self.is_shared and self._value is not None):
            return self._value or False
        return getattr(*owner)

    def __set__(self, instance: Any, value: Any) -> None:
        self.turn(value, self._row.name)

    def turn(self, value: Any, name: str) -> None:
        """Set the card's setting, and say once, of the name by which the program turned it on, what that does."""
        served = self.put(value)
        if value and not self._said:
            self._said = True
            warn_user(self._text(served, name))

    def put(self, value: Any) -> bool:
        """Set the card's setting without a word, and return whether it has one."""
        owner = self._owner()
        self._value = value
        if owner is not None:
            setattr(*owner, value)
        return owner is not None

    def _text(self, served: bool, name: str) -> Message:
        values = {"name": name, "use": self._row.use, "target": self._target.title}
        if served:
            text = say("`{name}` sets `{use}` on {target}, which rounds differently", **values)
        elif self._row.status == "unknown":
            text = say(
                "nobody has verified the counterpart of `{name}` on {target}; the setting has no effect", **values
            )
        else:
            text = say("{target} has no counterpart of `{name}`; the setting has no effect", **values)
        return noted(text, self._row.remark)
