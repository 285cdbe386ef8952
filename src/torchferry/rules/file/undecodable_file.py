"""A file whose bytes are not text in the encoding that it should have.

Python reads source as UTF-8 unless a byte-order mark or a coding cookie (`# -*- coding: gbk -*-`) says otherwise. A
file in another encoding without a cookie cannot run under Python 3 at all. It is left alone, byte for byte: convert it
to UTF-8, or add the cookie.

Why: The file cannot be edited without the risk of damaging its text.

References:
- page verdict
"""

from __future__ import annotations

from torchferry.core.finding import Effect
from torchferry.rules.file.problems import FileProblem


class UndecodableFile(FileProblem):
    """Reports a file that cannot be decoded."""

    CODE = "FIL102"
    EFFECT = Effect.UNKNOWN
