"""The settings in a configuration file, whatever its form: key path, value, and where the value stands.

YAML is read line by line, lexically, and never refused: `key: value`, list items, flow collections, quoted scalars and
comments are understood, block scalars are skipped, and what is not understood is left alone. So anchors, duplicate keys
and templates survive, as nothing but the value's own characters is ever touched.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from torchferry.source.jsontext import NotJsonError, values
from torchferry.source.kinds import Kind


class Setting(NamedTuple):
    """One scalar value.

    Attributes:
        path: The keys that lead to it, outermost first; list items have no key of their own.
        value: The value without quotes.
        start: Offset of its first character, inside the quotes.
        end: Offset behind its last character.
    """

    path: tuple[str, ...]
    value: str
    start: int
    end: int

    @property
    def key(self) -> str:
        """The innermost key; empty where there is none."""
        return self.path[-1] if self.path else ""


def settings(kind: Kind, text: str) -> Iterator[Setting]:
    """Yield the settings of a configuration file; of a damaged JSON file those before the damage."""
    if kind is Kind.JSON:
        yield from _json(text)
    elif kind in (Kind.TOML, Kind.PYPROJECT):
        yield from _toml(text)
    else:
        yield from _yaml(text)


def _json(text: str) -> Iterator[Setting]:
    try:
        for value in values(text):
            if value.is_string and text[value.start + 1 : value.end - 1] == value.value:
                path = tuple(part for part in value.path if isinstance(part, str))
                yield Setting(path, value.value, value.start + 1, value.end - 1)
    except NotJsonError:
        return


_TOML_TABLE = re.compile(r"^[ \t]*\[\[?[ \t]*([^\]\n]+?)[ \t]*\]\]?[ \t]*(?:#.*)?\r?$")
_TOML_KEY = re.compile(r"^[ \t]*(?P<key>[\w.\"' -]+?)[ \t]*=[ \t]*")
_TOML_STRING = re.compile(r"\"([^\"\\\n]*)\"|'([^'\n]*)'|#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''", re.DOTALL)


def _toml(text: str) -> Iterator[Setting]:
    """Yield strings by the key in front of them; those in arrays and inline tables too."""
    table: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    at = 0
    depth = 0
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end]
        start = at
        if depth == 0:
            header = _TOML_TABLE.match(line)
            if header is not None:
                table, key = _dotted(header.group(1)), ()
                at = line_end + 1
                continue
            match = _TOML_KEY.match(line)
            if match is None:
                at = line_end + 1
                continue
            key = _dotted(match["key"])
            start = at + match.end()
        blank = list(line[start - at :])
        for match in _TOML_STRING.finditer(line, start - at):
            for index in range(match.start() - (start - at), match.end() - (start - at)):
                blank[index] = " "
            group = 1 if match.group(1) is not None else 2 if match.group(2) is not None else 0
            if group:
                yield Setting((*table, *key), match.group(group), at + match.start(group), at + match.end(group))
        depth = max(0, depth + blank.count("[") - blank.count("]"))
        at = line_end + 1


def _dotted(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


_YAML_ITEM = re.compile(r"[ \t]*-(?=[ \t]|\r?$)[ \t]*")
_YAML_KEY = re.compile(
    r"(?P<key>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'#{}\[\],&*!|>%@`-][^\n#{}\[\],:]*?|-[^\s:]+?)[ \t]*:(?=[ \t]|\r?$)"
)
_YAML_PROPERTY = re.compile(r"[ \t]*(?:[&!][^\s,\]}]*[ \t]+)*")
_YAML_BLOCK = re.compile(r"[|>][-+0-9]*[ \t]*(?:#.*)?\r?$")


def _yaml(text: str) -> Iterator[Setting]:
    levels: list[tuple[int, str]] = []  # indentation and key of the mappings that are open
    at = 0
    skipping = -1  # the indentation of the key of a block scalar
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end]
        stripped = line.strip()
        indent = len(line) - len(line.lstrip(" \t"))
        if not stripped or stripped.startswith("#") or stripped in ("---", "..."):
            if stripped in ("---", "..."):
                levels = []
            at = line_end + 1
            continue
        if skipping >= 0:
            if indent > skipping:
                at = line_end + 1
                continue
            skipping = -1
        column = 0
        while (item := _YAML_ITEM.match(line, column)) is not None and item.end() > column:
            column = item.end()
        column = max(column, indent)
        match = _YAML_KEY.match(line, column)
        if match is not None:
            while levels and levels[-1][0] >= column:
                levels.pop()
            levels.append((column, match["key"].strip("\"'")))
            start = match.end()
        else:
            # an item of a list may stand as far left as the key that it belongs to
            keep = indent if line.lstrip(" \t").startswith("-") else indent - 1
            while levels and levels[-1][0] > keep:
                levels.pop()
            start = column
        start = _behind_properties(line, start)
        path = tuple(key for _, key in levels)
        if _YAML_BLOCK.match(line, start):
            skipping = indent if match is None else column
            at = line_end + 1
            continue
        if line[start : start + 1] in ("{", "["):
            end = yield from _flow(text, at + start, path)
            next_line = text.find("\n", end)
            at = len(text) if next_line < 0 else next_line + 1
            continue
        scalar = _scalar(text, at + start, line_end, "")
        if scalar is not None:
            yield Setting(path, *scalar)
        at = line_end + 1


def _behind_properties(line: str, start: int) -> int:
    match = _YAML_PROPERTY.match(line, start)
    return match.end() if match is not None else start


def _scalar(text: str, start: int, end: int, stops: str) -> tuple[str, int, int] | None:
    """Return the scalar at `start` on its line: value, and offsets inside its quotes."""
    quote = text[start : start + 1]
    if quote and quote in "\"'":
        closing = text.find(quote, start + 1, end)
        return (text[start + 1 : closing], start + 1, closing) if closing > 0 else None
    stop = start
    while stop < end and text[stop] not in stops and not (text[stop] == "#" and stop > 0 and text[stop - 1] in " \t"):
        if stops and text[stop] == ":" and text[stop + 1 : stop + 2] in (" ", "\t", "\n", ""):
            break
        stop += 1
    value = text[start:stop].rstrip()
    return (value, start, start + len(value)) if value else None


def _flow(text: str, at: int, path: tuple[str, ...]) -> Generator[Setting, None, int]:
    """Yield the settings of a flow collection; return the offset behind it."""
    keys: list[str] = []  # of the collections that are open: the key whose value is read, or nothing in a list
    limit = min(len(text), at + 100_000)
    while at < limit:
        char = text[at]
        if char in "{[":
            keys.append("")
            at += 1
        elif char in "}]":
            keys.pop()
            at += 1
            if not keys:
                return at
        elif char == ",":
            keys[-1] = ""
            at += 1
        elif char in " \t\r\n:":
            at += 1
        elif char == "#" and text[at - 1] in " \t\n":
            line_end = text.find("\n", at)
            at = limit if line_end < 0 else line_end
        else:
            line_end = text.find("\n", at)
            scalar = _scalar(text, at, limit if line_end < 0 else line_end, ",[]{}")
            if scalar is None:
                at += 1
                continue
            value, start, end = scalar
            behind = end + (text[at] in "\"'")
            if re.compile(r"[ \t]*:(?=[ \t\r\n\[{\"'])").match(text, behind):
                keys[-1] = value
            else:
                yield Setting((*path, *(key for key in keys if key)), value, start, end)
            at = max(behind, at + 1)
    return at
