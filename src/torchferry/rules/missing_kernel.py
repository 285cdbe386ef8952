"""What a plugin does with an operator that it has no kernel for."""

from __future__ import annotations

from torchferry.backends.target import Target
from torchferry.core.finding import Effect
from torchferry.core.messages import Message, say


def without_kernel(target: Target) -> Message:
    """Return what happens on the card when an operator is called that nothing brings a kernel for."""
    from torchferry.backends.operators import fallback_of  # imported late: few projects use such an operator

    fallback = fallback_of(target.backend)
    if fallback == "error":
        return say("it raises without a kernel for the card")
    if fallback in ("warn", "silent"):
        return say("it runs on the CPU without a kernel for the card")
    return say("what happens without a kernel for the card is UNKNOWN")


def effect_without_kernel(target: Target) -> Effect:
    """Return what the call of such an operator comes to, where it also has a kernel for the CPU."""
    from torchferry.backends.operators import fallback_of  # imported late, as above

    fallback = fallback_of(target.backend)
    if fallback == "error":
        return Effect.RAISES
    return Effect.SLOW if fallback in ("warn", "silent") else Effect.UNKNOWN
