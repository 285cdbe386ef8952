"""`.gitignore` files for trees that are not git checkouts, such as an unpacked download.

In a checkout git itself is asked. The pattern language is that of gitignore(5).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Pattern(NamedTuple):
    """One line of a `.gitignore` file, in the folder `base` (empty for the root)."""

    base: str
    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


def parse_gitignore(text: str, base: str) -> list[Pattern]:
    """Return the patterns of a `.gitignore` file that lies in the folder `base`, relative to the root."""
    patterns = []
    for line in text.splitlines():
        stripped = re.sub(r"(?<!\\)[ \t]+$", "", line)
        if not stripped or stripped.startswith("#"):
            continue
        negated = stripped.startswith("!")
        body = stripped[negated:]
        folders_only = body.endswith("/")
        regex = _regex(body.rstrip("/"))
        if regex is not None:
            patterns.append(Pattern(base, regex, negated, folders_only))
    return patterns


def is_ignored(path: str, is_folder: bool, patterns: list[Pattern]) -> bool:
    """Whether the last pattern that matches `path` (relative to the root, with `/`) ignores it."""
    for pattern in reversed(patterns):
        if pattern.folders_only and not is_folder:
            continue
        if pattern.base and not path.startswith(pattern.base + "/"):
            continue
        inside = path[len(pattern.base) + 1 :] if pattern.base else path
        if pattern.regex.match(inside):
            return not pattern.negated
    return False


@lru_cache(maxsize=1024)
def _regex(body: str) -> re.Pattern[str] | None:
    anchored = "/" in body
    parts = body.lstrip("/").split("/")
    pieces = [] if anchored else [r"(?:.*/)?"]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pieces.append(r".*" if last else r"(?:.*/)?")
        else:
            pieces.append(_segment(part) + ("" if last else "/"))
    try:
        return re.compile("".join(pieces) + r"\Z", re.DOTALL)
    except re.error:
        return None


def _segment(part: str) -> str:
    pieces = []
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            pieces.append("[^/]*")
        elif char == "?":
            pieces.append("[^/]")
        elif char == "\\" and at < len(part):
            pieces.append(re.escape(part[at]))
            at += 1
        elif char == "[":
            end = part.find("]", at + 1)
            if end < 0:
                pieces.append(r"\[")
            else:
                inside = re.sub(r"[\\\[&~|]", r"\\\g<0>", part[at:end])
                pieces.append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
                at = end + 1
        else:
            pieces.append(re.escape(char))
    return "".join(pieces)
