"""The functions of `torch.cuda` on whichever device this process has: what `migrate --style portable` writes.

They have CUDA's names and arguments, and lead to what the plugin of the device has. What a device lacks raises when it
is used, and the error says what does instead. Only where nothing would be the matter is nothing done: a cache that is
not there need not be emptied. A figure that the device does not tell is 0, with a warning.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
import types
from collections import Counter
from functools import lru_cache
from typing import Any

from torchferry.core.importable import is_importable
from torchferry.core.messages import say
from torchferry.core.ranges import Ranges
from torchferry.device.dtypes import best, judge
from torchferry.device.facts import DeviceFacts
from torchferry.device.failures import DeviceError, NotOnThisDeviceError, warn
from torchferry.device.names import DescribedDevice, constant_when_compiled, find, required, resolve
from torchferry.device.precision import HALVES, scaler_class
from torchferry.device.presence import PREFERRED, first_device, split_device
from torchferry.device.profiling import activities, time_column, wait
from torchferry.device.provider import portable_names, vendors
from torchferry.device.randomness import seeded_generator
from torchferry.device.ranks import collective
from torchferry.device.status import status_text
from torchferry.device.torch_import import torch
from torchferry.device.weights import read_safetensors

_CUDA = "cuda"


@constant_when_compiled
def chosen_kind() -> DeviceFacts:
    """Return the known facts about this process's device; it is looked for once, when it is first asked for.

    Raises:
        DeviceNotAvailableError: PREFERRED_DEVICE names one that is not there.
        DeviceError: `torch.cuda` of this program is redirected, so that it is shown CUDA devices elsewhere.
    """
    return _looked_for()


@lru_cache(maxsize=1)
def _looked_for() -> DeviceFacts:
    _refuse_redirect()
    facts, index = first_device()
    if index is not None and (set_device := find(facts, "set_device")) is not None:
        set_device(index)
    return facts


def _refuse_redirect() -> None:
    redirect = sys.modules.get("torchferry.shim.redirect")
    if redirect is not None and redirect.current() is not None:
        raise DeviceError(
            say("this program uses portable names for its device, but its torch.cuda is redirected too"),
            say("run it without `torchferry run` and without `torchferry.shim`: it finds the device by itself"),
        )


def _has_card() -> bool:
    return bool(chosen_kind().plugin or chosen_kind().namespace)


def is_available() -> bool:
    """Whether there is an accelerator; the plugin is asked once, so that loops and compiled code may ask this."""
    return _has_card()


# --- naming the device ---


def device_string(index: int | str | None = None) -> str:
    """Return the device as a string: its type, with the index if one is given; `cpu` where there is no accelerator."""
    kind = chosen_kind()
    return kind.device_type if index is None or not _has_card() else f"{kind.device_type}:{int(index)}"


def this_device(index: int | str | torch.device | None = None) -> torch.device:
    """Return the device of an index; without one that is the current device, wherever torch takes it.

    A device, or a string that names one, is returned as `.cuda(...)` would take it.
    """
    kind = chosen_kind()
    if isinstance(index, torch.device):
        return index
    if isinstance(index, str):
        named = device_named(index)
        if named.partition(":")[0] != kind.device_type:
            return torch.device(named)
        index = int(named.partition(":")[2]) if ":" in named else None
    if not kind.device_factory:
        return torch.device(device_string(index))
    factory = resolve(kind.device_factory)
    if factory is None:
        raise NotOnThisDeviceError(
            say("the installed {plugin} has no {path}", plugin=kind.plugin, path=kind.device_factory)
        )
    device: torch.device = factory(device_string(index))
    return device


def load_location(index: int | str | None = None) -> str:
    """Return the device as `map_location` of `torch.load`; the CPU, with a warning, where torch loads nothing to it."""
    wanted = str(this_device(index))
    make: Any = getattr(torch, "UntypedStorage", None) or torch.FloatStorage  # since torch 2.0
    restore: Any = torch.serialization.default_restore_location
    try:
        restore(make(0), wanted)
    except RuntimeError:
        warn(say("torch cannot load to {device}: loaded tensors stay on the CPU until they are moved", device=wanted))
        return "cpu"
    return wanted


def _accelerator_type() -> str:
    """Return what `ACCELERATOR_TYPE` is: the type that tensors on an accelerator have here, to compare with.

    Without an accelerator it is `cuda`, which no tensor is on: a comparison then answers as it always did on the CPU.
    """
    return chosen_kind().device_type if _has_card() else _CUDA


def accelerator_only(value: Any) -> Any:
    """Return `value` where there is an accelerator, and None on the CPU: for arguments that take a card's index.

    Those are `device_ids` and `output_device` of DistributedDataParallel, and `device_id` of a process group.
    """
    return value if _has_card() else None


def device_named(text: str) -> str:
    """Return a device that a setting names; one of CUDA becomes that of this process: `npu:1` for `cuda:1`.

    Raises:
        DeviceError: the text begins with `cuda` and is no device.
    """
    if str(text).partition(":")[0] != _CUDA:
        return str(text)
    return device_string(split_device(str(text))[1])


def visible_devices_variable() -> str:
    """Return the environment variable that chooses the cards of a process, by the plugin that is installed.

    No card is asked for: the variable works only before the first one is used.

    Raises:
        NotOnThisDeviceError: nobody has verified which it is.
    """
    asked = os.environ.get(PREFERRED, "").strip().lower().partition(":")[0]
    for kind in vendors():
        named = asked in (kind.name, kind.device_type, *kind.aliases)
        if named or (asked in ("", "auto") and kind.plugin and is_importable(kind.plugin)):
            if kind.visible_devices is None:
                raise NotOnThisDeviceError(
                    say("which variable chooses the cards of {title} is not known", title=kind.title),
                    say("choose the cards when you start the program"),
                )
            return kind.visible_devices or "CUDA_VISIBLE_DEVICES"
    return "CUDA_VISIBLE_DEVICES"


# --- collectives ---


def collective_backend() -> str:
    """Return the backend for `init_process_group`; `gloo` where there is no accelerator."""
    return chosen_kind().collective


def composite_backend() -> str:
    """Return the backend that serves tensors on the CPU too, such as `cpu:gloo,cuda:nccl`.

    Raises:
        NotOnThisDeviceError: the device takes none, or nobody has verified that it does.
    """
    return collective(chosen_kind(), composite=True)


def is_collective_available() -> bool:
    """Whether this torch, with the plugin, has the backend that `collective_backend` names."""
    name = collective_backend()
    ask = getattr(torch.distributed, f"is_{name}_available", None)
    return bool(ask()) if ask is not None else name.upper() in torch.distributed.Backend.__dict__


# --- mixed precision ---


def autocast_on(device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> Any:
    """Return `torch.autocast` with the same arguments, or the plugin's own where torch's does not serve the device.

    Plugins' own refuse a dtype that autocast has not; on CUDA it is off then, with a warning, and so it is here.
    """
    kind = chosen_kind()
    options: dict[str, Any] = {"enabled": enabled}
    if dtype is not None:
        options["dtype"] = dtype
    if cache_enabled is not None:
        options["cache_enabled"] = cache_enabled
    if kind.autocast is False and device_type == kind.device_type:
        if enabled and dtype is not None and dtype not in HALVES:
            warn(say("autocast supports float16 and bfloat16, not {dtype}: it is off here, as on CUDA", dtype=dtype))
            options = {"enabled": False}
        return required(kind, "amp.autocast")(**options)
    return torch.autocast(device_type, **options)


def scaler_on(device: str = "", *values: Any, **options: Any) -> Any:
    """Return `torch.amp.GradScaler` with the same arguments, or the plugin's own where torch's does not serve it."""
    kind = chosen_kind()
    device = device or _accelerator_type()
    if kind.autocast is False and device == kind.device_type:
        return required(kind, "amp.GradScaler")(*values, **options)
    torch_amp: Any = getattr(torch, "amp", None)
    if hasattr(torch_amp, "GradScaler"):
        return torch_amp.GradScaler(device, *values, **options)
    if device == kind.device_type and device not in ("cpu", "cuda"):  # before torch 2.3, that of torch is CUDA's
        return required(kind, "amp.GradScaler")(*values, **options)
    of_cuda: Any = torch.cuda.amp
    return of_cuda.GradScaler(*values, **options)


# --- what does not depend on the plugin ---


def synchronize(device: Any = None) -> None:
    """Wait until the device has done its work; a lazy device is made to run what it has put off."""
    wait(DescribedDevice(chosen_kind(), this_device(device)))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the card computes bfloat16; False where there is no accelerator, as torch.cuda says there."""
    if not _has_card():
        return False
    state = judge(DescribedDevice(chosen_kind(), this_device()), torch.bfloat16).state
    return state in ("native", "limited") or (including_emulation and state == "emulated")


