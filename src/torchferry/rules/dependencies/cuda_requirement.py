"""A requirement that needs CUDA: flash-attn, xformers, apex, bitsandbytes, cupy, TensorRT and the like.

It does not build, or builds and does not run. What is to be done about each on the target is in its table: another
distribution, another way, or nothing. A requirement is never taken out without being asked; a plain change of name is
applied with `--unsafe-fixes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Rule
from torchferry.rules.dependencies.listed import LIST_KINDS, requirements_of
from torchferry.rules.dependencies.packages import LIBRARY_WHEEL, known_package
from torchferry.rules.library.cuda_package import advice
from torchferry.source.kinds import Kind
from torchferry.source.requirements import Requirement

_INSTALLABLE = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")


class CudaRequirement(Rule):
    """Finds requirements that need CUDA."""

    CODE = "DEP101"
    CHINESE = """需要 CUDA 的依赖：flash-attn、xformers、apex、bitsandbytes、cupy、TensorRT 等。

它无法构建，或构建后不能运行。每个软件包在目标平台上如何处理见其表：换一个发行包、换一种做法，或不用。
依赖不会未经询问就被删除；单纯的改名用 `--unsafe-fixes` 应用。
"""
    WORDS: ClassVar[tuple[str, ...]] = ("",)
    KINDS: ClassVar[tuple[Kind, ...]] = LIST_KINDS

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each requirement that does not simply work on the target."""
        for found in requirements_of(context):
            span = (found.start, found.end)
            if LIBRARY_WHEEL.match(found.name):
                message = say(
                    "`{name}` is a library of torch's CUDA build; {target} does not need it, leave it out",
                    name=found.name,
                    target=context.target.title,
                )
                yield self.finding(context, span, message, Grade.MANUAL)
                continue
            name = known_package(found.name, context.kind)
            if name is not None and name != "torch":
                yield from self._report(context, found, name)

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
