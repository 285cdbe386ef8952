"""The built device, through its C functions."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torchferry.backends.variable_values import TakenValues
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.userlines import NOWHERE
from torchferry.rehearsal import events
from torchferry.rehearsal.published_limits import for_device

DTYPE_CODES: Mapping[str, int] = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
"""The number of each dtype in `c10::ScalarType` (torch/headeronly/core/ScalarType.h)."""

LAYOUTS: Mapping[str, int] = {"dense": 0, "sparse": 1, "sparse_compressed": 2, "nested": 3}
"""The number of each kind of tensor in `csrc/operators.h`."""

MODES = {"native": 0, "missing": 1, "fallback": 2}
FAULTS = {"none": 0, "noise": 1, "nan": 2, "stride": 3, "slow": 4, "die": 5, "hang": 6, "raise": 7}

Sink = Callable[[int, bytes, bytes, int], None]
_SINK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)
_CALL = ctypes.CFUNCTYPE(None)


class MemoryStats(NamedTuple):
    """What one device has in use, in bytes, and how often it was asked; a capacity of 0 is not limited."""

    allocated: int
    peak_allocated: int
    reserved: int
    peak_reserved: int
    allocations: int
    frees: int
    ooms: int
    capacity: int
    total_allocated: int
    total_freed: int


class LimitedKernels:
    """What the kernels of the simulated device take, and those that represent a plugin's."""

    LIMIT_FUNCTIONS: Mapping[str, tuple[Any, list[Any]]] = {
        "ferry_set_kernel_limits": (None, [ctypes.c_char_p, ctypes.c_int]),
        "ferry_enter_formula": (None, [ctypes.c_int]),
        "ferry_cast_double_to_float": (None, []),
    }
    """The functions of the library that are called, with their results and arguments."""

    _library: ctypes.CDLL

    def enter_formula(self, more: int) -> None:
        """Say that a formula begins in this thread (1) that represents one kernel, or has ended (-1)."""
        self._library.ferry_enter_formula(more)

    def set_kernel_limits(self, limits: str, *, refuse: bool) -> None:
        """Refuse what no published list of a kernel has, or only tell of it; see `published_limits.text_of`."""
        self._library.ferry_set_kernel_limits(for_device(limits, DTYPE_CODES).encode(), int(refuse))

    def cast_double_to_float(self) -> None:
        """Let a cast on the device to float64 give float32."""
        self._library.ferry_cast_double_to_float()