class _Nvtx:
    """Marks in the plugin's own tracer where it has one, else in torch's profiler."""

    def __init__(self) -> None:
        self._ours = Ranges(torch.autograd.profiler.record_function)

    def __getattr__(self, name: str) -> Any:
        path = f"nvtx.{name}"
        if path not in portable_names():
            raise AttributeError(name)
        member = find(chosen_kind(), path)
        return getattr(self._ours, name) if member is None else member


nvtx = _Nvtx()


class _Activities:
    """`ProfilerActivity` of the profiler that records this device."""

    @property
    def CPU(self) -> Any:  # noqa: N802 - torch's name
        """What the host does."""
        path = chosen_kind().profiler_activity or "torch.profiler.ProfilerActivity.CUDA"
        return resolve(path.rpartition(".")[0] + ".CPU")

    @property
    def ACCELERATOR(self) -> Any:  # noqa: N802 - as its neighbours
        """What the device does; CUDA's, which torch leaves out with a warning, where it cannot be recorded."""
        listed = activities(_anywhere())
        return listed[-1] if len(listed) > 1 else torch.profiler.ProfilerActivity.CUDA


ProfilerActivity = _Activities()


def _anywhere() -> DescribedDevice:
    return DescribedDevice(chosen_kind(), torch.device("cpu"))


