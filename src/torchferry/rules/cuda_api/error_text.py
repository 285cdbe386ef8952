"""The text of an error of CUDA that a program looks for: `if "CUDA out of memory" in str(error)`.

On the target an error has another text, so the code that was to deal with it never runs. Where it is known how the
target says that its memory is exhausted, that is looked for. Otherwise ask for what both say, such as `out of memory`,
or catch the class of the error.

Why: What deals with the error on CUDA is passed over, and the error ends the program.

References:
- page migrating
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from torchferry.core.finding import Edit, Effect, Finding, Grade
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.rules.base import PythonContext, Rule
from torchferry.rules.device.strings import literal_span, word_edits
from torchferry.rules.exemptions import exemption_reason
from torchferry.rules.family import UnderRedirect
from torchferry.rules.mentions import speaks_of_cuda
from torchferry.source.flow.syntax import STRING_METHODS, last_name, string_value
from torchferry.source.nodes import nodes_in

_EXHAUSTED = "CUDA out of memory"
_ERROR = lazy_regex(
    r"cuda out of memory|cuda error|cuda runtime error|cuda failure|cuda driver error|cublas_status|cudnn_status"
    r"|cufft_|cublas error|cudnn error|nccl error|out of memory on cuda",
    re.IGNORECASE,
)
_NAMES = frozenset({"CUDA", "Cuda", "cuda"})
_LONGEST = 200
_MATCHING = frozenset({"search", "match", "fullmatch", "compile", "findall", "raises", "assertRaisesRegex"})


class ErrorText(Rule):
    """Finds texts of errors of CUDA that something is compared with."""

    CODE = "CUD115"
    EFFECT = Effect.WRONG
    ANSWERS = (say("look for words that both errors have"),)
    UNDER_REDIRECT = UnderRedirect.ALL
    RUNS_ON_DEVICE = False
    WORDS = (
        "out of memory", "CUDA error", "cuda error", "cuda runtime error", "CUDA runtime error", "CUBLAS_STATUS",
        "CUDNN_STATUS", "cudnn_status", "cublas_status", "cuDNN error", "CUDNN error", "NCCL error", "CUDA driver",
        *(f"{quote}{name}{quote} in" for name in ("CUDA", "Cuda", "cuda") for quote in "\"'"),
    )  # fmt: skip

    def check_python(self, context: PythonContext) -> Iterable[Finding]:
        """Yield a finding for each text."""
        for node in context.file.strings:
            value = node.value
            if not isinstance(value, str) or len(value) > _LONGEST:
                continue
            if not _ERROR.search(value) and not (value.strip() in _NAMES and _asks_an_error(context, node)):
                continue
            if _is_compared(context, node) and not _is_said_beside(context, node, value):
                if exemption_reason(context, node) is None:
                    yield self._report(context, node, value)

    def _report(self, context: PythonContext, node: ast.Constant, value: str) -> Finding:
        span = literal_span(context, node)
        own = context.target.backend.OUT_OF_MEMORY_TEXT
        word, written = (_EXHAUSTED, own) if _EXHAUSTED in value else (_EXHAUSTED.lower(), str(own).lower())
        if not isinstance(own, str) or word not in value:
            message = say(
                "compares the text of a CUDA error, which may be another on {target}: look for words that"
                " both have, such as `out of memory`, or catch the class of the error",
                target=context.target.title,
            )
            return self.finding(context, span, message, Grade.MANUAL)
        message = say(
            "compares the text of a CUDA error; on {target} it is `{text}`",
            target=context.target.title,
            text=written,
        )
        edits: list[Edit] = []
        if not context.target.module:
            try:
                edits = word_edits(context, node, word, str(written))
            except ValueError:
                edits = []
        is_whole = value.strip(" .:") == word
        grade = Grade.MANUAL if not edits else Grade.SAFE if is_whole else Grade.UNSAFE
        return self.finding(context, span, message, grade, edits)


def _is_compared(context: PythonContext, node: ast.expr) -> bool:
    """Whether a text is looked for in another one, also as one of several."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    is_item = False
    while isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        child, parent, is_item = parent, context.file.parents.get(parent), True
    if isinstance(parent, ast.keyword):
        return parent.arg in ("match", "pattern", "expected_regex")
    if isinstance(parent, ast.Call):
        method = last_name(parent.func)
        return child in parent.args and (method in STRING_METHODS or method in _MATCHING)
    if isinstance(parent, (ast.Compare, ast.comprehension)):
        return True
    if isinstance(parent, (ast.For, ast.AsyncFor)):
        return child is parent.iter
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    uses = context.names.uses_of(parent.targets[0])
    holders = (context.file.parents.get(use) for use in uses)
    return any(
        isinstance(holder, (ast.Compare, ast.comprehension)) or (is_item and isinstance(holder, ast.For))
        for holder in holders
    )


def _asks_an_error(context: PythonContext, node: ast.expr) -> bool:
    """Whether a text is looked for in that of an exception which is caught: `"CUDA" in str(error)`."""
    compare = context.file.parents.get(node)
    if not isinstance(compare, ast.Compare) or compare.left is not node or not isinstance(compare.ops[0], ast.In):
        return False
    names = {each.id for each in ast.walk(compare.comparators[0]) if isinstance(each, ast.Name)}
    around = context.file.parents.get(compare)
    while around is not None and not (isinstance(around, ast.ExceptHandler) and around.name in names):
        around = context.file.parents.get(around)
    return around is not None


def _is_said_beside(context: PythonContext, node: ast.expr, value: str) -> bool:
    """Whether a part of a text that every device says is looked for beside it: `"out of memory" in message`."""
    child: ast.AST = node
    parent = context.file.parents.get(child)
    while isinstance(parent, (ast.List, ast.Tuple, ast.Set, ast.Compare)):
        child, parent = parent, context.file.parents.get(parent)
    around = parent if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.Or) else child
    texts = (string_value(part) for part in nodes_in(around))
    return any(
        text and text.lower() in value.lower() and not speaks_of_cuda(text.encode("utf-8", "replace")) for text in texts
    )
