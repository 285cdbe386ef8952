"""The strings of a TOML text with their keys and places, without building the document.

No text is refused: what is not TOML is left alone, as are strings of several lines and whatever is no string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from torchferry.core.budget import DEEPEST, refuse_nesting
from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.setting import Setting

_TOKEN = lazy_regex(
    r"(?P<space>[ \t\r]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<long>\"\"\"|''')"
    r"|\"(?P<basic>(?:[^\"\\\n]|\\[^\n])*)\""
    r"|'(?P<literal>[^'\n]*)'"
    r"|(?P<bare>[^\s#\"'\[\]{},=]+)"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_LONG = {
    '"""': lazy_regex(r'((?:[^\\]|\\.)*?)"""(?!"(?!"))', re.DOTALL),
    "'''": lazy_regex(r"(.*?)'''(?!'(?!'))", re.DOTALL),
}
_HEADER = lazy_regex(r"\[{1,2}(?P<name>(?:\"[^\"\n]*\"|'[^'\n]*'|[^\[\]\"'\n#])+)\]")
_PART = lazy_regex(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s.\"']+)")


class _OpenTable:
    """A table, inline table or array that is being read."""

    __slots__ = ("is_array", "key", "prefix", "reads_value")

    def __init__(self, prefix: tuple[str, ...], is_array: bool) -> None:
        self.prefix = prefix
        self.is_array = is_array
        self.key: list[str] = []
        self.reads_value = is_array

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.prefix, *self.key)

    def next(self) -> None:
        """Get ready for the next key, or for the next item of an array."""
        self.key = []
        self.reads_value = self.is_array


def toml_settings(text: str) -> Iterator[Setting]:
    """Yield the strings of one line, in order of place; those in arrays and inline tables too."""
    levels = [_OpenTable((), False)]
    at = 0
    while (match := _TOKEN.match(text, at)) is not None:
        level = levels[-1]
        at = match.end()
        kind = match.lastgroup
        if kind == "newline" and len(levels) == 1:
            level.next()
        elif kind in ("basic", "literal"):
            if level.reads_value:
                yield Setting(level.path, match[kind], match.start(kind), match.end(kind))
            else:
                level.key.append(match[kind])
        elif kind == "long":
            closing = _LONG[match["long"]].match(text, at)
            if closing is None:
                return  # the rest of the file is in a string that never ends
            if level.reads_value and "\n" not in closing.group(1):
                yield Setting(level.path, closing.group(1), at, closing.end(1))
            at = closing.end()
        elif kind == "bare":
            if not level.reads_value:
                level.key += [part for part in match["bare"].split(".") if part]
        elif kind == "mark":
            at = _mark(text, match.start(), levels)


def _mark(text: str, at: int, levels: list[_OpenTable]) -> int:
    """Read a bracket, a comma, an equals sign or a quote that is not closed; return where to go on."""
    level = levels[-1]
    char = text[at]
    if char in "\"'":
        line_end = text.find("\n", at)
        return len(text) if line_end < 0 else line_end
    if char == "=":
        level.reads_value = True
    elif char == "," and len(levels) > 1:
        level.next()
    elif char == "[" and len(levels) == 1 and not level.key:
        header = _HEADER.match(text, at)
        if header is not None:
            name = tuple("".join(part) for part in _PART.findall(header["name"]))
            levels[0] = _OpenTable(name, False)
            levels[0].reads_value = True  # nothing but a comment may follow on this line
            return header.end()
    elif char in "[{" and level.reads_value:
        levels.append(_OpenTable(level.path, char == "["))
        if len(levels) > DEEPEST:
            refuse_nesting()
            return len(text)
    elif char in "]}" and len(levels) > 1:
        levels.pop()
    return at + 1
