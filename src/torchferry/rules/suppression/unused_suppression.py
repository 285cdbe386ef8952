"""A comment `# torchferry: ignore[...]` that silences nothing.

The code was removed, or the rule finds nothing there on this target. Another target may still need the comment, so it
is only noted.

Why: A suppression that is no longer needed may hide a new finding later.

References:
- page configuration
"""

from __future__ import annotations

from collections.abc import Iterable

from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.messages import say
from torchferry.rules.base import Context, PythonContext, Rule
from torchferry.source.suppress import Suppression


class UnusedSuppression(Rule):
    """Reports a suppressing comment that covers no finding."""

    CODE = "SUP101"
    EFFECT = Effect.NOTHING
    WORDS = ("torchferry: ignore",)

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield nothing: which comments are needed is known once all rules were asked; then `at` is."""
        return ()

    def at(self, context: Context, comment: Suppression) -> Finding:
        """Build the finding for a comment."""
        codes = ", ".join(sorted(comment.codes)) or "everything"
        message = say("`ignore[{codes}]` silences nothing on {target}", codes=codes, target=context.target.title)
        return self.finding(context, (comment.start, comment.end), message, Grade.NOTE)
