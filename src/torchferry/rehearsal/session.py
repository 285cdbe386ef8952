"""Put the simulated card into this process: device, plugin namespace, collectives, faults, observers."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.backend_registration import rename_privateuse1_backend

from torchferry.backends import cuda
from torchferry.backends.base import Backend
from torchferry.backends.operators import load_operators
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.backends.variable_values import values_of
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.messages import say
from torchferry.rehearsal import (
    autocast,
    build,
    compilers,
    cuda_leftovers,
    distributed,
    events,
    faults,
    observers,
    plugin_namespace,
    sharing,
    torch_versions,
    triton_kernels,
)
from torchferry.rehearsal.config import Rehearsal, read, session_folder
from torchferry.rehearsal.driver.description import load_driver
from torchferry.rehearsal.native import DTYPE_CODES, LimitedKernels, Native
from torchferry.rehearsal.operator_modes import Modes, modes
from torchferry.rehearsal.profile import ROUNDING_BITS, Profile
from torchferry.rehearsal.published_limits import formulas
from torchferry.rehearsal.races import watching


@dataclass(frozen=True)
class Session:
    """The rehearsal of this process.

    Attributes:
        rehearsal: What was asked for.
        backend: The target's backend.
        native: The device.
        namespace: The module in place of `torch.cuda`.
        modes: Which operators the plugin has.
    """

    rehearsal: Rehearsal
    backend: type[Backend]
    native: Native
    namespace: ModuleType
    modes: Modes

    @property
    def profile(self) -> Profile:
        """The card."""
        return self.rehearsal.profile


_session: Session | None = None

_FORMAT = "torch.channels_last"
"""A target whose table writes another format in its place refuses it."""


def refuses_memory_formats(target: Target) -> bool:
    """Return whether a plugin takes no memory format but the usual one, and lays out its results in that one too."""
    return target.api(_FORMAT).use not in ("", _FORMAT)


def current() -> Session | None:
    """Return the session of this process, or None when the device is not there (yet)."""
    return _session


def observe() -> Rehearsal:
    """Begin to note events of this process; the device comes with the plugin. Can be called again."""
    folder = session_folder()
    rehearsal = read(folder)
    _name_software(rehearsal.resolved().backend, folder)
    events.recorder.write_into(folder)
    cuda_leftovers.watch(rehearsal.resolved(), folder)
    compilers.watch(rehearsal.resolved(), is_simulated=rehearsal.shipped is None)
    triton_kernels.watch(rehearsal.resolved())
    return rehearsal


def _name_software(backend: type[Backend], folder: Path) -> None:
    """Set the variables that name the vendor's software on the card's machine, where nobody has set them.

    Libraries ask for them before they do what needs no such software: DeepSpeed makes an optimizer of the plugin's
    operators only where CANN has a folder. It is empty, and its name says why whatever looks in it finds nothing.
    """
    driver = load_driver(backend)
    for name in driver.homes if driver is not None else ():
        if name not in os.environ:
            empty = folder / "no-vendor-software-in-a-rehearsal"
            empty.mkdir(exist_ok=True)
            os.environ[name] = str(empty)


def start() -> Session:
    """Make the device and the plugin's namespace known to torch; can be called again.

    Raises:
        TorchferryError: there is no rehearsal to take part in, or the device cannot be built or registered.
    """
    global _session  # noqa: PLW0603 - torch takes one such device a process
    if _session is None:
        _session = _start(observe())
    return _session


def _start(rehearsal: Rehearsal) -> Session:
    target = rehearsal.resolved()
    backend, profile = target.backend, rehearsal.profile
    refuse_other_plugin(backend)
    native = Native(build.library(), backend.DEVICE_TYPE, backend.DEVICE_TYPE.upper())
    operator_modes = _modes(backend, profile)
    named_by_us = backend.DISPATCH_KEY == "PrivateUse1"
    visible = "" if isinstance(backend.VISIBLE_DEVICES, Unknown) else backend.VISIBLE_DEVICES
    torch_versions.complete_cpu()
    native.read_lists(values_of(target.row("env", cuda.VISIBLE_DEVICES)))
    native.start(
        backend.DISPATCH_KEY, profile.devices, visible, profile.keeps_parameter_identity, operator_modes.left_out
    )
    _imitate(native, profile, operator_modes, backend)
    if refuses_memory_formats(target):
        native.refuse_memory_formats()
    if profile.sparse_products == "dense":
        native.multiply_sparse_as_dense()
    autocast.register(native)
    native.set_sink(observers.receive_native_event)
    native.watch_refusals()
    events.recorder.watch_device(backend.DEVICE_TYPE)
    observers.watch_output()
    observers.watch_cuda_questions(backend.DEVICE_TYPE)
    namespace = plugin_namespace.build(target, native, profile)
    compilers.let_answer_in_graphs(namespace)
    if not hasattr(torch, "get_autocast_dtype"):
        namespace.__dict__.update(torch_versions.autocast_functions(native))
    if named_by_us:
        rename_privateuse1_backend(backend.DEVICE_TYPE)
        torch._register_device_module(backend.DEVICE_TYPE, namespace)  # type: ignore[no-untyped-call]
        torch_versions.name_methods_after_device()
        _refuse_what_its_mover_refuses(backend)
    distributed.register_collectives(backend, profile.devices, native)
    if named_by_us:
        distributed.register_data_parallel(target)
    sharing.register(target, native, namespace)
    if not profile.keeps_parameter_identity:
        observers.watch_parameters()
    compilers.put_packages(target)
    faults.install(list(rehearsal.faults), native)
    if rehearsal.races:
        watch = watching.watch(backend.DEVICE_TYPE, native.device_type())
        native.watch_order(watch.order)
        native.keep_addresses_apart()
        watch.watch_addresses()
    session = Session(rehearsal, backend, native, namespace, operator_modes)
    events.recorder.at_end(lambda: _device_report(session))
    events.recorder.device_loaded()
    return session


def _refuse_what_its_mover_refuses(backend: type[Backend]) -> None:
    """Let the method that moves a module take a number alone, where the plugin's own takes no device."""
    mover = backend.MOVER
    if backend.MOVER_TAKES_DEVICE is not False or not isinstance(mover, str):
        return
    move: Callable[..., torch.nn.Module] = getattr(torch.nn.Module, mover)

    @wraps(move)
    def with_number(module: torch.nn.Module, device: Any = None) -> torch.nn.Module:
        if device is not None and not isinstance(device, int):
            kind = "torch.device" if isinstance(device, torch.device) else type(device).__name__
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {kind}")
        return move(module, device)

    setattr(torch.nn.Module, mover, with_number)


