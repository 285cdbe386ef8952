"""A file that must change but may not be written.

Its write permission is off, so somebody may have protected it on purpose. It is left alone and reported; everything
else is migrated. Add write permission and run the migration again, or exclude it.

Why: The file still uses CUDA after the migration.

References:
- page migrating
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class WriteProtectedFile(FileProblem):
    """Reports a file that is write-protected."""

    CODE = "FIL107"
    EFFECT = Effect.UNKNOWN
