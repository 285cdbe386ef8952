"""Range markers: on the simulated device they appear in torch's own profiler, as `record_function` does."""

from __future__ import annotations

import itertools

import torch

from torchferry.core.ranges import Ranges
from torchferry.rehearsal.device_module.context import DeviceContext


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the range markers, by their name below `torch.cuda`."""
    ranges = Ranges(torch.profiler.record_function)
    handles = itertools.count(1)
    started: dict[int, str] = {}

    def range_start(msg: str) -> int:
        """Begin a range that may end in another thread; return its handle."""
        handle = next(handles)
        started[handle] = msg
        return handle

    def range_end(range_id: int) -> None:
        """End the range of a handle."""
        started.pop(range_id, None)

    return {
        "nvtx.range_push": ranges.range_push,
        "nvtx.range_pop": ranges.range_pop,
        "nvtx.range_start": range_start,
        "nvtx.range_end": range_end,
        "nvtx.mark": ranges.mark,
        "nvtx.range": ranges.range,
    }