def refuse_other_plugin(backend: type[Backend]) -> None:
    """Refuse a process that has another plugin: torch takes one.

    Raises:
        TorchferryError: there is one.
    """
    name = torch._C._get_privateuse1_backend_name()
    if backend.DISPATCH_KEY == "PrivateUse1" and name != "privateuseone":
        raise TorchferryError(
            say("this process already has a plugin for the device `{name}`, and torch allows only one", name=name),
            say("rehearse without it: TORCH_DEVICE_BACKEND_AUTOLOAD=0 stops torch from loading plugins by itself"),
        )


def _imitate(native: Native, profile: Profile, operator_modes: Modes, backend: type[Backend]) -> None:
    native.set_dtypes(*rules_of_dtypes(profile))
    use_kernel_limits(native, profile)
    native.set_capacity(profile.memory)
    bits = ROUNDING_BITS[profile.matmul_rounding]
    native.set_rounding(matmul=bits, convolution=bits)
    native.set_fallback_warns(profile.fallback != "silent")
    native.set_others_fall_back(profile.fallback in {"warn", "silent"})  # it takes every operator without a kernel
    for name in operator_modes.missing:
        native.set_mode(name, "missing", every_layout=name in operator_modes.taken)
    lacking = "missing" if _fallback_is_off(backend, profile.version) else "fallback"
    for name in operator_modes.fallback:
        native.set_mode(name, lacking)


def _modes(backend: type[Backend], profile: Profile) -> Modes:
    """Return the modes with what the plugin's own variable sends to the CPU; names that torch lacks are told."""
    variable = load_operators(backend, profile.version).fallback_operators
    found = modes(profile)
    for name in filter(None, (part.strip() for part in os.environ.get(variable, "").split(","))):
        try:
            with_it = replace(profile, fallback_operators=profile.fallback_operators | {name.removeprefix("aten::")})
            found, profile = modes(with_it), with_it
        except UsageError as error:  # noqa: PERF203 - each name is judged by itself
            warnings.warn(f"{variable}: {error}", stacklevel=2)
    return found


def _fallback_is_off(backend: type[Backend], version: str) -> bool:
    """Whether the plugin's own variable keeps operators from running on the CPU instead."""
    table = load_operators(backend)
    switch = table.switch_for(version)
    switched = switch and os.environ.get(switch) == table.fallback_switch_value
    return bool(switched) and table.fallback_switched == "error"


def use_kernel_limits(device: LimitedKernels, profile: Profile) -> None:
    """Tell a device what the vendor publishes of the card's kernels, and how the plugin casts."""
    if profile.kernel_limits and profile.beyond_limits != "ignore":
        device.set_kernel_limits(profile.kernel_limits, refuse=profile.beyond_limits == "refuse")
        formulas.enter = device.enter_formula
    if profile.casts_double and profile.dtypes.get("float64") != "missing":  # a rule of the user's own comes first
        device.cast_double_to_float()


def rules_of_dtypes(profile: Profile) -> tuple[list[str], list[str], list[str]]:
    """Return the dtypes that a card lacks, those that it holds in half the width, and others whose use is an event."""
    rules: dict[str, list[str]] = {"missing": [], "narrowed": [], "emulated": [], "limited": []}
    for dtype, rule in profile.dtypes.items():
        if dtype in DTYPE_CODES:
            rules[rule].append(dtype)
    others = rules["emulated"] + rules["limited"]
    # that of float32 would be one at every line
    return rules["missing"], rules["narrowed"], [name for name in others if name not in {"float32", "int64"}]


def _device_report(session: Session) -> dict[str, object]:
    """What the device did in this process, for the summary."""
    native = session.native
    if native.in_bad_fork():
        return {}  # the counts are the parent's
    sharing.end(native)
    used = native.operators_used()
    return {
        "device": session.backend.DEVICE_TYPE,
        "memory": [native.memory(i)._asdict() for i in range(native.device_count())],
        "operators": used,
        "work": native.work(),
        "unverified_operators": sorted(session.modes.unknown.intersection(used)),
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "imported": imported(),
    }


def imported() -> list[str]:
    """What this process imported: first names, and the whole ones of modules outside of torch."""
    names = {name.partition(".")[0] for name in sys.modules}
    return sorted(names.union(name for name in sys.modules if not name.startswith(("torch.", "numpy.", "torchferry."))))
