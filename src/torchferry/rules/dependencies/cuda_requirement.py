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
from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import noted, say, say_plural
from torchferry.rules.attention.attention_package import ATTENTION_PACKAGES, plain_attention_speed
from torchferry.rules.base import Context, Rule
from torchferry.rules.dependencies.listed import LIST_KINDS, requirements_of
from torchferry.rules.library.cuda_package import advice
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement

_BUILD = frozenset({"pytorch-cuda", "cudatoolkit", "cudnn"})
"""Distributions of conda that only a CUDA build of torch needs."""

_UNJUDGED = frozenset({"plain"}) | cuda.OTHER_FRAMEWORKS
"""The kinds of package of which there is nothing to do in a list of requirements."""

_INSTALLABLE = lazy_regex(r"[a-z0-9][a-z0-9_-]*\Z")


_FAMILIES = (
    (lazy_regex(r"nvidia-dali-cuda\d+\Z"), "nvidia-dali"),
    (lazy_regex(r"cupy-cuda\d+x?\Z"), "cupy"),
    (lazy_regex(r"spconv-cu\d+\Z"), "spconv"),
    (lazy_regex(r"faiss-gpu-cu\d+\Z"), "faiss-gpu"),
    (lazy_regex(r"dgl-cu\d+\Z"), "dgl"),
    (lazy_regex(r"(cudf|cuml|cugraph|cucim)-cu\d+\Z"), r"\1"),
    (lazy_regex(r"flash-attention\Z"), "flash-attn"),
    (lazy_regex(r"nvidia-apex\Z"), "apex"),
    (lazy_regex(r"tensorrt-cu\d+\Z"), "tensorrt"),
    (lazy_regex(r"fused-ssim.*\Z"), "fused-ssim"),
    (
        lazy_regex(
            r"cuda-(?:toolkit|runtime|compiler|cudart|nvcc|nvrtc|nvtx|cccl|cupti|libraries|profiler|version|gdb|nsight|nvml"
            r"|nvprof|nvvp|nvprune|nvdisasm|cuobjdump|cuxxfilt|driver|documentation|demo-suite|memcheck|sanitizer|opencl"
            r"|tools|visual-tools|command-line-tools|crt|minimal-build|samples|thrust|gpu-library-advisor)[a-z-]*\Z"
        ),
        "cudatoolkit",
    ),
    (lazy_regex(r"lib(?:cublas|cufft|curand|cusolver|cusparse|npp|nvjpeg)(?:-dev)?\Z"), "cudatoolkit"),
)
"""Names that carry a CUDA version, and names of repositories, with the distribution that they are."""

LIBRARY_WHEEL = lazy_regex(
    r"nvidia-(?:[a-z0-9-]+-cu\d+|cublas|cuda-[a-z]+|cufft|cufile|curand|cusolver|cusparse|nvjitlink|nvtx)\Z"
)
"""A wheel of CUDA's own libraries, such as `nvidia-cublas-cu12`, which torch's CUDA build needs."""


class CudaRequirement(Rule):
    """Finds requirements that need CUDA."""

    CODE = "DEP101"
    EFFECT = Effect.RAISES
    ANSWERS = (say("install the CPU build of torch with the plugin"),)
    WORDS: ClassVar[tuple[str, ...]] = ("",)
    KINDS: ClassVar[tuple[Kind, ...]] = LIST_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each requirement that does not simply work on the target."""
        parts: list[Requirement] = []
        others: list[Requirement] = []
        for requirement in requirements_of(context):
            (parts if _is_part_of_build(requirement, context.kind) else others).append(requirement)
        if len({part.name for part in parts if LIBRARY_WHEEL.match(part.name)}) > 1:
            came_along = [
                requirement
                for requirement in others
                if requirement.name == "triton" and requirement.specifier.startswith("==")
            ]
            others = [requirement for requirement in others if requirement not in came_along]
            parts = sorted([*parts, *came_along], key=lambda part: part.start)
        yield from self._parts(context, parts)
        for requirement in others:
            name = known_package(requirement.name, context.kind)
            if name is not None and name != "torch" and cuda.packages()[name].kind not in _UNJUDGED:
                yield from self._report(context, requirement, name)

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

    def _report(self, context: Context, requirement: Requirement, name: str) -> Iterable[Finding]:
        row = context.target.row("packages", name)
        if row.status == "same":
            return
        span = (requirement.start, requirement.end)
        message = advice(context.target.title, requirement.name, row)
        if name in ATTENTION_PACKAGES:
            message = noted(message, plain_attention_speed(context.target))
        renamed = row.status in ("renamed", "equivalent") and _INSTALLABLE.match(row.use)
        if renamed and not requirement.specifier:
            reported = self.finding(context, span, message, Grade.UNSAFE, [Edit(*span, row.use)])
        elif row.status in ("partial", "unknown"):
            reported = self.finding(context, span, message, Grade.NOTE, effect=Effect.UNKNOWN)
        else:
            reported = self.finding(context, span, message, Grade.MANUAL)
        yield reported._replace(package=name)


def _is_part_of_build(requirement: Requirement, kind: Kind) -> bool:
    """Whether a requirement belongs to the CUDA build of torch and to nothing else."""
    if requirement.name == "pytorch-mutex":  # conda's switch between the builds of torch
        return "cuda" in requirement.specifier
    return LIBRARY_WHEEL.match(requirement.name) is not None or known_package(requirement.name, kind) in _BUILD


def known_package(name: str, kind: Kind) -> str | None:
    """Return the distribution of `cuda/packages.toml` that a normalised name in a kind of file means, or None."""
    if name in cuda.packages():
        return name
    if name == "cuda" and kind is Kind.CONDA:
        return "cudatoolkit"  # elsewhere the word is a device more often than a package
    for pattern, replacement in _FAMILIES:
        match = pattern.match(name)
        if match is not None:
            return match.expand(replacement)
    return None
