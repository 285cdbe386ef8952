"""A link that leads out of the project, or another place that was not looked into.

Links are not followed: what they point to inside the project is examined in its own place, and what lies outside is not
the project's to change. Scan the other folder by itself if it belongs to the migration. A folder that cannot be read
was not looked into either, nor were files without a suffix that cannot be read, or of which there are more than a
hundred thousand: each may be a script. Where they are data, leave them out with `--exclude`.

Why: Code there may use CUDA, and the migration does not change it.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class LinkOutOfProject(FileProblem):
    """Reports a link that is not followed."""

    CODE = "FIL105"
    EFFECT = Effect.UNKNOWN
