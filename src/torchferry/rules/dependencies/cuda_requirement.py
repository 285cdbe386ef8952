"""A requirement that needs CUDA: flash-attn, xformers, apex, bitsandbytes, cupy, TensorRT and the like.

It does not build, or it builds and does not run. The target's table says what to do about each: another distribution,
another way, or nothing. A requirement is never removed automatically; a plain change of name is applied with
`--unsafe-fixes`. The parts of torch's CUDA build that one file lists (`cudatoolkit`, `nvidia-cublas-cu12`, as a frozen
environment has dozens of them) are one decision: leave them all out. A pinned `triton` next to them was installed with
torch; `CMP102` reports kernels that the project itself writes in Triton.

Why: The installation fails, or it installs a package that does not run.

References:
- table packages
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from torchferry.backends import cuda
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say, say_plural
from torchferry.rules.base import Context, Rule
from torchferry.rules.dependencies.listed import LIST_KINDS, requirements_of
from torchferry.rules.dependencies.packages import LIBRARY_WHEEL, known_package
from torchferry.rules.library.cuda_package import advice
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement

_BUILD = frozenset({"pytorch-cuda", "cudatoolkit", "cudnn"})
"""Distributions of conda that only a CUDA build of torch needs."""

_UNJUDGED = frozenset({"plain"}) | cuda.OTHER_FRAMEWORKS
"""The kinds of package of which there is nothing to do in a list of requirements."""

_INSTALLABLE = lazy_regex(r"[a-z0-9][a-z0-9_-]*\Z")


class CudaRequirement(Rule):
    """Finds requirements that need CUDA."""

    CODE = "DEP101"
    WORDS: ClassVar[tuple[str, ...]] = ("",)
    KINDS: ClassVar[tuple[Kind, ...]] = LIST_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each requirement that does not simply work on the target."""
        parts: list[Requirement] = []
        others: list[Requirement] = []
        for found in requirements_of(context):
            (parts if _is_part_of_build(found, context.kind) else others).append(found)
        if len({part.name for part in parts if LIBRARY_WHEEL.match(part.name)}) > 1:
            came_along = [found for found in others if found.name == "triton" and found.specifier.startswith("==")]
            others = [found for found in others if found not in came_along]
            parts = sorted([*parts, *came_along], key=lambda part: part.start)
        yield from self._parts(context, parts)
        for found in others:
            name = known_package(found.name, context.kind)
            if name is not None and name != "torch" and cuda.packages()[name].kind not in _UNJUDGED:
                yield from self._report(context, found, name)

    def _parts(self, context: Context, parts: list[Requirement]) -> Iterable[Finding]:
        """Yield one finding for all parts of torch's CUDA build: whoever decides on one decides on all."""
        if not parts:
            return
        span = (parts[0].start, parts[0].end)
        names = list(dict.fromkeys(part.name for part in parts))
        if len(names) == 1:
            message = say(
                "`{name}` belongs to torch's CUDA build; {target} does not need it, leave it out",
                name=names[0],
                target=context.target.title,
            )
        else:
            message = say_plural(
                "{count} package of torch's CUDA build; {target} does not need it, leave it out: {names}",
                "{count} packages of torch's CUDA build; {target} does not need them, leave them out: {names}",
                count=len(names),
                target=context.target.title,
                names=", ".join(names),
            )
        yield self.finding(context, span, message, Grade.MANUAL)

    def _report(self, context: Context, found: Requirement, name: str) -> Iterable[Finding]:
        row = context.target.row("packages", name)
        if row.status == "same":
            return
        span = (found.start, found.end)
        message = advice(context.target.title, found.name, row)
        renamed = row.status in ("renamed", "equivalent") and _INSTALLABLE.match(row.use)
        if renamed and not found.specifier:
            yield self.finding(context, span, message, Grade.UNSAFE, [Edit(*span, row.use)])
        elif row.status in ("partial", "unknown"):
            yield self.finding(context, span, message, Grade.NOTE)
        else:
            yield self.finding(context, span, message, Grade.MANUAL)


def _is_part_of_build(found: Requirement, kind: Kind) -> bool:
    """Whether a requirement belongs to the CUDA build of torch and to nothing else."""
    if found.name == "pytorch-mutex":  # conda's switch between the builds of torch
        return "cuda" in found.specifier
    return LIBRARY_WHEEL.match(found.name) is not None or known_package(found.name, kind) in _BUILD
