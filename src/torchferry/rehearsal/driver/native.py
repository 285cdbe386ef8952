"""The simulated driver and the library of operators, as Python drives them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.rehearsal.driver.building import driver_core
from torchferry.rehearsal.driver.description import Queue, SimulatedDriver
from torchferry.rehearsal.native import FAULTS, MODES, LimitedKernels, mask_of_dtypes, watch_refusals

CARD_ADDRESS_BIT = 1 << 46
"""As in `csrc/card_address.h`."""

_SINK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)


class Machine:
    """The simulated machine: what its driver is told and asked.

    Args:
        folder: The folder of the driver.
        libraries: Those of its libraries that are loaded.
        devices: How many devices it has.
        memory: Bytes of each.
    """

    def __init__(self, folder: Path, libraries: Iterable[str], *, devices: int, memory: int) -> None:
        self._core = ctypes.CDLL(str(driver_core(folder)), mode=ctypes.RTLD_GLOBAL)
        self._held = [ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL) for name in libraries]
        text, number = ctypes.c_char_p, ctypes.c_int64
        for name, result, arguments in (
            ("ferry_set_number", None, [text, number]),
            ("ferry_set_text", None, [text, text]),
            ("ferry_memory_used", number, [ctypes.c_int]),
            ("ferry_memory_peak", number, [ctypes.c_int]),
            ("ferry_memory_exhausted", number, [ctypes.c_int]),
            ("ferry_fail_allocation", None, [number]),
            ("ferry_refused", text, []),
            ("ferry_watch_order", None, [ctypes.c_void_p]),
            ("ferry_keep_addresses_apart", None, [ctypes.c_void_p]),
        ):
            function = getattr(self._core, name)
            function.restype, function.argtypes = result, arguments
        self.set_number("devices", devices)
        self.set_number("memory", memory)

    def set_number(self, key: str, value: int) -> None:
        """Say a number of the machine's."""
        self._core.ferry_set_number(key.encode(), value)

    def set_text(self, key: str, value: str) -> None:
        """Say a name of the machine's."""
        self._core.ferry_set_text(key.encode(), value.encode())

    def memory_used(self, device: int) -> int:
        """Bytes that the plugin holds of a device."""
        return int(self._core.ferry_memory_used(device))

    def memory_peak(self, device: int) -> int:
        """The most bytes that the plugin held of a device."""
        return int(self._core.ferry_memory_peak(device))

    def memory_exhausted(self, device: int) -> int:
        """How often a device had no room for what the plugin asked for."""
        return int(self._core.ferry_memory_exhausted(device))

    def fail_allocation(self, number: int) -> None:
        """Let the allocation with this number, counted from 1 and from now, run out of memory."""
        self._core.ferry_fail_allocation(number)

    def watch_order(self, watcher: int) -> None:
        """Tell a C function, by its address, what orders the work of streams; see `csrc/machine.h`."""
        self._core.ferry_watch_order(watcher)

    def keep_addresses_apart(self) -> None:
        """Give device memory addresses at which the host has nothing; before there is any."""
        self._core.ferry_keep_addresses_apart(CARD_ADDRESS_BIT)

    def refused(self) -> dict[str, int]:
        """How often each entry point that is not simulated was called."""
        return _counts(self._core.ferry_refused())


