"""A file larger than the limit.

Files above `max-file-size` (5 MB unless the configuration says otherwise) are data rather than source, and parsing one
takes memory hundreds of times its size. It holds a word that means CUDA, so look at it by hand, or raise the limit.

Why: CUDA in the file stays until somebody has checked it.

References:
- page configuration
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class OversizedFile(FileProblem):
    """Reports a file that is too large."""

    CODE = "FIL104"
    EFFECT = Effect.UNKNOWN
