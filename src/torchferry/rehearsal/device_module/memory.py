"""Memory of the simulated device: the statistics of its allocator under the keys of `torch.cuda.memory_stats`."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torchferry.rehearsal.device_module.context import Context, DeviceLike
from torchferry.rehearsal.device_module.devices import host_memory
from torchferry.rehearsal.device_module.memory_report import nested_stats, summary


def implementations(context: Context) -> dict[str, object]:
    """Return the functions that deal with memory, by their name below `torch.cuda`."""
    functions = {**_readings(context), **_settings(context), **_raw_memory(context)}
    return {**functions, **{f"memory.{name}": function for name, function in functions.items()}}


def _readings(context: Context) -> dict[str, Callable[..., object]]:
    native = context.native

    def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
        """Return the statistics of the allocator, empty before the first use of the device."""
        if not context.is_initialized():
            return {}
        return nested_stats(native.memory(context.existing(device)))

    def memory_stats(device: DeviceLike = None) -> collections.OrderedDict[str, Any]:
        """Return the statistics of the allocator under keys such as `allocated_bytes.all.current`."""
        flat: dict[str, Any] = {}

        def add(prefix: str, value: object) -> None:
            if isinstance(value, dict):
                for key, inner in value.items():
                    add(f"{prefix}.{key}" if prefix else key, inner)
            else:
                flat[prefix] = value

        add("", memory_stats_as_nested_dict(device))
        return collections.OrderedDict(sorted(flat.items()))

    def memory_allocated(device: DeviceLike = None) -> int:
        """Return the bytes that tensors hold."""
        return int(memory_stats(device).get("allocated_bytes.all.current", 0))

    def max_memory_allocated(device: DeviceLike = None) -> int:
        """Return the most bytes that tensors held."""
        return int(memory_stats(device).get("allocated_bytes.all.peak", 0))

    def memory_reserved(device: DeviceLike = None) -> int:
        """Return the bytes that the allocator holds."""
        return int(memory_stats(device).get("reserved_bytes.all.current", 0))

    def max_memory_reserved(device: DeviceLike = None) -> int:
        """Return the most bytes that the allocator held."""
        return int(memory_stats(device).get("reserved_bytes.all.peak", 0))

    def memory_cached(device: DeviceLike = None) -> int:
        """Return the bytes that the allocator holds; an old name of `memory_reserved`."""
        _renamed("memory_cached", "memory_reserved")
        return memory_reserved(device)

    def max_memory_cached(device: DeviceLike = None) -> int:
        """Return the most bytes that the allocator held; an old name of `max_memory_reserved`."""
        _renamed("max_memory_cached", "max_memory_reserved")
        return max_memory_reserved(device)

    def _renamed(old: str, new: str) -> None:
        warnings.warn(
            f"`{context.namespace}.{old}` has been renamed to `{context.namespace}.{new}`", FutureWarning, stacklevel=3
        )

    def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
        """Return the free and the whole memory of a device in bytes."""
        context.initialize()
        stats = native.memory(context.existing(device))
        total = stats.capacity or host_memory()
        return max(total - stats.reserved, 0), total

    def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
        """Return the statistics of the allocator as a table."""
        context.initialize()
        index = context.existing(device)
        return summary(native.memory(index), context.label, index, abbreviated=abbreviated)

    def memory_snapshot(mempool_id: object = None, include_traces: bool = True) -> list[dict[str, Any]]:
        """Return the segments of the allocator: on a simulated device, one for what each device holds."""
        context.initialize()
        held = [(index, native.memory(index)) for index in range(native.device_count())]
        return [
            {
                "device": index,
                "total_size": stats.reserved,
                "allocated_size": stats.allocated,
                "active_size": stats.allocated,
                "segment_type": "large",
                "blocks": [],
            }
            for index, stats in held
            if stats.reserved
        ]

    return {
        function.__name__: function
        for function in (
            memory_stats_as_nested_dict,
            memory_stats,
            memory_allocated,
            max_memory_allocated,
            memory_reserved,
            max_memory_reserved,
            memory_cached,
            max_memory_cached,
            mem_get_info,
            memory_summary,
            memory_snapshot,
        )
    }


def _settings(context: Context) -> dict[str, Callable[..., object]]:
    native = context.native
    fractions: dict[int, float] = {}

    def empty_cache() -> None:
        """Give back what the allocator holds and no tensor uses."""
        if context.is_initialized():
            native.empty_cache()

    def reset_peak_memory_stats(device: DeviceLike = None) -> None:
        """Measure peaks from now on."""
        context.initialize()
        native.reset_peak(context.existing(device))

    def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
        """Count allocations from now on."""
        context.initialize()
        native.reset_accumulated(context.existing(device))

    def reset_max_memory_allocated(device: DeviceLike = None) -> None:
        """Measure peaks from now on; an old name of `reset_peak_memory_stats`."""
        _resets_all("reset_max_memory_allocated")
        reset_peak_memory_stats(device)

    def reset_max_memory_cached(device: DeviceLike = None) -> None:
        """Measure peaks from now on; an old name of `reset_peak_memory_stats`."""
        _resets_all("reset_max_memory_cached")
        reset_peak_memory_stats(device)

    def _resets_all(name: str) -> None:
        warnings.warn(
            f"{context.namespace}.{name} now calls {context.namespace}.reset_peak_memory_stats, "
            "which resets /all/ peak memory stats.",
            FutureWarning,
            stacklevel=3,
        )

    def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
        """Bound what this process may allocate, from 0.0 to 1.0 of the memory of the device."""
        context.initialize()
        index = context.existing(device)
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        native.set_fraction(index, fraction)
        fractions[index] = fraction

    def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
        """Return the value of `set_per_process_memory_fraction`."""
        context.initialize()
        return fractions.get(context.existing(device), 1.0)

    def get_allocator_backend() -> str:
        """Return the kind of the allocator."""
        return "native"

    return {
        function.__name__: function
        for function in (
            empty_cache,
            reset_peak_memory_stats,
            reset_accumulated_memory_stats,
            reset_max_memory_allocated,
            reset_max_memory_cached,
            set_per_process_memory_fraction,
            get_per_process_memory_fraction,
            get_allocator_backend,
        )
    }


def _raw_memory(context: Context) -> dict[str, Callable[..., object]]:
    held: dict[int, torch.Tensor] = {}

    def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: object = None) -> int:
        """Allocate bytes on a device; return their address."""
        context.initialize()
        block = torch.empty(size, dtype=torch.uint8, device=torch.device(context.name, context.existing(device)))
        held[block.data_ptr()] = block
        return block.data_ptr()

    def caching_allocator_delete(mem_ptr: int) -> None:
        """Free what `caching_allocator_alloc` gave."""
        if held.pop(mem_ptr, None) is None:
            raise RuntimeError(f"invalid device pointer: {mem_ptr:#x}")

    return {
        "caching_allocator_alloc": caching_allocator_alloc,
        "caching_allocator_delete": caching_allocator_delete,
    }
