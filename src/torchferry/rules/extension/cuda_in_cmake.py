"""CMake that requires CUDA: `find_package(CUDA)`, `enable_language(CUDA)`, `CMAKE_CUDA_ARCHITECTURES`.

Configuring fails where there is no CUDA toolkit. Configure the project without CUDA where it has a switch for that;
otherwise `torchferry port` ports the sources and, with `--build`, this file. What stands under a switch such as
`if(USE_CUDA)` builds with the switch off, and then runs on the CPU.

Why: CMake stops at the configuration step on a machine without the CUDA toolkit.

References:
- CMake documentation: FindCUDA, FindCUDAToolkit, CMAKE_CUDA_* variables
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.finding import Effect
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses, port_advice
from torchferry.rules.family import WhenPorted
from torchferry.source.kinds import Kind


class CudaInCmake(NativeRule):
    """Finds CMake files that ask for CUDA."""

    CODE = "EXT105"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.BUILDS_TOO
    KINDS = (Kind.CMAKE,)
    ROLE = "build"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say(
            "requires CUDA only if a switch is on: off, it runs on the CPU; {advice}", advice=port_advice(target)
        )

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "requires CUDA in CMake, which {target} does not have: configure without it; {advice} (lines: {lines})",
            target=target.title,
            advice=port_advice(target),
            lines=used.lines,
        )
