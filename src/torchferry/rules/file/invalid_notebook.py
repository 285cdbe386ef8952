"""A notebook that is not JSON, or not the JSON of a notebook.

It is left alone. A notebook that a merge has broken is mended by resolving the conflict; one that was cut off must be
restored.
"""

from __future__ import annotations

from torchferry.rules.file.problems import FileProblem


class InvalidNotebook(FileProblem):
    """Reports a notebook that cannot be read."""

    CODE = "FIL106"
    CHINESE = """不是 JSON、或不是笔记本 JSON 的笔记本文件。

它保持原样。被合并弄坏的笔记本请先解决冲突；被截断的必须恢复。
"""
