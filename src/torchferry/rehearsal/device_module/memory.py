"""Memory of the simulated device: the statistics of its allocator under the keys of `torch.cuda.memory_stats`."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torchferry.rehearsal import events
from torchferry.rehearsal.device_module.context import DeviceContext, DeviceLike
from torchferry.rehearsal.device_module.devices import host_memory

if TYPE_CHECKING:
    from torchferry.rehearsal.native import MemoryStats

_ZERO = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
_WIDTH = 75


def nested_stats(stats: MemoryStats) -> dict[str, Any]:
    """Return the statistics in the structure of `torch.cuda.memory_stats_as_nested_dict`.

    The simulated allocator has one pool and no splits, so all counts as the large pool and splits are zero.
    """
    totals = {"allocated": stats.total_allocated, "freed": stats.total_freed}
    bytes_used = {"current": stats.allocated, "peak": stats.peak_allocated, **totals}
    # What was reserved over time is not counted: the least that fits peak and present use is given.
    held, most = stats.reserved, stats.peak_reserved
    bytes_held = {"current": held, "peak": most, "allocated": most, "freed": most - held}
    live = max(stats.allocations - stats.frees, 0)
    count = {"current": live, "peak": live, "allocated": stats.allocations, "freed": stats.frees}
    pools = {
        "allocation": count,
        "segment": count,
        "active": count,
        "inactive_split": _ZERO,
        "allocated_bytes": bytes_used,
        "active_bytes": bytes_used,
        "requested_bytes": bytes_used,
        "reserved_bytes": bytes_held,
        "inactive_split_bytes": _ZERO,
    }
    return {
        **{
            key: {"all": dict(figures), "large_pool": dict(figures), "small_pool": dict(_ZERO)}
            for key, figures in pools.items()
        },
        "oversize_allocations": dict(_ZERO),
        "oversize_segments": dict(_ZERO),
        "max_split_size": -1,
        "num_alloc_retries": 0,
        "num_device_alloc": stats.allocations,
        "num_device_free": stats.frees,
        "num_ooms": stats.ooms,
        "num_sync_all_streams": 0,
    }


def memory_table(stats: MemoryStats, label: str, device: int, *, abbreviated: bool) -> str:
    """Return the statistics as a table; `abbreviated` leaves the pools out."""
    figures = nested_stats(stats)
    rule = "=" * _WIDTH
    lines = [
        f"|{rule}|",
        f"|{f'PyTorch {label} memory summary, device ID {device} (rehearsed)':^{_WIDTH}}|",
        "|" + "-" * _WIDTH + "|",
        f"|{f'{label} OOMs: {stats.ooms}':^{_WIDTH // 2}}|{'retries: 0':^{_WIDTH - _WIDTH // 2 - 1}}|",
        f"|{rule}|",
        "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |",
    ]
    for key, title in (
        ("allocated_bytes", "Allocated memory"),
        ("active_bytes", "Active memory"),
        ("requested_bytes", "Requested memory"),
        ("reserved_bytes", "Reserved memory"),
        ("allocation", "Allocations"),
    ):
        lines.append("|" + "-" * _WIDTH + "|")
        for pool, name in (("all", title), ("large_pool", "  from large pool"), ("small_pool", "  from small pool")):
            if pool != "all" and abbreviated:
                continue
            shown = " | ".join(
                f"{_size(value) if key.endswith('bytes') else str(value):>10}" for value in figures[key][pool].values()
            )
            lines.append(f"| {name:<21} | {shown} |")
    lines.append(f"|{rule}|")
    return "\n".join(lines) + "\n"


def _size(value: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if value < 768 * 1024:
            return f"{value} {unit}"
        value //= 1024
    return f"{value} GiB"


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the functions that deal with memory, by their name below `torch.cuda`."""
    functions = {**_readings(context), **_settings(context), **_raw_memory(context)}
    return {**functions, **{f"memory.{name}": function for name, function in functions.items()}}


def _readings(context: DeviceContext) -> dict[str, Callable[..., object]]:
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
        return memory_table(native.memory(index), context.label, index, abbreviated=abbreviated)

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


def _settings(context: DeviceContext) -> dict[str, Callable[..., object]]:
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
            raise events.refusal(TypeError("Invalid type for fraction argument, must be `float`"))
        if not 0 <= fraction <= 1:
            raise events.refusal(ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1"))
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


def _raw_memory(context: DeviceContext) -> dict[str, Callable[..., object]]:
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
            raise events.refusal(RuntimeError(f"invalid device pointer: {mem_ptr:#x}"))

    return {
        "caching_allocator_alloc": caching_allocator_alloc,
        "caching_allocator_delete": caching_allocator_delete,
    }
