"""A profiler that records CUDA.

`ProfilerActivity.CUDA` is dropped with a warning on a torch without CUDA, and where it is the only activity the
profiler refuses to start. Each plugin has its own activity; some have a profiler of their own with the same
interface.

Why: The profile contains no work of the card, or the profiler does not start.

References:
- table api
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.references import ReferenceRule


class ProfilerActivity(ReferenceRule):
    """Finds profiler activities and profilers that mean CUDA."""

    CODE = "PRF101"
    EFFECT = Effect.WRONG
    WORDS = ("profiler", "Profiler")
    GROUPS = ("profiling",)
