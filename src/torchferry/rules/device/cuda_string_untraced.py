"""A string spelt like a CUDA device whose use could not be followed.

`"cuda"` passed to a function of another package, stored where other code reads it, or returned to callers that
are not in the project may be a device, or the name of something else: an implementation, a mode, a table. It is
not rewritten unless asked for with `--unsafe-fixes`: read the place, then either let the fix be applied or say
`# torchferry: ignore[DEV102] reason` on the line.

Why: If it is a device, the program fails on the target. If it is not, a rewrite would break the program.

References:
- page migrating
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.cuda_device_string import CudaDeviceString, device_strings, device_trace
from torchferry.rules.device.expressions import portable_imports
from torchferry.rules.device.load_onto_device import parts_of_unloadable
from torchferry.rules.device.strings import literal_span, written_device
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.library.onnxruntime_device import device_places
from torchferry.source.flow import TraceResult


class CudaStringUntraced(Rule):
    """Finds device strings that could not be followed to a device or to something else."""

    CODE = "DEV102"
    EFFECT = Effect.UNKNOWN
    BINDS = True
    WORDS = CudaDeviceString.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each device string whose use is open."""
        # DEV114 and LIB102 report these
        unloadable = parts_of_unloadable(context) | {place for _, place in device_places(context)}
        for node in device_strings(context):
            trace = device_trace(context, node)
            if trace.result is not TraceResult.UNKNOWN or node in unloadable:
                continue
            if exemption_reason(context, node) is not None:
                continue
            written = written_device(context, node)
            message = say(
                "`{text}` may be a device ({reason}); if it is, it must be `{device}` on {target}",
                text=node.value,
                reason=trace.reason,
                device=written.shown,
                target=context.target.title,
            )
            span = literal_span(context, node)
            if not written.edits:
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            yield self.finding(context, span, message, Grade.UNSAFE, written.edits, imports=portable_imports(context))
