"""A path that the user's `[tool.torchferry.paths]` table maps to another.

Data sets, checkpoints and results lie elsewhere on the target's machine. The table says where::

    [tool.torchferry.paths]
    "/kaggle/input/" = "/workspace/datasets/"
    "/kaggle/working/" = "/workspace/outputs/"

A string (or, in other kinds of file, a word) that begins with a key gets the value in its place; the longest key wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.source.kinds import Kind


class UserPath(Rule):
    """Finds paths that the user's table maps."""

    CODE = "PTH101"
    CHINESE = """您的路径表中的路径。

数据、权重与输出的路径随机器而变。`torchferry.toml` 的 `[paths]` 把旧前缀映射到新前缀；只替换完整的路径部分。
"""
    KINDS = (
        Kind.PYTHON,
        Kind.SHELL,
        Kind.MAKEFILE,
        Kind.YAML,
        Kind.JSON,
        Kind.TOML,
        Kind.DOCKERFILE,
        Kind.COMPOSE,
    )

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The paths of the user's table."""
        return tuple(options.paths)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each mapped path in a string."""
        for node in context.file.strings:
            if not isinstance(node.value, str) or not any(old in node.value for old in context.options.paths):
                continue
            start, end = context.file.literal_span(node)
            yield from self._within(context, start, end)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each mapped path in a file of another kind."""
        return self._within(context, 0, len(context.text))

    def _within(self, context: Context, start: int, end: int) -> Iterable[Finding]:
        if not context.options.paths:
            return
        keys = sorted(context.options.paths, key=len, reverse=True)
        pattern = re.compile(r"(?<![\w./-])(?:" + "|".join(map(re.escape, keys)) + ")")
        for match in pattern.finditer(context.text, start, end):
            old = match.group()
            if not old.endswith(("/", "\\")) and re.match(r"[\w.-]", context.text[match.end() : match.end() + 1]):
                continue  # /data must not match /database
            new = context.options.paths[old]
            message = say("path `{old}` is `{new}` by your table", old=old, new=new)
            yield self.finding(context, match.span(), message, Grade.SAFE, [Edit(*match.span(), new)])
