"""C++ that asks libtorch for CUDA: `torch::kCUDA`, `x.is_cuda()`, `c10/cuda`, an operator registered for `CUDA`.

libtorch on another card has no CUDA device: `torch::kCUDA` raises, `is_cuda()` answers no, and what is registered for
the dispatch key `CUDA` is never called. Name the target's device, and port what is done with CUDA's streams and
kernels. What is compiled only under a switch such as `#ifdef WITH_CUDA` is a note: leave the switch off.
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses
from torchferry.source.kinds import Kind


class LibtorchCuda(NativeRule):
    """Finds C++ files that ask libtorch for CUDA."""

    CODE = "EXT104"
    KINDS = (Kind.CPP,)
    ROLE = "torch"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say(
            "asks libtorch for CUDA only where a switch asks for it (uses: {count}): leave the switch off on {target}",
            count=used.total,
            target=target.title,
        )

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "asks libtorch for CUDA: on {target} the device is `{device}` and its dispatch key is `{key}`; port what "
            "uses CUDA's streams and kernels (uses: {count}; lines: {lines})",
            count=used.total,
            target=target.title,
            device=target.backend.DEVICE_TYPE,
            key=target.dispatch_key or "UNKNOWN",
            lines=used.lines,
        )
