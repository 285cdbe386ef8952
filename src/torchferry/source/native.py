"""C, C++, CUDA, CMake and other build files, read lexically: what is a comment, and what only a switch compiles.

Nothing is parsed and nothing is refused: a file that no compiler takes is read all the same. Such files are never
rewritten, so bytes that are no UTF-8 are of no consequence.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.kinds import Kind

BUILD_KINDS = (Kind.MESON, Kind.BAZEL, Kind.MANIFEST)
"""Kinds of build file beside CMake's."""

NATIVE_KINDS = (Kind.CPP, Kind.KERNEL, Kind.CMAKE, *BUILD_KINDS)
"""Kinds of file that this module reads."""

_CPP = lazy_regex(
    r"(?P<comment>//(?:[^\\\n]|\\.)*|/\*.*?(?:\*/|\Z))"
    r'|R"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'(?:[^'\\\n]|\\.){1,10}'",
    re.DOTALL,
)
"""Comments, and the strings in which what looks like one is none; nothing is read twice, whatever is left open."""

_CMAKE = lazy_regex(
    r'(?P<comment>#\[(?P<mark>=*)\[.*?(?:\](?P=mark)\]|\Z)|#[^\n]*)|"(?:[^"\\]|\\.)*(?:"|\Z)',
    re.DOTALL,
)

_HASH = lazy_regex(
    r"(?P<comment>#[^\n]*)|'''.*?(?:'''|\Z)|\"\"\".*?(?:\"\"\"|\Z)|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?",
    re.DOTALL,
)
"""The same of files whose comments begin with `#`, and whose strings are Python's."""

_NOT_NEWLINE = lazy_regex(r"[^\n]")

_DIRECTIVE = lazy_regex(
    r"^[ \t]*#[ \t]*(?P<word>if|ifdef|ifndef|elif|else|endif)\b(?P<rest>(?:[^\\\n]|\\.)*)", re.MULTILINE | re.DOTALL
)
_CMAKE_CONDITION = lazy_regex(
    r"^[ \t]*(?P<word>if|elseif|else|endif)[ \t]*\((?P<rest>[^\n]*)", re.MULTILINE | re.IGNORECASE
)

_SWITCH = lazy_regex(r"cuda|gpu|nvcc|nccl|cudnn|tensorrt", re.IGNORECASE)
"""What a switch is named for that decides whether CUDA is compiled."""

_NEGATED = lazy_regex(r"\s*(?:!|NOT\b)", re.IGNORECASE)


def comments(kind: Kind, text: str) -> list[tuple[int, int]]:
    """Return the spans of the comments of a file, in order."""
    pattern = _CMAKE if kind is Kind.CMAKE else _HASH if kind in BUILD_KINDS else _CPP
    return [match.span() for match in pattern.finditer(text) if match["comment"] is not None]


def code_of(kind: Kind, text: str) -> str:
    """Return the text with its comments blanked, so that every offset stays."""
    pieces: list[str] = []
    at = 0
    for start, end in comments(kind, text):
        pieces += (text[at:start], _NOT_NEWLINE.sub(" ", text[start:end]))
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


class OptionalParts:
    """Which parts of a file are compiled only where a switch asks for CUDA: `#ifdef WITH_CUDA`, `if(USE_CUDA)`."""

    def __init__(self, kind: Kind, code: str) -> None:
        self._starts: list[int] = []
        self._inside: list[bool] = []
        for start, inside in _changes(kind, code):
            self._starts.append(start)
            self._inside.append(inside)

    def holds(self, offset: int) -> bool:
        """Whether the code at an offset is optional."""
        index = bisect_right(self._starts, offset) - 1
        return index >= 0 and self._inside[index]


def _changes(kind: Kind, code: str) -> Iterator[tuple[int, bool]]:
    """Yield where optional code begins and ends."""
    pattern = _CMAKE_CONDITION if kind is Kind.CMAKE else _DIRECTIVE
    stack: list[list[bool]] = []  # for each open condition: is the part optional, is the `else` part
    optional = 0  # open conditions whose part is
    for match in pattern.finditer(code):
        word, rest = match["word"].lower(), match["rest"]
        if word in ("if", "ifdef", "ifndef"):
            named = _SWITCH.search(rest) is not None
            negated = word == "ifndef" or _NEGATED.match(rest) is not None
            stack.append([named and not negated, named and negated and word != "ifndef"])
            optional += stack[-1][0]
        elif stack:
            optional -= stack[-1][0]
            if word in ("elif", "elseif"):
                stack[-1][0] = _SWITCH.search(rest) is not None and _NEGATED.match(rest) is None
            elif word == "else":
                stack[-1][0] = stack[-1][1]
            else:
                stack.pop()
            optional += word != "endif" and stack[-1][0]
        yield match.start(), optional > 0
