"""A link that leads out of the project.

Links are not followed: what they point to inside the project is examined in its own place, and what lies outside is not
the project's to change. Scan the other folder by itself if it belongs to the migration.
"""

from __future__ import annotations

from torchferry.rules.file.problems import FileProblem


class LinkOutOfProject(FileProblem):
    """Reports a link that is not followed."""

    CODE = "FIL105"
    CHINESE = """指向项目之外的链接。

torchferry 不读也不写项目之外的任何内容。若所指的是项目的一部分，请单独对它运行。
"""
