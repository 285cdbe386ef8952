"""A backend for each device type: `"cpu:gloo,cuda:nccl"`.

The part for CUDA changes as a whole, device and library; the other parts stay. A process group that is started without
a name has a backend for each device type too, which not every target takes.

Why: The process group has no backend for tensors on the card, so the first collective raises.

References:
- table api
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchferry.backends.target import Target
from torchferry.backends.unknown import UNKNOWN
from torchferry.core.finding import Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.base import Options, PythonContext, Rule, keyword_of
from torchferry.rules.device.strings import asked_when_run, literal_span, word_edits
from torchferry.rules.distributed.own_calls import calls_of_groups
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import Portability, UnderRedirect
from torchferry.rules.texts import is_text
from torchferry.source.lexicon import COMPOSITE_SPELLING

WHOLE = frozenset({"cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo"})
"""The spellings that a portable name means; another one has parts of its own."""

_BEGUN = lazy_regex(r"(?:\A|,)cuda:(?:\Z|[%{])")
"""The device of a part whose backend is filled in."""

_START = "init_process_group"


class CompositeBackend(Rule):
    """Finds composite backends with a part for CUDA."""

    CODE = "DST103"
    EFFECT = Effect.RAISES
    UNDER_REDIRECT = UnderRedirect.NOTHING
    PORTABILITY = Portability.IN_PYTHON
    WORDS = ("cuda:nccl", "cpu:")

    def words(self, target: Target, options: Options) -> tuple[str, ...]:
        """Starts of a process group as well, where the target takes one backend alone."""
        return (*self.WORDS, _START) if target.backend.COMPOSITE_COLLECTIVE is False else self.WORDS

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each."""
        backend = context.target.backend
        if backend.COMPOSITE_COLLECTIVE is False:
            for name, call in calls_of_groups(context):
                if name == _START and _is_unnamed(call) and exemption_reason(context, call) is None:
                    message = one_backend_alone(context.target)
                    yield self.finding(context, context.file.span(call), message, Grade.MANUAL)
        for node in context.file.strings:
            if not isinstance(node.value, str):
                continue
            if not COMPOSITE_SPELLING.match(node.value):
                if self._is_put_together(context, node) and exemption_reason(context, node) is None:
                    yield self._in_parts(context, node)
                continue
            if exemption_reason(context, node) is not None:
                continue
            use = f"{backend.DEVICE_TYPE}:{backend.COLLECTIVE}"
            span = literal_span(context, node)
            if context.target.module:
                yield self._portable(context, node)
                continue
            if backend.COMPOSITE_COLLECTIVE is False:
                yield self.finding(context, span, one_backend_alone(context.target), Grade.MANUAL)
                continue
            whole = re.sub(r"\bcuda:nccl\b", use, node.value)
            message = say("`{found}` is `{use}` on {target}", found=node.value, use=whole, target=context.target.title)
            grade = Grade.SAFE
            if backend.COMPOSITE_COLLECTIVE is UNKNOWN:
                message = say("{message} (whether it is accepted there is UNKNOWN)", message=message)
                grade = Grade.UNSAFE
            yield self.finding(context, span, message, grade, word_edits(context, node, "cuda:nccl", use))

    @staticmethod
    def _is_put_together(context: PythonContext, node: ast.Constant) -> bool:
        """Whether a literal has the device of a backend that stands behind it: `f"cpu:gloo,cuda:{name}"`."""
        if _BEGUN.search(str(node.value)) is None or is_text(context, node):
            return False
        whole = context.file.fstring_of(node)
        pieces = [piece.value for piece in whole.values if isinstance(piece, ast.Constant)] if whole else [node.value]
        return "cpu:" in "".join(map(str, pieces))

    def _in_parts(self, context: PythonContext, node: ast.Constant) -> Finding:
        """Change the device; the backend behind it is another literal, or is named elsewhere."""
        backend, span = context.target.backend, literal_span(context, node)
        if backend.COMPOSITE_COLLECTIVE is False:
            return self.finding(context, span, one_backend_alone(context.target), Grade.MANUAL)
        use = f"{backend.DEVICE_TYPE}:"
        message = say("`{found}` is `{use}` on {target}", found="cuda:", use=use, target=context.target.title)
        is_sure = backend.COMPOSITE_COLLECTIVE is True and not context.target.module
        edits = word_edits(context, node, "cuda:", use) if is_sure else []
        return self.finding(context, span, message, Grade.SAFE if is_sure else Grade.MANUAL, edits)

    def _portable(self, context: PythonContext, node: ast.Constant) -> Finding:
        """Ask for the backend when the program runs; there it is refused where the device takes none."""
        use = f"{context.target.module}.composite_backend()"
        message = say("`{found}` is `{use}` on {target}", found=node.value, use=use, target=context.target.title)
        if node.value not in WHOLE:
            return self.finding(context, literal_span(context, node), message, Grade.MANUAL)
        return asked_when_run(self, context, node, use, message)


def _is_unnamed(call: ast.Call) -> bool:
    """Whether a call that starts the process group evidently names no backend."""
    keyword = keyword_of(call, "backend")
    given = keyword.value if keyword is not None else call.args[0] if call.args else None
    if given is None:
        return not any(each.arg is None for each in call.keywords)
    return isinstance(given, ast.Constant) and given.value is None


def one_backend_alone(target: Target) -> Message:
    """Say that a target takes no backend for each device type."""
    return say(
        "{target} does not support one backend for each device type; use only `{use}`",
        target=target.title,
        use=target.backend.COLLECTIVE,
    )
