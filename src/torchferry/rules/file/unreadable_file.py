"""A file that cannot be read.

Its permissions forbid it, it vanished meanwhile, or the disk failed. Nothing is known about what is in it; the rest of
the project was examined.

Why: CUDA in the file would stay, and nobody would know.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class UnreadableFile(FileProblem):
    """Reports a file that cannot be read."""

    CODE = "FIL101"
    EFFECT = Effect.UNKNOWN
    LEAVES_VERDICT_OPEN = True
