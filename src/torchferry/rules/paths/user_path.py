"""A path that the user's `[tool.torchferry.paths]` table maps to another.

Data sets, checkpoints and results lie elsewhere on the target's machine. The table says where::

    [tool.torchferry.paths]
    "/kaggle/input/" = "/workspace/datasets/"
    "/kaggle/working/" = "/workspace/outputs/"

A string (or, in other kinds of file, a word) that begins with a key gets the value in its place; the longest key wins.
A value may begin with its key (`"/data/" = "/data/new/"`): what has the value already stays. A value that the table
would map again is an error, since a second run would change it. torchferry's own settings are never rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Edit, Finding, Grade
from torchferry.core.messages import say
from torchferry.core.pathmap import PathMap
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.source.kinds import Kind


class UserPath(Rule):
    """Finds paths that the user's table maps."""

    CODE = "PTH101"
    CHINESE = """您的路径表中的路径。

数据、权重与输出的路径随机器而变。`torchferry.toml` 的 `[paths]` 把旧前缀映射到新前缀；只替换完整的路径部分。
新前缀可以包含旧前缀（`"/data/" = "/data/new/"`）：已是新路径的保持不变。
若新路径会被该表再次映射，则报错，因为再次运行会继续改动它。
torchferry 自己的设置从不改写。
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
        mapping = PathMap(context.options.paths)
        for node in context.file.strings:
            if not isinstance(node.value, str) or not any(old in node.value for old in context.options.paths):
                continue
            start, end = context.file.literal_span(node)
            yield from self._within(context, mapping, start, end)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each mapped path in a file of another kind."""
        return self._within(context, PathMap(context.options.paths), 0, len(context.text))

    def _within(self, context: Context, mapping: PathMap, start: int, end: int) -> Iterable[Finding]:
        for found in mapping.replacements(context.text, start, end):
            message = say("path `{old}` is `{new}` by your table", old=found.old, new=found.new)
            span = (found.start, found.end)
            yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, found.new)])
