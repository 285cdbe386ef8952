"""JSON text that is valid UTF-8, whatever the names of files are."""

from __future__ import annotations

import json
from typing import Any

from torchferry.core.lazy_regex import lazy_regex

_SURROGATES = lazy_regex("[\ud800-\udfff]")


def json_text(document: dict[str, Any]) -> str:
    """Return an object as JSON text that is valid UTF-8: bytes of a file name that are none are escaped."""
    return as_utf8(json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def as_utf8(text: str) -> str:
    """Return JSON text with the bytes of file names that are no UTF-8 escaped."""
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
