"""A profiler that records CUDA.

`ProfilerActivity.CUDA` is dropped with a warning on a torch without CUDA, and where it is the only activity the
profiler refuses to start. Each plugin has its own activity; some have a profiler of their own with the same
interface.

Why: The profile contains no work of the card, or the profiler does not start.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.core.finding import LINK, Effect, Finding, Grade, Stays
from torchferry.rules.base import PythonContext, calls_by
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.profiler.methods import attributes_read
from torchferry.rules.references import ReferenceRule, binding_groups, missing, row_here

_KEPT = "profiler"
"""The group of what goes with torch's own profiler."""


class ProfilerActivity(ReferenceRule):
    """Finds profiler activities and profilers that mean CUDA."""

    CODE = "PRF101"
    EFFECT = Effect.WRONG
    WORDS = ("profiler", "Profiler")
    GROUPS = ("profiling",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for each method that the plugin's profiler lacks.

        With such a method torch's profiler stays, and with it all that it is given and the imports that bind it.
        """
        lacking = list(self._lacking(context))
        for finding in super().check_python(context):
            yield finding._replace(group=_KEPT) if lacking and finding.edits else finding
        if lacking:
            yield from lacking
            for reference in context.references["profiling"]:
                for group in binding_groups(context, reference):
                    span = context.file.span(reference.node)
                    yield self.finding(context, span, LINK, Grade.NOTE, group=group, needs=(_KEPT,))

    def _lacking(self, context: PythonContext) -> Iterator[Finding]:
        """Yield a finding for each use of a method that what stands in the place of a profiler does not have."""
        for name, call in calls_by(context, context.references.get("profiling", ())):
            row = row_here(context, name)
            if not row.lacks_methods or exemption_reason(context, call) is not None:
                continue
            for method, place in attributes_read(context, call):
                if method in row.lacks_methods:
                    message = missing(context, f"{name}.{method}", row)
                    yield self.finding(
                        context, context.file.span(place), message, Grade.MANUAL,
                        effect=self.EFFECT, group=_KEPT, stays=Stays.METHODS,
                    )  # fmt: skip