class TakenOver(LimitedKernels):
    """The operators of the plugin, computed by the CPU."""

    def __init__(self, library: Path, device_type: str, driver: SimulatedDriver) -> None:
        self._library = ctypes.CDLL(str(library))
        text, number = ctypes.c_char_p, ctypes.c_int
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "ferry_error": (text, []),
            "ferry_set_sink": (None, [_SINK]),
            "ferry_watch_refusals": (number, [text, text]),
            "ferry_refusal_is_told": (None, []),
            "ferry_take_over": (number, [text] * 9),
            "ferry_queue_is_off": (None, []),
            "ferry_keep_addresses_apart": (None, []),
            "ferry_empty_queue_by": (None, [ctypes.c_void_p]),
            "ferry_stream_by": (None, [ctypes.c_void_p]),
            "ferry_draw_by": (None, [ctypes.c_void_p]),
            "ferry_served": (text, []),
            "ferry_set_dtypes": (None, [ctypes.c_uint64] * 3),
            **self.LIMIT_FUNCTIONS,
            "ferry_set_mode": (None, [text, number]),
            "ferry_set_fault": (None, [text, number, ctypes.c_double, ctypes.c_int64]),
            "ferry_set_rounding": (None, [number, number]),
            "ferry_refuse_memory_formats": (None, []),
            "ferry_operators_used": (text, []),
            "ferry_device_work": (ctypes.c_int64, []),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        zeros = " ".join(f"{name}={count}" for name, count in driver.zeros.items())
        status = (" ".join(driver.status_reads), " ".join(driver.status_clears))
        formats = (" ".join(driver.format_casts), f"{driver.format_of} {driver.with_format}")
        lists = (" ".join(driver.kept), *formats, " ".join(driver.casts), zeros, *status)
        words = (device_type, driver.namespace, *lists)
        if self._library.ferry_take_over(*(word.encode() for word in words)) < 0:
            error = self._library.ferry_error().decode(errors="replace").splitlines()[0]
            raise TorchferryError(say("the rehearsal cannot take over the plugin's operators: {error}", error=error))

    def set_sink(self, sink: Callable[[int, bytes, bytes, int], None]) -> None:
        """Send events to `sink(kind, subject, detail, amount)`."""
        self._sink = _SINK(sink)
        self._library.ferry_set_sink(self._sink)

    def watch_refusals(self, folders: Iterable[Path]) -> None:
        """Tell the sink of exceptions that the plugin in these folders raises, or torch on its device's behalf."""
        watch_refusals(self._library, folders)

    def refusal_is_told(self) -> None:
        """Say that an event told already what this thread raises next."""
        self._library.ferry_refusal_is_told()

    def queue_is_off(self) -> None:
        """Say that the plugin does all work in the thread that asks for it."""
        self._library.ferry_queue_is_off()

    def keep_addresses_apart(self) -> None:
        """Say that the machine gives device memory other addresses than the host's."""
        self._library.ferry_keep_addresses_apart()

    def use_functions(self, driver: SimulatedDriver) -> None:
        """Use functions of the plugin's own library."""
        for name, use in (
            (driver.queue.empties if isinstance(driver.queue, Queue) else "", self._library.ferry_empty_queue_by),
            (driver.default_generator, self._library.ferry_draw_by),
            (driver.stream, self._library.ferry_stream_by),
        ):
            function = function_of(driver.library, name)
            if function is not None:
                use(ctypes.cast(function, ctypes.c_void_p))

    def set_dtypes(self, missing: Iterable[str], narrowed: Iterable[str], noted: Iterable[str]) -> None:
        """Say which dtypes the card lacks, holds in half the width, or treats in some other way."""
        self._library.ferry_set_dtypes(*map(mask_of_dtypes, (missing, narrowed, noted)))

    def set_mode(self, operator: str, mode: str) -> None:
        """Take an operator away, or give it back."""
        self._library.ferry_set_mode(operator.encode(), MODES[mode])

    def set_fault(self, operator: str, kind: str, scale: float, after: int) -> None:
        """Spoil an operator after `after` right calls."""
        self._library.ferry_set_fault(operator.encode(), FAULTS[kind], scale, after)

    def set_rounding(self, *, matmul: int, convolution: int) -> None:
        """Keep so many explicit mantissa bits of the float32 inputs of products and convolutions; 0 keeps all 23."""
        self._library.ferry_set_rounding(matmul, convolution)

    def refuse_memory_formats(self) -> None:
        """Lay out what operators make in the usual order, as a plugin that takes no other does."""
        self._library.ferry_refuse_memory_formats()

    def served(self) -> list[tuple[str, str, str]]:
        """For each registration of the plugin's: the operator, the dispatch key, and how it is served."""
        lines = self._library.ferry_served().decode().splitlines()
        return [(name, key, service) for name, key, service in map(str.split, lines)]

    def work(self) -> int:
        """Floating point operations of the device in products, convolutions, attention and recurrent layers."""
        return int(self._library.ferry_device_work())

    def operators_used(self) -> dict[str, int]:
        """How often each operator ran, by full name."""
        return _counts(self._library.ferry_operators_used())


def function_of(library: str, name: str) -> Any:
    """Return a function of a library that is loaded; None where it is not loaded, or has no such function."""
    try:
        return getattr(ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), name) if library and name else None
    except (OSError, AttributeError):
        return None


def _counts(text: bytes) -> dict[str, int]:
    pairs = (line.rsplit(" ", 1) for line in text.decode().splitlines())
    return {name: int(count) for name, count in pairs}