def sort_key(column: str) -> str:
    """Return the column of the profiler's table that CUDA calls `column`, such as `cuda_time_total`.

    Raises:
        NotOnThisDeviceError: the device's profiler has no table, or nobody has verified its columns.
    """
    prefix = time_column(_anywhere(), own=False)[: -len("_time_total")]
    return column.replace(_CUDA, prefix)


# --- what the device manager has ---


def create_generator(seed: int, *, on_cpu: bool = False) -> torch.Generator:
    """Return a seeded generator of the device, or of the CPU: with `on_cpu`, and where there is no accelerator.

    Raises:
        NotOnThisDeviceError: the device has none; the error says what to do instead.
    """
    return seeded_generator(DescribedDevice(chosen_kind(), this_device()), int(seed), on_cpu, "error")


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file on the device, by name; each is read on the CPU and moved.

    Raises:
        DeviceError: the library safetensors is not installed.
        FileNotFoundError: there is no such file.
    """
    return read_safetensors(DescribedDevice(chosen_kind(), this_device()), path, None)


@lru_cache(maxsize=1)
def preferred_dtype() -> torch.dtype:
    """Return the first of bfloat16, float16 and float32 that the device computes itself; float32 on the CPU.

    The first call may compute a small product on the card, where neither the plugin nor a verified fact answers.
    """
    return best(DescribedDevice(chosen_kind(), this_device()))[-1].dtype


# --- what to show ---


def status_line() -> str:
    """Return one line with the device, its card, its best dtype and the memory in use at this moment.

    It is for a page that asks again and again: no work of the device is waited for.
    """
    kind = chosen_kind()
    index = find(kind, "current_device")
    place = DescribedDevice(kind, this_device(None if index is None else index()))
    return status_text(place, preferred_dtype())


def print_status_at_end() -> None:
    """Print `status_line()` and the seconds since this call to standard error when the program ends.

    Nothing is asked of the device before. A process that this one forks prints nothing, and neither does one that is
    killed.
    """
    atexit.register(_print_status, time.perf_counter(), os.getpid())


def _print_status(started: float, process: int) -> None:
    if os.getpid() != process:
        return
    seconds = f"{time.perf_counter() - started:.2f}"
    try:
        is_used = find(chosen_kind(), "is_initialized")
        if is_used is None or is_used():
            status = status_line()
        else:
            status = str(say("{device} is not used", device=device_string()))
    except DeviceError as error:
        status = str(error)
    print(say("{status}; {seconds} s", status=status, seconds=seconds), file=sys.stderr)


# --- questions by name ---


class _Namespace:
    """The replacement of the module `torch.cuda` where a program asks it for names: the plugin's own names.

    Without an accelerator it is `torch.cuda`, whose answers are those that they always were.
    """

    def __getattr__(self, name: str) -> Any:
        member = find(chosen_kind(), name) if _has_card() else getattr(torch.cuda, name, None)
        if member is None:
            missing = say("{title} has no counterpart of torch.cuda.{name}", title=chosen_kind().title, name=name)
            raise AttributeError(str(missing))
        return member


accelerator_namespace = _Namespace()

whole_module = sys.modules[__name__]
"""This module, where `torch.cuda` is handed on as a value: a file that has this name has all of them."""


# --- what leads to the plugin's ---

_IDLE_WITHOUT_CARD = frozenset(
    (
        "empty_cache", "init", "ipc_collect", "manual_seed", "manual_seed_all", "reset_accumulated_memory_stats",
        "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed", "seed_all",
        "set_device", "set_rng_state_all",
    )
)  # fmt: skip
"""What does nothing where there is no accelerator."""

_WITHOUT_CARD: dict[str, Any] = {
    "current_device": 0,
    "device_count": 0,
    "get_device_name": "CPU",
    "get_rng_state_all": (),
    "is_current_stream_capturing": False,
    "is_initialized": False,
    "max_memory_allocated": 0,
    "max_memory_cached": 0,
    "max_memory_reserved": 0,
    "memory_allocated": 0,
    "memory_cached": 0,
    "memory_reserved": 0,
    "memory_stats": (),
    "memory_summary": "",
}
"""What is answered where there is no accelerator; an empty tuple represents an empty list or dictionary."""


@lru_cache(maxsize=1)
def _paths() -> dict[str, str]:
    """Return the names of this module that lead to the plugin's, and what they are called below `torch.cuda`."""
    return {name.rpartition(".")[2]: name for name in portable_names() if not name.startswith("nvtx.")}


