"""A package that needs CUDA, installed by a command: `pip install flash-attn`, `conda install pytorch-cuda`.

The build fails, or succeeds and the package does not run. The target's table says what to do about each package.

Why: The command fails and stops the script, or it installs a package that does not run.

References:
- table packages
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.commands import JOB_KINDS
from torchferry.rules.dependencies.cuda_requirement import CudaRequirement


class InstallCommand(CudaRequirement):
    """Finds packages that need CUDA in commands of pip and conda."""

    CODE = "DEP104"
    EFFECT = Effect.RAISES
    WORDS = ("install", " add ", "create")
    KINDS = JOB_KINDS
