"""The allocator's figures in the forms that torch gives them: a nested dictionary and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def summary(stats: MemoryStats, label: str, device: int, *, abbreviated: bool) -> str:
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