class Native(LimitedKernels):
    """The device of this process. There can be one; `session.start` makes it."""

    def __init__(self, path: Path, device_name: str, title: str) -> None:
        self.device_name = device_name
        self.title = title
        self._library = _load(path)
        self._sink: Any = None
        self._at_first_use: Any = None
        self._rounding = (0, 0)

    def read_lists(self, takes: TakenValues) -> None:
        """Read the list of visible devices as the target's software does; to be said before `start`."""
        self._library.ferry_read_lists(int("unordered" in takes.void_if), int("space" in takes.ends_at))

    def start(
        self,
        key: str,
        devices: int,
        visible_variable: str,
        keeps_identity: bool,
        leave: Mapping[str, Iterable[str]],
    ) -> int:
        """Register the device under a dispatch key, PrivateUse1 or torch's own for lazy devices; count the operators.

        `visible_variable` is the environment variable that may list the devices that a process sees; it is read until
        the device is first used. `leave` names, for each of `LAYOUTS`, operators with overload that are not registered:
        PyTorch composes them of others, or has them for no such tensor.
        """
        for layout, names in leave.items():
            for name in names:
                self._library.ferry_leave_out(name.encode(), LAYOUTS[layout])
        count = int(
            self._library.ferry_start(
                key.encode(),
                self.device_name.encode(),
                self.title.encode(),
                visible_variable.encode(),
                devices,
                int(keeps_identity),
            )
        )
        if count < 0:
            raise TorchferryError(
                say("the rehearsal device cannot be registered: {error}", error=self._error().splitlines()[0])
            )
        return count

    def _error(self) -> str:
        text: bytes = self._library.ferry_error()
        return text.decode(errors="replace")

    # --- what the card is ---

    def set_sink(self, sink: Sink | None) -> None:
        """Send events to `sink(kind, subject, detail, amount)`; None stops them."""
        self._sink = _SINK() if sink is None else _SINK(sink)
        self._library.ferry_set_sink(self._sink)

    def watch_refusals(self, folders: Iterable[Path] = ()) -> None:
        """Tell the sink of exceptions that the device raises, or torch on its behalf, as they reach Python.

        Args:
            folders: Where the plugin lies that is loaded; none for a device that stands in for it.
        """
        watch_refusals(self._library, folders)

    def at_first_use(self, call: Callable[[], None]) -> None:
        """Run `call` when this process first uses the device, whoever does: what waits for the device runs then."""
        self._at_first_use = _CALL(call)
        self._library.ferry_at_first_use(self._at_first_use)

    def set_capacity(self, size: int) -> None:
        """Set the memory of one device in bytes; 0 for no limit."""
        self._library.ferry_set_capacity(size)

    def set_dtypes(self, missing: Iterable[str], narrowed: Iterable[str], noted: Iterable[str]) -> None:
        """Say which dtypes the card lacks, holds in half the width, or treats in some other way."""
        self._library.ferry_set_dtypes(mask_of_dtypes(missing), mask_of_dtypes(narrowed), mask_of_dtypes(noted))

    def set_rounding(self, *, matmul: int | None = None, convolution: int | None = None) -> None:
        """Keep so many explicit mantissa bits of the float32 inputs of products or convolutions; 0 keeps all 23.

        What is not named stays as it is.
        """
        self._rounding = (
            self._rounding[0] if matmul is None else matmul,
            self._rounding[1] if convolution is None else convolution,
        )
        self._library.ferry_set_rounding(*self._rounding)

    def set_fallback_warns(self, warns: bool) -> None:
        """Say whether an operator that runs on the CPU instead is announced by the vendor's warning."""
        self._library.ferry_set_fallback_warns(int(warns))

    def refuse_memory_formats(self) -> None:
        """Raise from now on where a memory format but the usual one is asked for; results lie in the usual one."""
        self._library.ferry_refuse_memory_formats()

    def multiply_sparse_as_dense(self) -> None:
        """Multiply sparse tensors from now on as dense ones, whose product is made sparse again."""
        self._library.ferry_multiply_sparse_as_dense()

    def set_others_fall_back(self, yes: bool) -> None:
        """Say whether operators of other libraries, such as torchvision's, run on the CPU instead."""
        self._library.ferry_set_others_fall_back(int(yes))

    def set_mode(self, operator: str, mode: str, *, every_layout: bool = False) -> None:
        """Make an operator (`aten::erf`, with or without overload) `native`, `missing` or a CPU `fallback`.

        It is so for dense tensors, and with `every_layout` for sparse and nested ones too.
        """
        self._library.ferry_set_mode(operator.encode(), MODES[mode], int(every_layout))

    def set_fault(self, operator: str, kind: str, scale: float, after: int) -> None:
        """Spoil an operator after `after` right calls; `kind` is one of `FAULTS`, of which `none` mends it again."""
        self._library.ferry_set_fault(operator.encode(), FAULTS[kind], scale, after)

    def refuse_in_collective(self, operation: str, dtype: str, text: str) -> None:
        """Let a collective operation (`allreduce`) refuse tensors of a dtype, in the words of the vendor's library."""
        self._library.ferry_refuse_in_collective(operation.encode(), DTYPE_CODES[dtype], text.encode())

    def fail_allocation(self, number: int) -> None:
        """Let the allocation with this number, counted from 1, run out of memory."""
        self._library.ferry_fail_allocation(number)

    def set_autocast(self, operator: str, policy: int) -> None:
        """Set the autocast policy (see autocast.h) of an operator such as `conv_transpose2d.input`."""
        name, _, overload = operator.partition(".")
        self._library.ferry_set_autocast(name.encode(), overload.encode(), policy)

    def autocast_functions(self) -> dict[str, Callable[..., object]]:
        """The functions that torch before 2.4 asks the device's module for; later, torch has them for every device."""
        library = self._library

        def get_autocast_dtype() -> torch.dtype:
            names = {code: name for name, code in DTYPE_CODES.items()}
            dtype: torch.dtype = getattr(torch, names[library.ferry_autocast_dtype()])
            return dtype

        def set_autocast_dtype(dtype: torch.dtype) -> None:
            library.ferry_set_autocast_dtype(DTYPE_CODES[str(dtype).removeprefix("torch.")])

        return {
            "is_autocast_enabled": lambda: bool(library.ferry_autocast_enabled()),
            "set_autocast_enabled": lambda enabled: library.ferry_set_autocast_enabled(int(enabled)),
            "get_autocast_dtype": get_autocast_dtype,
            "set_autocast_dtype": set_autocast_dtype,
        }

    # --- devices ---

    def device_type(self) -> int:
        """Number of the device type in `c10::DeviceType` (c10/core/DeviceType.h)."""
        return int(self._library.ferry_device_type())

    def device_count(self) -> int:
        """Number of devices."""
        return int(self._library.ferry_device_count())

    def current_device(self) -> int:
        """Index of this thread's device."""
        return int(self._library.ferry_current_device())

    def set_device(self, index: int) -> None:
        """Make a device this thread's own.

        Raises:
            RuntimeError: there is no such device, or the process was forked from one that had used the device.
        """
        if self._library.ferry_set_device(index) < 0:
            raise events.refusal(RuntimeError(self._error().splitlines()[0]))

    def initialise(self) -> None:
        """Note that the process uses the device.

        Raises:
            RuntimeError: the process was forked from one that had used the device.
        """
        if self._library.ferry_initialise() < 0:
            raise events.refusal(RuntimeError(self._error().splitlines()[0]))

    def is_initialized(self) -> bool:
        """Whether the process has used the device."""
        return bool(self._library.ferry_is_initialised())

    def in_bad_fork(self) -> bool:
        """Whether the process was forked from one that had used the device."""
        return bool(self._library.ferry_in_bad_fork())

    def current_stream(self, index: int) -> int:
        """Number of this thread's stream on a device; 0 is the default one."""
        return int(self._library.ferry_current_stream(index))

    def set_stream(self, index: int, stream: int) -> None:
        """Make a stream this thread's own on its device, and the device this thread's own.

        Raises:
            RuntimeError: there is no such device.
        """
        if self._library.ferry_set_stream(index, stream) < 0:
            raise events.refusal(RuntimeError(self._error().splitlines()[0]))

    def synchronize(self, index: int) -> None:
        """Wait for all work of a device."""
        self._library.ferry_synchronize(index)

    def watch_order(self, watcher: int) -> None:
        """Tell a C function, by its address, what orders the work of streams; see `csrc/stream_order.h`."""
        self._library.ferry_watch_order(watcher)

    def keep_addresses_apart(self) -> None:
        """Give device memory addresses at which the host has nothing; before there is any."""
        self._library.ferry_keep_addresses_apart()

    def new_stream(self) -> int:
        """A number that no stream has."""
        return int(self._library.ferry_new_stream())

    def default_generator(self, index: int) -> torch.Generator:
        """The generator that a device uses when it is given none."""
        generator: torch.Generator = torch.ops.torchferry_rehearsal.default_generator(index)
        return generator

    # --- memory ---

    def memory(self, index: int) -> MemoryStats:
        """What a device has in use."""
        values = (ctypes.c_int64 * len(MemoryStats._fields))()
        self._library.ferry_memory(index, values)
        return MemoryStats(*values)

    def reset_peak(self, index: int) -> None:
        """Start the peaks anew."""
        self._library.ferry_reset_peak(index)

    def reset_accumulated(self, index: int) -> None:
        """Start the counters anew."""
        self._library.ferry_reset_accumulated(index)

    def empty_cache(self) -> None:
        """Give back what is reserved and not in use."""
        self._library.ferry_empty_cache()

    def set_fraction(self, index: int, fraction: float) -> None:
        """Limit a device to a fraction of its memory."""
        self._library.ferry_set_fraction(index, ctypes.c_double(fraction))

    # --- other processes ---

    def share(self, tensor: torch.Tensor) -> str:
        """Return the handle under which another process receives the storage of a tensor; empty for no bytes.

        The storage then lies in shared memory, and is kept until it was received and let go as often as it was sent.

        Raises:
            RuntimeError: the tensor came from another process itself, or work on it has not ended for a minute.
        """
        handle: str = torch.ops.torchferry_rehearsal.share(tensor)
        return handle

    def receive(
        self, handle: str, device: int, dtype: torch.dtype, size: Sequence[int], stride: Sequence[int], offset: int
    ) -> torch.Tensor:
        """Return a tensor on a storage that another process sent; the same storage each time, as long as it lives.

        Raises:
            RuntimeError: the process that sent it has ended.
        """
        tensor: torch.Tensor = torch.ops.torchferry_rehearsal.receive(
            handle, device, dtype, list(size), list(stride), offset
        )
        return tensor

    def collect_shared(self) -> None:
        """Free what other processes held after the tensors had gone, and hold no longer."""
        self._library.ferry_collect_shared()

    def end_sharing(self) -> int:
        """Say that this process ends; return how many storages that it sent are not released."""
        return int(self._library.ferry_end_sharing())

    # --- after the run ---

    def work(self) -> int:
        """Floating point operations that the device did in products, convolutions, attention and recurrent layers."""
        return int(self._library.ferry_device_work())

    def operators_used(self) -> dict[str, int]:
        """How often each operator ran on the device, by full name."""
        text: bytes = self._library.ferry_operators_used()
        pairs = (line.rsplit(" ", 1) for line in text.decode().splitlines())
        return {name: int(count) for name, count in pairs}


