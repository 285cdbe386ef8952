"""A CUDA source file: `.cu`, `.cuh`.

The kernels are counted, because they decide what a migration costs. `torchferry port` ports them for a card whose
compiler takes CUDA's syntax, and describes each for one whose kernels are written in a language of their own. Or find
out whether the project has a plain path without them.

Why: A program that needs the kernels cannot run until they are ported.

References:
- page verdict
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say, say_plural
from torchferry.rules.base import Context, Rule
from torchferry.rules.extension.uses import port_advice
from torchferry.rules.family import WhenPorted
from torchferry.source.kinds import Kind
from torchferry.source.native import code_of

_KERNEL = lazy_regex(r"\b__global__\b")
_LAUNCH = lazy_regex(r"<<<")


class CudaSource(Rule):
    """Finds CUDA source files."""

    CODE = "EXT102"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.PORTED
    WORDS = ("",)
    KINDS = (Kind.KERNEL,)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield one finding a file."""
        code = code_of(context.kind, context.text)
        kernels = say_plural("{count} kernel", "{count} kernels", count=len(_KERNEL.findall(code)))
        launches = say_plural("{count} launch", "{count} launches", count=len(_LAUNCH.findall(code)))
        message = say(
            "CUDA source with {kernels} and {launches}: {advice}; or run without it if the project can",
            kernels=kernels,
            launches=launches,
            advice=port_advice(context.target),
        )
        yield self.finding(context, (0, 0), message, Grade.MANUAL, blocker=True)
