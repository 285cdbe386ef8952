"""C or C++ that calls CUDA itself: the runtime, the driver, cuBLAS, cuDNN, NCCL, TensorRT.

Neither the headers nor the libraries exist for another card, so it does not compile there. It is counted by the part of
CUDA that it uses; comments do not count. `torchferry port` renames the calls for a card whose runtime has them; or
build the project without them. What is compiled only under a switch such as `#ifdef WITH_CUDA` builds with the switch
off, and then runs on the CPU.

Why: The file does not compile without CUDA's headers and libraries.

References:
- CUDA Toolkit 12 documentation: runtime and driver API, and the API references of its libraries
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.finding import Effect
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses, port_advice
from torchferry.rules.family import WhenPorted
from torchferry.source.kinds import Kind


class CudaInCpp(NativeRule):
    """Finds C and C++ files that call CUDA itself."""

    CODE = "EXT103"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.PORTED
    KINDS = (Kind.CPP,)
    ROLE = "device"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say(
            "uses CUDA's own API ({parts}) only if a switch is on: off, it runs on the CPU; {advice}",
            parts=used.parts,
            advice=port_advice(target),
        )

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "uses CUDA's own API ({parts}), which {target} does not have: {advice}; or build the project without this "
            "file (lines: {lines})",
            parts=used.parts,
            target=target.title,
            advice=port_advice(target),
            lines=used.lines,
        )
