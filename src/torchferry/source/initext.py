"""The settings of files that have one on a line: INI files, `.env`, gin bindings, HOCON as far as it is so.

`key = value`, `key: value` and `key=value`, below a `[section]` or not. What is no such line is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.lazy_regex import lazy_regex
from torchferry.source.setting import Setting

_KEY = lazy_regex(r"(?:export[ \t]+)?[\"']?(?P<key>[A-Za-z_][\w./-]{0,200})[\"']?[ \t]*[=:]")
_COMMENTS = ("#", ";", "//", "!")


def ini_settings(text: str) -> Iterator[Setting]:
    """Yield the settings of a text, in order of place."""
    section: tuple[str, ...] = ()
    start = 0
    for line in text.split("\n"):
        at, start = start, start + len(line) + 1
        stripped = line.strip()
        if stripped.startswith(_COMMENTS):
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            section = (stripped[1:-1].strip(),)
            continue
        at += len(line) - len(line.lstrip())
        match = _KEY.match(text, at)
        if match is None:
            continue
        begin, end = _value(text, match.end(), at + len(line.strip()))
        if begin < end:
            yield Setting((*section, *match["key"].split(".")), text[begin:end], begin, end)


def _value(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a value: within its quotes, or without the comment behind it."""
    while start < end and text[start] in " \t":
        start += 1
    if start < end and text[start] in "\"'":
        closing = text.find(text[start], start + 1, end)
        return (start + 1, closing) if closing >= 0 else (start, start)
    for mark in (" #", " ;", "\t#", "\t;", " //"):
        behind = text.find(mark, start, end)
        end = behind if behind >= 0 else end
    while end > start and text[end - 1] in " \t,":
        end -= 1
    return start, end
