"""The scalars of a YAML text with their keys and places, read line by line and never refused.

`key: value`, list items, flow collections, quoted scalars, comments and several documents are understood; block scalars
and scalars of several lines are passed over, for they are texts. What is not understood is left alone. So anchors,
duplicate keys and templates survive, as nothing but a value's own characters is ever touched.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from torchferry.core.budget import DEEPEST, refuse_nesting
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.setting import Setting

_DOCUMENT = lazy_regex(r"(?:---|\.\.\.)(?=[ \t\r]|\Z)[ \t]*")
_ITEM = lazy_regex(r"[ \t]*-(?=[ \t]|\r?\Z)[ \t]*")
_KEY = lazy_regex(
    r"(?:(?:\"(?P<double>(?:[^\"\\]|\\.)*)\"|'(?P<single>(?:[^']|'')*)')[ \t]*"
    r"|(?P<plain>(?:[^\s\"'#{}\[\],&*!|>%@`:-]|-(?=[^\s:]))(?:[^:#]|:(?=\S)|(?<=\S)#)*))"
    r":(?=[ \t]|\r?\Z)"
)
_PROPERTY = lazy_regex(r"[ \t]*(?:[&!][^\s,\]}]*(?:[ \t]+|(?=\r?\Z)))*")
_BLOCK = lazy_regex(r"[|>][-+0-9]*[ \t]*(?:#.*)?\r?\Z")
_BEHIND = lazy_regex(r"[ \t]*(?:#.*)?\r?\Z")
_PLAIN = lazy_regex(r"(?:[^#\s]|(?<=\S)#|[ \t\r]+(?!#)(?=\S))*")
_QUOTED = {'"': lazy_regex(r'"((?:[^"\\]|\\.)*)"', re.DOTALL), "'": lazy_regex(r"'((?:[^']|'')*)'")}
_FLOW_PLAIN = lazy_regex(
    r"(?:[^\s,\[\]{}#:]|:(?![\s,\[\]{}]|\Z)|(?<=\S)#|[ \t]+(?=[^\s,\[\]{}#:]|:(?![\s,\[\]{}]|\Z)))+"
)
_FLOW_COLON = lazy_regex(r"[ \t]*:")
_FLOW_SKIP = lazy_regex(r"[\s:]+|\#[^\n]*|[&!][^\s,\[\]{}]*")


def yaml_settings(text: str) -> Iterator[Setting]:
    """Yield the scalars of one line, in order of place."""
    yield from _YamlReader(text).read()


class _YamlReader:
    """Reads one text; `_at` is the start of the line to come."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._levels: list[tuple[int, str]] = []  # column and key of the mappings that are open
        self._unclosed = ""  # kinds of quote that are known not to be closed before the end

    def read(self) -> Iterator[Setting]:
        text = self._text
        while self._at < len(text):
            start = self._at
            end = self._line_end(start)
            self._at = end + 1
            line = text[start:end]
            document = _DOCUMENT.match(line)
            if document is not None:
                self._levels = []
            stripped = line.lstrip(" \t\r")
            if not stripped or stripped.startswith("#") or line.startswith(("%", "...")):
                continue
            yield from self._line(line, start, document.end() if document is not None else 0)

    def _line(self, line: str, start: int, column: int) -> Iterator[Setting]:
        """Yield the scalars of one line, and of those behind it that belong to its value."""
        indent = column + len(line) - column - len(line[column:].lstrip(" \t"))
        column = indent
        dash = -1
        while (item := _ITEM.match(line, column)) is not None:
            dash = line.index("-", column)
            column = item.end()
        key = _KEY.match(line, column)
        levels = self._levels
        if key is not None:
            while levels and levels[-1][0] >= column:
                levels.pop()
            name = next(part for part in key.groups() if part is not None)
            levels.append((column, name.strip()))
            outer = column
            column = key.end()
        else:
            # an item of a list may stand as far left as the key that it belongs to
            keep = indent if dash >= 0 else indent - 1
            while levels and levels[-1][0] > keep:
                levels.pop()
            outer = dash if dash >= 0 else levels[-1][0] if levels else -1
        properties = _PROPERTY.match(line, column)
        column = properties.end() if properties is not None else column
        path = tuple(name for _, name in levels)
        char = line[column : column + 1]
        if _BLOCK.match(line, column) is not None:
            self._pass_over(outer, texts=True)
        elif char in ("{", "["):
            behind = yield from self._flow(start + column, path)
            self._at = max(self._at, self._line_end(behind) + 1)
        elif char in ('"', "'"):
            yield from self._quoted(start + column, outer, path)
        elif char and char not in "*#\r":
            plain = _PLAIN.match(line, column)
            value = plain.group().rstrip() if plain is not None else ""
            if not self._pass_over(outer, texts=False):
                yield Setting(path, value, start + column, start + column + len(value))

    def _quoted(self, start: int, outer: int, path: tuple[str, ...]) -> Iterator[Setting]:
        match = self._match_quoted(start)
        if match is None:
            return
        line_end = self._line_end(start)
        if match.end() <= line_end:
            if _BEHIND.match(self._text[match.end() : line_end]) is not None:
                yield Setting(path, match.group(1), *match.span(1))
            return
        behind = line_end + 1
        while behind < match.end():
            line_end = self._line_end(behind)
            line = self._text[behind:line_end]
            if line.strip() and _indent(line) <= outer:
                return  # the quote was no quote
            behind = line_end + 1
        self._at = behind

    def _match_quoted(self, start: int) -> re.Match[str] | None:
        quote = self._text[start]
        match = None if quote in self._unclosed else _QUOTED[quote].match(self._text, start)
        if match is None and quote not in self._unclosed:
            self._unclosed += quote  # so that no later quote looks for its end again
        return match

    def _pass_over(self, outer: int, *, texts: bool) -> bool:
        """Pass over the lines that continue a scalar whose parent is at column `outer`; say whether any do.

        `texts` is for block scalars, which end at the first line that is not indented; a plain scalar also ends at a
        comment and, so that damaged files are read, at a line that has a key.
        """
        at = self._at
        passed = False
        while at < len(self._text):
            end = self._line_end(at)
            line = self._text[at:end]
            if line.strip():
                indent = _indent(line)
                if indent <= outer or _DOCUMENT.match(line) is not None:
                    break
                if not texts and (line[indent] == "#" or _KEY.match(line, indent) is not None):
                    break
                passed = True
                self._at = end + 1
            elif not texts and not passed:
                break
            at = end + 1
        return passed

    def _flow(self, at: int, path: tuple[str, ...]) -> Generator[Setting, None, int]:
        """Yield the scalars of a flow collection; return the offset behind it."""
        text = self._text
        keys: list[str] = []  # of the collections that are open: the key whose value is read, or nothing in a list
        while at < len(text):
            char = text[at]
            if char in "{[":
                keys.append("")
                if len(keys) > DEEPEST:
                    refuse_nesting()
                    return len(text)
                at += 1
            elif char in "}]":
                keys.pop()
                at += 1
                if not keys:
                    return at
            elif char == ",":
                keys[-1] = ""
                at += 1
            elif (skipped := _FLOW_SKIP.match(text, at)) is not None:
                at = skipped.end()
            else:
                quoted = char in "\"'"
                match = self._match_quoted(at) if quoted else _FLOW_PLAIN.match(text, at)
                if match is None:
                    at += 1
                    continue
                at = match.end()
                start, end = match.span(1 if quoted else 0)
                value = text[start:end]
                colon = _FLOW_COLON.match(text, at)
                if colon is not None:
                    keys[-1] = value
                    at = colon.end()
                elif "\n" not in value and not value.startswith("*"):
                    yield Setting((*path, *(key for key in keys if key)), value, start, end)
        return at

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