def mask_of_dtypes(dtypes: Iterable[str]) -> int:
    """Return a number with a bit for each dtype, at its number in `c10::ScalarType`."""
    return sum(1 << DTYPE_CODES[name] for name in dtypes)


def watch_refusals(library: ctypes.CDLL, folders: Iterable[Path]) -> None:
    """Let a library tell what is refused, as `Native.watch_refusals` says."""
    lines = "\n".join(f"{folder}{os.sep}" for folder in folders)
    torch_libraries = Path(str(torch.__file__)).with_name("lib")
    if not library.ferry_watch_refusals(lines.encode(), f"{torch_libraries}{os.sep}".encode()):
        events.recorder.add("not-rehearsed", "what is refused in C++", "its exceptions cannot be watched here",
                            place=NOWHERE)  # fmt: skip


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    text, number, whole = ctypes.c_char_p, ctypes.c_int, ctypes.c_int64
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "ferry_error": (text, []),
        "ferry_set_sink": (None, [_SINK]),
        "ferry_watch_refusals": (number, [text, text]),
        "ferry_refusal_is_told": (None, []),
        "ferry_at_first_use": (None, [_CALL]),
        "ferry_leave_out": (None, [text, number]),
        "ferry_read_lists": (None, [number, number]),
        "ferry_start": (whole, [text, text, text, text, number, number]),
        "ferry_set_autocast": (None, [text, text, number]),
        "ferry_set_capacity": (None, [whole]),
        "ferry_set_dtypes": (None, [ctypes.c_uint64] * 3),
        **LimitedKernels.LIMIT_FUNCTIONS,
        "ferry_set_rounding": (None, [number, number]),
        "ferry_set_fallback_warns": (None, [number]),
        "ferry_refuse_memory_formats": (None, []),
        "ferry_multiply_sparse_as_dense": (None, []),
        "ferry_set_others_fall_back": (None, [number]),
        "ferry_set_mode": (None, [text, number, number]),
        "ferry_set_fault": (None, [text, number, ctypes.c_double, whole]),
        "ferry_refuse_in_collective": (None, [text, number, text]),
        "ferry_fail_allocation": (None, [whole]),
        "ferry_device_count": (number, []),
        "ferry_current_device": (number, []),
        "ferry_set_device": (number, [number]),
        "ferry_initialise": (number, []),
        "ferry_device_type": (number, []),
        "ferry_current_stream": (whole, [number]),
        "ferry_set_stream": (number, [number, whole]),
        "ferry_new_stream": (whole, []),
        "ferry_synchronize": (None, [number]),
        "ferry_watch_order": (None, [ctypes.c_void_p]),
        "ferry_keep_addresses_apart": (None, []),
        "ferry_is_initialised": (number, []),
        "ferry_in_bad_fork": (number, []),
        "ferry_collect_shared": (None, []),
        "ferry_end_sharing": (whole, []),
        "ferry_memory": (None, [number, ctypes.POINTER(whole)]),
        "ferry_reset_peak": (None, [number]),
        "ferry_reset_accumulated": (None, [number]),
        "ferry_empty_cache": (None, []),
        "ferry_set_fraction": (None, [number, ctypes.c_double]),
        "ferry_operators_used": (text, []),
        "ferry_device_work": (whole, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