def __getattr__(name: str) -> Any:
    if name == "ACCELERATOR_TYPE":  # kept: a question in a loop, or in code that is compiled, is one of a text
        return globals().setdefault(name, _accelerator_type())
    if name in _paths():
        return forwarded(name, _paths()[name])
    if name in ("profile", "schedule", "tensorboard_trace_handler"):
        return resolve(chosen_kind().profiler.rpartition(".")[0] + f".{name}")
    if name == "amp":  # kept, since a compiled function asks whether it is the same module
        return globals().setdefault(name, _Amp(f"{__name__}.amp"))
    if name in ("channels_last", "channels_last_3d"):
        return resolve(chosen_kind().memory_formats.get(name, f"torch.{name}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Amp(types.ModuleType):
    """The names of `torch.cuda.amp`; a module, because `torch.compile` follows names of modules alone."""

    def __getattr__(self, name: str) -> Any:
        if f"amp.{name}" not in portable_names():
            raise AttributeError(name)
        return forwarded(name, f"amp.{name}")


def forwarded(name: str, path: str) -> Any:
    """Return the replacement of `torch.cuda.<path>`, or what takes its place where the device lacks it."""
    kind = chosen_kind()
    if not _has_card():
        return _without_card(name, path)
    member = find(kind, path)
    if name == "GradScaler":
        member = scaler_class(kind)
    if member is not None:
        return member
    if portable_names()[path] == "nothing":
        return _do_nothing
    if portable_names()[path] == "untold":
        return _untold(kind, name)
    return _absent(kind, name, path)


def _without_card(name: str, path: str) -> Any:
    if name in _IDLE_WITHOUT_CARD:
        return _do_nothing
    if name in _WITHOUT_CARD:
        answer = _WITHOUT_CARD[name]
        empty: Any = {} if name == "memory_stats" else []
        return lambda *values, **options: empty if answer == () else answer
    if name in ("device", "device_of", "stream"):
        return lambda *values, **options: contextlib.nullcontext()
    member = find(chosen_kind(), path)
    return member if member is not None else _absent(chosen_kind(), name, path)


def _do_nothing(*values: Any, **options: Any) -> None:
    return None


def _untold(kind: DeviceFacts, name: str) -> Any:
    """Return a function that answers with nothing, and warns that the device does not tell."""

    def answer(*values: Any, **options: Any) -> Any:
        warn(say("{title} does not report its memory: {name} is 0", title=kind.title, name=name))
        return {"memory_stats": Counter(), "memory_summary": ""}.get(name, None if "reset" in name else 0)

    return answer


def _absent(kind: DeviceFacts, name: str, path: str) -> Any:
    """Return a class that raises when one is made: it is in annotations and in `isinstance` too."""

    def refuse(cls: type, *values: Any, **options: Any) -> Any:
        required(kind, path)

    if name.endswith("Error"):
        warn(say("{title} does not raise its own {name}: catch RuntimeError", title=kind.title, name=name))
        return type(name, (RuntimeError,), {})
    return type(name, (), {"__new__": refuse, "__module__": __name__})
