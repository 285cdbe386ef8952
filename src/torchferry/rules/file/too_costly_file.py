"""A file that would take more than its budget of steps.

What is counted is the same on every machine: steps in following values and keys, and levels of nesting. No source that
people write comes near the limits; generated files and files that are made to stop a reader do. Nothing else of the
file is reported. Divide the file or leave it out, and look at it by hand.

A file whose process hangs for minutes or is killed, as where memory is short, is reported the same way.

Why: CUDA in the file would stay, and nobody would know: the project is not called ready.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class TooCostlyFile(FileProblem):
    """Reports a file that was not examined to its end."""

    CODE = "FIL108"
    EFFECT = Effect.UNKNOWN
    LEAVES_VERDICT_OPEN = True
