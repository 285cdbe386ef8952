"""Graph capture: it exists by name and cannot be rehearsed, because nothing is queued on a simulated device."""

from __future__ import annotations

from typing import NoReturn

from torchferry.rehearsal import events
from torchferry.rehearsal.device_module.context import DeviceContext


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the names of graph capture, by their name below `torch.cuda`."""

    def is_current_stream_capturing() -> bool:
        """Whether the current stream is being captured: never."""
        return False

    def graph_pool_handle() -> NoReturn:
        """Return what names a pool of memory, which is not rehearsed."""
        _refuse("graph_pool_handle", context)

    def make_graphed_callables(
        callables: object,
        sample_args: object,
        num_warmup_iters: int = 3,
        allow_unused_input: bool = False,
        pool: object = None,
    ) -> NoReturn:
        """Capture functions, which is not rehearsed."""
        _refuse("make_graphed_callables", context)

    class graph:  # noqa: N801 - torch's name
        """Graph capture, which is not rehearsed."""

        def __init__(
            self, cuda_graph: object, pool: object = None, stream: object = None, capture_error_mode: str = "global"
        ) -> None:
            _refuse("graph", context)

    names: dict[str, object] = {
        "CUDAGraph": _unavailable_class(f"{context.label}Graph", context),
        "graph": graph,
        "graph_pool_handle": graph_pool_handle,
        "make_graphed_callables": make_graphed_callables,
        "is_current_stream_capturing": is_current_stream_capturing,
    }
    return {**names, **{f"graphs.{name}": value for name, value in names.items()}}


def _refuse(name: str, context: DeviceContext) -> NoReturn:
    subject = f"{context.namespace}.{name}"
    events.record("not-rehearsed", subject, "graph capture")
    raise NotImplementedError(f"{subject}: graph capture is not rehearsed; run without it")


def _unavailable_class(name: str, context: DeviceContext) -> type:
    def fail(self: object, *args: object, **kwargs: object) -> NoReturn:
        _refuse(name, context)

    return type(name, (), {"__doc__": "Graph capture, which is not rehearsed.", "__init__": fail})
