"""A path that the user's `[tool.torchferry.paths]` table maps to another.

Data sets, checkpoints and results lie elsewhere on the target's machine. The table says where::

    [tool.torchferry.paths]
    "/kaggle/input/" = "/workspace/datasets/"
    "/kaggle/working/" = "/workspace/outputs/"

A string (or, in other kinds of file, a word) that begins with a key gets the value in its place; the longest key wins.
A value may begin with its key (`"/data/" = "/data/new/"`): what has the value already stays. A value that the table
would map again is an error, since a second run would change it. torchferry's own settings are never rewritten.

Why: The path does not exist on the target's machine, so the program cannot find its data.

References:
- page configuration
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
    KINDS = (Kind.PYTHON, Kind.SHELL, Kind.MAKEFILE, Kind.YAML, Kind.JSON, Kind.TOML, Kind.DOCKERFILE, Kind.COMPOSE)

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
        for replacement in mapping.replacements(context.text, start, end):
            message = say(
                "path `{old}` becomes `{new}` by your `paths` table", old=replacement.old, new=replacement.new
            )
            span = (replacement.start, replacement.end)
            yield self.finding(context, span, message, Grade.SAFE, [Edit(*span, replacement.new)])
