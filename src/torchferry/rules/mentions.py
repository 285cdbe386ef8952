"""The words of CUDA in a file, each accounted for: rewritten, reported, not resolved, or left as it is and why.

Nothing is silent: a word that no rule reports is a comment, a text, a name of the project's own, or a word of another
library, and the account says how many of each there are and where. What is none of these is reported (CUD113).
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

from torchferry.core.finding import Finding, Location
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import translatable
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Context, PythonContext
from torchferry.source.native import NATIVE_KINDS, comments
from torchferry.source.python import PythonFile

STEMS = ("cuda", "cudnn", "cublas", "cufft", "nccl", "nvidia", "nvml", "nvtx", "nvcc")
"""What speaks of CUDA, wherever it stands and in whatever case."""

_WORD = lazy_regex("|".join(STEMS), re.IGNORECASE)

_IDENTIFIER = lazy_regex(r"[\w]+")


class MentionKind(str, Enum):
    """Why a word of CUDA stays as it is without a finding."""

    COMMENT = translatable("comments")
    DOCUMENTATION = translatable("docstrings")
    TEXT = translatable("strings that are not devices")
    NAME = translatable("names of the project or of other libraries")
    NATIVE = translatable("C, C++, CUDA and CMake code")
    OTHER = translatable("other files")


class CudaMention(NamedTuple):
    """One word of CUDA that no finding speaks of.

    Attributes:
        location: Where it is.
        word: The identifier or word that it is part of.
        kind: What it is part of, and so why it stays.
    """

    location: Location
    word: str
    kind: MentionKind


class WordAccount(NamedTuple):
    """What becomes of the words of CUDA in a file.

    Attributes:
        rewritten: How many words a fix changes.
        reported: How many others findings speak of: decisions and notes.
        unresolved: How many of those nobody could resolve.
        staying: The words that stay as they are.
    """

    rewritten: int = 0
    reported: int = 0
    unresolved: int = 0
    staying: tuple[CudaMention, ...] = ()

    @classmethod
    def together(cls, accounts: Sequence[WordAccount]) -> WordAccount:
        """Return one account of several files."""
        return cls(
            sum(account.rewritten for account in accounts),
            sum(account.reported for account in accounts),
            sum(account.unresolved for account in accounts),
            tuple(mention for account in accounts for mention in account.staying),
        )

    @property
    def total(self) -> int:
        """How many words there are."""
        return self.rewritten + self.reported + len(self.staying)


def account_of(context: Context, findings: Sequence[Finding], unresolved: Callable[[str], bool]) -> WordAccount:
    """Return what becomes of the words of CUDA in a file.

    Args:
        context: The file.
        findings: What was found in it.
        unresolved: Whether a rule, by its code, speaks of what nobody could resolve.
    """
    text = context.text
    fixed = _Spans(_finding_spans(context, (finding for finding in findings if finding.edits)))
    open_ones = _Spans(_finding_spans(context, (finding for finding in findings if unresolved(finding.code))))
    covered = _Spans(_finding_spans(context, findings))
    counts: Counter[str] = Counter()
    staying: list[CudaMention] = []
    parts: _PythonParts | _NativeParts | None = None
    start = end = last = -1
    for at, behind in _places(text):
        if at >= end:
            start, end = _word_around(text, at, behind)
        if start <= last:
            continue
        last = start
        if fixed.holds(at):
            counts["rewritten"] += 1
        elif covered.holds(at):
            counts["reported"] += 1
            counts["unresolved"] += open_ones.holds(at)
        else:
            if parts is None and isinstance(context, PythonContext):  # in most files every word is covered
                parts = _PythonParts(context)
            elif parts is None and context.kind in NATIVE_KINDS:
                parts = _NativeParts(context)
            kind = MentionKind.OTHER if parts is None else parts.kind(at)
            staying.append(CudaMention(context.location(start, end), text[start:end], kind))
    return WordAccount(counts["rewritten"], counts["reported"], counts["unresolved"], tuple(staying))


def speaks_of_cuda(data: bytes) -> bool:
    """Whether a file holds one of the words at all."""
    lowered = data.lower()
    return any(stem.encode() in lowered for stem in STEMS)


def _places(text: str) -> list[tuple[int, int]]:
    """Return where the words stand; nine searches in C are faster than one search without regard to case."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters change their length
        return [match.span() for match in _WORD.finditer(text)]
    spans = []
    for stem in STEMS:
        at = lowered.find(stem)
        while at >= 0:
            spans.append((at, at + len(stem)))
            at = lowered.find(stem, at + 1)
    return sorted(spans)


def _word_around(text: str, start: int, end: int) -> tuple[int, int]:
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    identifier = _IDENTIFIER.match(text, start)
    return start, max(end, identifier.end() if identifier else end)


def _finding_spans(context: Context, findings: Iterable[Finding]) -> Iterator[tuple[int, int]]:
    """Yield what the findings speak of, and what they would rewrite."""
    for finding in findings:
        yield context.source.span(finding.location)
        for edit in finding.edits:
            yield edit.start, edit.end


class _Spans:
    """Spans of offsets, asked whether they hold one."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def holds(self, offset: int) -> bool:
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and offset < self._ends[index]


class _NativeParts:
    """Tells comments of C, C++ and CMake from code."""

    def __init__(self, context: Context) -> None:
        self._comments = _Spans(comments(context.kind, context.text))

    def kind(self, offset: int) -> MentionKind:
        return MentionKind.COMMENT if self._comments.holds(offset) else MentionKind.NATIVE


class _PythonParts:
    """Says what part of a Python file an offset lies in."""

    def __init__(self, context: PythonContext) -> None:
        file = context.file
        self._text = context.text
        self._source = context.source
        documentation, texts = _string_spans(file)
        self._documentation = _Spans(documentation)
        self._texts = _Spans(texts)
        self._comments = _Spans(self._comment_spans())

    def kind(self, offset: int) -> MentionKind:
        if self._documentation.holds(offset):
            return MentionKind.DOCUMENTATION
        if self._texts.holds(offset):
            return MentionKind.TEXT
        return MentionKind.COMMENT if self._comments.holds(offset) else MentionKind.NAME

    def _comment_spans(self) -> Iterator[tuple[int, int]]:
        starts = self._source.starts
        at = self._text.find("#")
        while at >= 0:
            line, _ = self._source.position(at)
            end = starts[line] if line < len(starts) else len(self._text)
            is_comment = not self._documentation.holds(at) and not self._texts.holds(at)
            if is_comment:
                yield at, end
            at = self._text.find("#", end if is_comment else at + 1)


def _string_spans(file: PythonFile) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the spans of strings that are documentation and of those that are not; f-strings whole."""
    documentation: list[tuple[int, int]] = []
    texts: list[tuple[int, int]] = []
    offset = file.source.offset
    seen: set[ast.AST] = set()
    for node in file.strings:
        whole: ast.AST = file.fstring_of(node) or node
        if whole in seen:
            continue
        seen.add(whole)
        span = (
            offset(whole.lineno, whole.col_offset),  # type: ignore[attr-defined]
            offset(whole.end_lineno, whole.end_col_offset),  # type: ignore[attr-defined]
        )
        (documentation if isinstance(file.parents.get(whole), ast.Expr) else texts).append(span)
    return documentation, texts
