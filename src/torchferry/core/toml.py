"""Reading TOML on every supported Python: `tomllib`, or `tomli` on 3.10."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOMLDecodeError = tomllib.TOMLDecodeError


def load(path: Path) -> dict[str, Any]:
    """Parse the TOML file at `path`.

    Raises:
        TOMLDecodeError: the file is not TOML.
        OSError: the file cannot be read.
    """
    document: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return document


def loads(text: str) -> dict[str, Any]:
    """Parse TOML text; raises `TOMLDecodeError` where it is not TOML."""
    document: dict[str, Any] = tomllib.loads(text)
    return document
