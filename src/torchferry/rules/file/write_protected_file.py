"""A file that must change but may not be written.

Its write permission is off, which says that somebody meant it to stay. It is left alone and reported; everything else
is done. Give it write permission and run the migration again, or exclude it.
"""

from __future__ import annotations

from torchferry.rules.file.problems import FileProblem


class WriteProtectedFile(FileProblem):
    """Reports a file that is write-protected."""

    CODE = "FIL107"
    CHINESE = """只读的文件。

有人有意不让它被修改，因此即使能写也不写。请允许写入后再运行，或用 `--out` 写出副本。
"""
