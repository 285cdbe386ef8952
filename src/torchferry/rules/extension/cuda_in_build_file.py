"""Meson, Bazel or `MANIFEST.in` that names CUDA: a language, a rule, a library, a source `.cu`.

Meson knows CUDA as a language and none of the makers' compilers; Bazel's rules for CUDA have no public counterpart.
What compiles the ported sources there is written by hand. Lines of `MANIFEST.in` get twins with
`torchferry port --build`.

Why: The build fails, or the ported sources are not in the source distribution.

References:
- page porting-build
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.family import WhenPorted
from torchferry.source.kinds import Kind
from torchferry.source.native import BUILD_KINDS, code_of

_WORD = lazy_regex(r"(?i)(?<!\w)\w*(?:cuda|nvcc|cublas|cudnn|nccl)\w*|(?<![\w./*-])[\w./*-]*\.cuh?\b")
_MOST_LINES = 8


class CudaInBuildFile(Rule):
    """Finds build files that name CUDA."""

    CODE = "EXT108"
    EFFECT = Effect.RAISES
    ANSWERS = (say("port the code"),)
    WHEN_PORTED = WhenPorted.BUILDS_TOO
    WORDS = ("cuda", "CUDA", "Cuda", "nvcc", "NVCC", "cublas", "cudnn", "CUDNN", "nccl", "NCCL", ".cu")
    KINDS = BUILD_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield at most one finding a file."""
        matches = list(_WORD.finditer(code_of(context.kind, context.text)))
        if not matches:
            return
        lines = sorted({context.source.position(match.start())[0] for match in matches})
        shown = ", ".join(map(str, lines[:_MOST_LINES])) + (", ..." if len(lines) > _MOST_LINES else "")
        if context.kind is Kind.MANIFEST:
            message = say(
                "names CUDA sources: `torchferry port --build MANIFEST.in` adds the ported ones (lines: {lines})",
                lines=shown,
            )
        else:
            message = say(
                "names CUDA in {kind}: write by hand what compiles the ported sources for {target} (lines: {lines})",
                kind=context.kind.value,
                target=context.target.title,
                lines=shown,
            )
        yield self.finding(context, matches[0].span(), message, Grade.MANUAL)
