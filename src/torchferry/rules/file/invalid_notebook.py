"""A notebook that is not JSON, or not the JSON of a notebook.

It is left alone. A notebook that a merge has broken is fixed by resolving the conflict; an incomplete one must be
restored.

Why: CUDA in the notebook stays, because the file cannot be read as a notebook.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class InvalidNotebook(FileProblem):
    """Reports a notebook that cannot be read."""

    CODE = "FIL106"
    EFFECT = Effect.UNKNOWN
