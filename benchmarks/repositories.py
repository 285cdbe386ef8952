"""Where the repositories are that benchmarks and real-world runs work on; none of them is part of this project.

`TORCHFERRY_REPOSITORIES` names a folder with one checkout a subfolder, called `owner+name` or `name`.
"""

from __future__ import annotations

import os
from pathlib import Path


def repository(owner: str, name: str) -> Path | None:
    """Return the checkout of a repository, or None when it is not there."""
    folder = os.environ.get("TORCHFERRY_REPOSITORIES", "")
    for candidate in (f"{owner}+{name}", name):
        path = Path(folder) / candidate
        if folder and path.is_dir():
            return path
    return None
