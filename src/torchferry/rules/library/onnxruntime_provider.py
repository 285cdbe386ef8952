"""An execution provider of ONNX Runtime that runs on CUDA.

`CUDAExecutionProvider` and `TensorrtExecutionProvider` exist in onnxruntime-gpu only. A maker may offer a provider of
its own in a build of its own. The name is never rewritten by itself, because the package must change with it. With
`CPUExecutionProvider` listed behind it, ONNX Runtime takes the CPU and only warns: decide whether that is intended.

Why: ONNX Runtime silently computes on the CPU.

References:
- table frameworks
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.tables import REWRITTEN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import literal_span
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.library.onnxruntime_device import FUNCTIONS, NAME, device_places
from torchferry.rules.texts import is_text

_CPU = "CPUExecutionProvider"
_PROVIDERS = ("CUDAExecutionProvider", "TensorrtExecutionProvider")


class OnnxruntimeProvider(Rule):
    """Finds ONNX Runtime's providers for CUDA."""

    CODE = "LIB102"
    EFFECT = Effect.WRONG
    ANSWERS = (say("name the target's provider"),)
    NEEDS_COUNTERPART = True
    WORDS = (*_PROVIDERS, *FUNCTIONS)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        for node in context.file.strings:
            if node.value not in _PROVIDERS or is_text(context, node) or exemption_reason(context, node) is not None:
                continue
            row = context.target.row("frameworks", f"onnxruntime.provider.{node.value}")
            if row.status in REWRITTEN and row.use:
                message = noted(
                    say(
                        "`{found}` runs only on CUDA, and ONNX Runtime would use the CPU; {target} has `{use}`",
                        found=node.value,
                        target=context.target.title,
                        use=row.use,
                    ),
                    row.remark,
                )
            else:
                message = say(
                    "`{found}` runs only on CUDA, and ONNX Runtime would use the CPU; on {target}: {note}",
                    found=node.value,
                    target=context.target.title,
                    note=row.remark or say("whether there is a provider is UNKNOWN"),
                )
            yield self.finding(context, literal_span(context, node), message, Grade.MANUAL)
        row = context.target.row("frameworks", NAME)
        for name, place in {place: (name, place) for name, place in device_places(context)}.values():
            if exemption_reason(context, place) is None:
                message = say(
                    "`{name}` expects ONNX Runtime's own name for the device; on {target} it is {use}",
                    name=name,
                    target=context.target.title,
                    use=f"`{row.use}`" if row.status in REWRITTEN else "UNKNOWN",
                )
                yield self.finding(context, context.file.span(place), message, Grade.MANUAL, effect=Effect.RAISES)
