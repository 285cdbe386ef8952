"""Graph capture: it exists by name and cannot be rehearsed, because nothing is queued on a simulated device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from torchferry.rehearsal import events
from torchferry.rehearsal.device_module.context import DeviceContext


def implementations(context: DeviceContext) -> dict[str, object]:
    """Return the names of graph capture, by their name below `torch.cuda`."""

    def is_current_stream_capturing() -> bool:
        """Whether the current stream is being captured: never."""
        return False

    names: dict[str, object] = {
        "CUDAGraph": _unavailable_class(f"{context.label}Graph", context),
        "graph": _unavailable_class("graph", context),
        "graph_pool_handle": _unavailable("graph_pool_handle", context),
        "make_graphed_callables": _unavailable("make_graphed_callables", context),
        "is_current_stream_capturing": is_current_stream_capturing,
    }
    return {**names, **{f"graphs.{name}": value for name, value in names.items()}}


def _unavailable(name: str, context: DeviceContext) -> Callable[..., NoReturn]:
    subject = f"{context.namespace}.{name}"

    def function(*args: object, **kwargs: object) -> NoReturn:
        events.record("not-rehearsed", subject, "graph capture")
        raise NotImplementedError(f"{subject}: graph capture is not rehearsed; run without it")

    function.__name__ = function.__qualname__ = name
    return function


def _unavailable_class(name: str, context: DeviceContext) -> type:
    fail = _unavailable(name, context)
    return type(
        name, (), {"__doc__": "Graph capture, which is not rehearsed.", "__init__": lambda self, *a, **k: fail()}
    )
