"""A file that cannot be read.

Its permissions forbid it, it vanished meanwhile, or the disk failed. Nothing is known about what is in it; the rest of
the project was examined.
"""

from __future__ import annotations

from torchferry.rules.file.problems import FileProblem


class UnreadableFile(FileProblem):
    """Reports a file that cannot be read."""

    CODE = "FIL101"
    CHINESE = """无法读取的文件。

权限不足，或文件在列出后消失。它保持原样，其余照常进行；请查明原因后再运行一次。
"""
