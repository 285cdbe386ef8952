"""A stream or an event of CUDA.

`torch.cuda.Stream`, `Event`, `stream()`, `current_stream()`: creating one raises on a torch without CUDA. Plugins
have classes of the same names, with the same ordering rules. Where the target has none, neither has it `torch.Stream`
and `torch.Event`, which take the device.

Why: Creating the stream or event raises.

References:
- table api
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends import cuda
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.rules.base import PythonContext, calls_to, keyword_of
from torchferry.rules.device.receivers import names_card
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.references import CUDA_NAMES, ReferenceRule, missing

_OF_EVERY_DEVICE = ("Stream", "Event")
"""Classes of torch that take the device."""


class CudaStream(ReferenceRule):
    """Finds streams and events of CUDA."""

    CODE = "STR101"
    EFFECT = Effect.RAISES
    WORDS = (*CUDA_NAMES, *(f"torch.{name}" for name in _OF_EVERY_DEVICE))
    GROUPS = ("stream",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each use, and for torch's own classes where the target has no streams."""
        yield from super().check_python(context)
        for name, call in calls_to(context):
            row = context.target.of_vendor(f"{cuda.NAMESPACE}.{name.removeprefix('torch.')}")
            if name.removeprefix("torch.") not in _OF_EVERY_DEVICE or row.status != "missing":
                continue
            keyword = keyword_of(call, "device")
            device = keyword.value if keyword is not None else call.args[0] if call.args else None
            if device is not None and names_card(context, device) and exemption_reason(context, call) is None:
                yield self.finding(context, context.file.span(call), missing(context, name, row), Grade.MANUAL)
