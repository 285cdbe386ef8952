"""A file whose bytes are not text in the encoding that it should have.

Python reads source as UTF-8 unless a byte-order mark or a coding cookie (`# -*- coding: gbk -*-`) says otherwise. A
file in another encoding without a cookie cannot run under Python 3 at all. It is left alone, byte for byte: convert it
to UTF-8, or add the cookie.
"""

from __future__ import annotations

from torchferry.rules.file.problems import FileProblem


class UndecodableFile(FileProblem):
    """Reports a file that cannot be decoded."""

    CODE = "FIL102"
    CHINESE = """无法解码的文件。

Python 源码按其编码声明或 UTF-8 解码，与 Python 自己一样。不能原样写回的文件不会被改动；请转换为 UTF-8，或写明编码。
"""
