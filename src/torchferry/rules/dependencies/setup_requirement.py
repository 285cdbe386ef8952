"""A requirement that needs CUDA, listed in a build script: `setup(install_requires=["flash-attn"])`.

It is installed together with the project, so the installation fails, or it installs a package that cannot run.

Why: Installing the project itself fails on the target.

References:
- table packages
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding
from torchferry.rules.base import PythonContext
from torchferry.rules.dependencies.cuda_requirement import CudaRequirement
from torchferry.source.kinds import Kind


class SetupRequirement(CudaRequirement):
    """Finds requirements that need CUDA in Python."""

    CODE = "DEP105"
    EFFECT = Effect.RAISES
    WORDS = ("_requires", "extras_require", "requirements", "REQUIREMENTS", "dependencies", "install(")
    KINDS = (Kind.PYTHON,)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        return self.check(context)
