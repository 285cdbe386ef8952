"""CMake that requires CUDA: `find_package(CUDA)`, `enable_language(CUDA)`, `CMAKE_CUDA_ARCHITECTURES`.

Configuring fails where there is no CUDA toolkit. Configure the project without CUDA where it has a switch for that;
otherwise port the sources first, and then let CMake call the maker's own compiler. What stands under a switch such as
`if(USE_CUDA)` is a note: leave the switch off.

Why: CMake stops at the configuration step on a machine without the CUDA toolkit.

References:
- CMake documentation: FindCUDA, FindCUDAToolkit, CMAKE_CUDA_* variables
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses
from torchferry.source.kinds import Kind


class CudaInCmake(NativeRule):
    """Finds CMake files that ask for CUDA."""

    CODE = "EXT105"
    KINDS = (Kind.CMAKE,)
    ROLE = "build"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say("requires CUDA only if a switch is on: leave it off on {target}", target=target.title)

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "requires CUDA in CMake, which {target} does not have: configure without it, or port "
            "the sources and compile them with the vendor's compiler (lines: {lines})",
            target=target.title,
            lines=used.lines,
        )
