"""An environment variable that circulates in guides and scripts, and that nobody reads.

`NPU_FALLBACK_MODE=1`, `NPU_VISIBLE_DEVICES=0`, `CUDA_VISIBLE_DEVICE=0`: they are copied from program to program, and
have no effect. The finding says what works instead. Nothing is rewritten: what the variable was believed to do may not
be what the program needs. A variable that is believed to choose cards is a decision, the others are notes.

Why: The program does not do what its author believes: it uses every card, or keeps the default.

References:
- table folk_variables
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import noted, say
from torchferry.rules.base import Context, Options, PythonContext, Rule
from torchferry.rules.commands import JOB_KINDS
from torchferry.rules.texts import is_text
from torchferry.source.flow.syntax import last_name
from torchferry.source.kinds import Kind

_TABLE = "folk_variables"

_SET = r"(?<![\w${])(?P<name>NAMES)(?=[ \t]*(?:[?:+]?=|:|$)|[ \t]+\d)"
"""A name that is given a value, or handed on: `NAME=1`, `NAME: 1`, `export NAME`, `ENV NAME 1`."""


class FolkVariable(Rule):
    """Finds environment variables that are believed to do something."""

    CODE = "ENV103"
    EFFECT = Effect.NOTHING
    KINDS = (Kind.PYTHON, *JOB_KINDS)

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """The variables of the target's table."""
        return tuple(row.name for row in target.backend.table(_TABLE))

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each name that is a string of its own, or a keyword of `dict` and `update`."""
        names = self.words(context.target, context.options)
        for node in context.file.strings:
            if node.value in names and not is_text(context, node):
                yield self._reported(context, context.file.span(node), str(node.value))
        for name in names:
            for keyword in context.file.keywords.get(name, ()):
                if last_name(getattr(context.file.parents.get(keyword), "func", keyword)) in ("dict", "update"):
                    start, _ = context.file.span(keyword)
                    yield self._reported(context, (start, start + len(name)), name)

    def check(self, context: Context) -> Iterable[Finding]:
        """Yield a finding for each place that gives such a variable a value."""
        listed = "|".join(map(re.escape, self.words(context.target, context.options)))
        for match in re.finditer(_SET.replace("NAMES", listed), context.text, re.MULTILINE):
            start, end = match.span("name")
            if "#" not in context.text[context.text.rfind("\n", 0, start) + 1 : start]:
                yield self._reported(context, (start, end), match["name"])

    def _reported(self, context: Context, span: tuple[int, int], name: str) -> Finding:
        row = context.target.row(_TABLE, name)
        message = noted(say("nothing reads `{name}`: it has no effect", name=name), row.remark)
        return self.finding(context, span, message, Grade.MANUAL if row.extra.get("manual") else Grade.NOTE)
