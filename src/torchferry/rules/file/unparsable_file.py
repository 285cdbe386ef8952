"""A Python file that this Python cannot parse.

It is Python 2, holds merge-conflict markers or NUL bytes, is nested too deeply, or uses syntax newer than the Python
that runs torchferry. It is left alone: what is wrong is said with the line, and the file is examined once it parses.

Why: CUDA in the file stays, because a file that does not parse cannot be rewritten safely.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.core.messages import say
from torchferry.rules.file.problems import FileProblem


class UnparsableFile(FileProblem):
    """Reports a Python file that cannot be parsed."""

    CODE = "FIL103"
    EFFECT = Effect.UNKNOWN
    ANSWERS = (say("make it parse"), say("leave it out (`--exclude`)"))
