"""C or C++ that calls CUDA itself: the runtime, the driver, cuBLAS, cuDNN, NCCL, TensorRT.

Neither the headers nor the libraries exist for another card, so it does not compile there. It is counted by the part of
CUDA that it uses; comments do not count. Port the calls to the maker's own runtime and libraries, or build the project
without them. What is compiled only under a switch such as `#ifdef WITH_CUDA` is a note: leave the switch off.

Why: The file does not compile without CUDA's headers and libraries.

References:
- CUDA Toolkit 12 documentation: runtime and driver API, and the API references of its libraries
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses
from torchferry.source.kinds import Kind


class CudaInCpp(NativeRule):
    """Finds C and C++ files that call CUDA itself."""

    CODE = "EXT103"
    KINDS = (Kind.CPP,)
    ROLE = "device"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say(
            "uses CUDA's own API ({parts}) only if a switch is on: leave it off on {target}",
            parts=used.parts,
            target=target.title,
        )

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "uses CUDA's own API ({parts}), which {target} does not have: port the calls to the vendor's own runtime, "
            "or build the project without this file (lines: {lines})",
            parts=used.parts,
            target=target.title,
            lines=used.lines,
        )
