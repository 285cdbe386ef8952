"""C++ that uses CUDA through libtorch: `torch::kCUDA`, `x.is_cuda()`, `c10/cuda`, an operator registered for `CUDA`.

libtorch on another card has no CUDA device: `torch::kCUDA` raises, `is_cuda()` answers no, and what is registered for
the dispatch key `CUDA` is never called. Name the target's device, and port what is done with CUDA's streams and
kernels: `torchferry port`. What is compiled only under a switch such as `#ifdef WITH_CUDA` builds with the switch off,
and then runs on the CPU.

Why: The program raises, or the operators that are registered for CUDA are never called.

References:
- torch 2.13.0 headers: ATen/cuda, c10/cuda, c10/core/DeviceType.h, c10/core/DispatchKey.h, torch/library.h
"""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.finding import Effect
from torchferry.core.messages import Message, say
from torchferry.rules.extension.uses import NativeRule, NativeUses, port_advice
from torchferry.rules.family import WhenPorted
from torchferry.source.kinds import Kind


class LibtorchCuda(NativeRule):
    """Finds C++ files that ask libtorch for CUDA."""

    CODE = "EXT104"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.PORTED
    KINDS = (Kind.CPP,)
    ROLE = "torch"

    def under_switch(self, used: NativeUses, target: Target) -> Message:
        """Say that the switch stays off."""
        return say(
            "requests CUDA from libtorch only if a switch is on (uses: {count}): off, it runs on the CPU; {advice}",
            count=used.total,
            advice=port_advice(target),
        )

    def needed(self, used: NativeUses, target: Target) -> Message:
        """Say what is asked for, and what to do."""
        return say(
            "requests CUDA from libtorch: on {target} the device is `{device}` and its dispatch "
            "key is `{key}`; {advice} (uses: {count}; lines: {lines})",
            count=used.total,
            target=target.title,
            device=target.backend.DEVICE_TYPE,
            advice=port_advice(target),
            key=target.dispatch_key or "UNKNOWN",
            lines=used.lines,
        )
