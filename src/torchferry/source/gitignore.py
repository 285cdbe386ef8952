"""`.gitignore` files for trees that are not git checkouts, such as an unpacked download.

In a checkout git itself is asked. The pattern language is that of gitignore(5).
"""

from __future__ import annotations

import re
from functools import lru_cache

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple


class _Glob(NamedTuple):
    """One pattern that is more than a name, an ending or a path.

    Attributes:
        head: What a path that it matches begins with.
        tail: What a path that it matches ends with.
        regex: The pattern, which is compiled for the first path with both.
    """

    head: str
    tail: str
    regex: re.Pattern[str]

    def matches(self, path: str) -> bool:
        """Whether it matches a path relative to the folder of the file."""
        return path.startswith(self.head) and path.endswith(self.tail) and self.regex.match(path) is not None


class Patterns(NamedTuple):
    """Lines of a `.gitignore` file that follow each other and do the same.

    Most patterns are a plain name, or `*` and an ending: all of these are asked at once, the others one by one.

    Attributes:
        base: The folder of the file; empty for the root.
        negated: Whether they take back what earlier patterns ignore.
        names: Plain names.
        endings: How names end.
        paths: Paths relative to the folder of the file.
        others: All other patterns.
        folder_names: Plain names that are about folders alone.
        folder_paths: Paths that are.
        folder_others: All other patterns that are.
    """

    base: str
    negated: bool
    names: set[str]
    endings: tuple[str, ...]
    paths: set[str]
    others: list[_Glob]
    folder_names: set[str]
    folder_paths: set[str]
    folder_others: list[_Glob]

    def match(self, path: str, is_folder: bool) -> bool:
        """Whether one of them matches a path relative to the root."""
        if self.base and not path.startswith(self.base + "/"):
            return False
        inside = path[len(self.base) + 1 :] if self.base else path
        name = inside.rpartition("/")[2]
        return (
            name in self.names
            or name.endswith(self.endings)
            or inside in self.paths
            or any(pattern.matches(inside) for pattern in self.others)
            or (
                is_folder
                and (
                    name in self.folder_names
                    or inside in self.folder_paths
                    or any(pattern.matches(inside) for pattern in self.folder_others)
                )
            )
        )


def parse_gitignore(text: str, base: str) -> list[Patterns]:
    """Return the patterns of a `.gitignore` file that lies in the folder `base`, relative to the root, in order."""
    groups: list[Patterns] = []
    for line in text.splitlines():
        stripped = re.sub(r"(?<!\\)[ \t]+$", "", line)
        if not stripped or stripped.startswith("#"):
            continue
        negated = stripped.startswith("!")
        body = stripped[negated:]
        if not groups or groups[-1].negated != negated:
            groups.append(Patterns(base, negated, set(), (), set(), [], set(), set(), []))
        groups[-1] = _with(groups[-1], body.rstrip("/"), folders_only=body.endswith("/"))
    return groups


def _with(patterns: Patterns, body: str, folders_only: bool) -> Patterns:
    """Return the patterns with one more."""
    if body and not _SPECIAL.search(body):
        (patterns.folder_names if folders_only else patterns.names).add(body)
    elif body[:1] == "*" and body[1:] and not folders_only and not _SPECIAL.search(body, 1):
        return patterns._replace(endings=(*patterns.endings, body[1:]))
    elif body.strip("/") and not _SPECIAL_BUT_SLASH.search(body):
        (patterns.folder_paths if folders_only else patterns.paths).add(body.lstrip("/"))
    else:
        pattern = _glob(body)
        if pattern is not None:
            (patterns.folder_others if folders_only else patterns.others).append(pattern)
    return patterns


_SPECIAL = lazy_regex(r"[*?\[\\/]")
_SPECIAL_BUT_SLASH = lazy_regex(r"[*?\[\\]")
_WILD = lazy_regex(r"[*?]")


def is_ignored(path: str, is_folder: bool, patterns: list[Patterns]) -> bool:
    """Whether the last pattern that matches `path` (relative to the root, with `/`) ignores it."""
    for each in reversed(patterns):
        if each.match(path, is_folder):
            return not each.negated
    return False


@lru_cache(maxsize=1024)
def _glob(body: str) -> _Glob | None:
    """Return the pattern that a line is; None for one that matches nothing."""
    anchored = "/" in body
    parts = body.lstrip("/").split("/")
    pieces = [] if anchored else [r"(?:.*/)?"]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            pieces.append(r".*" if last else r"(?:.*/)?")
        else:
            pieces.append(_segment(part) + ("" if last else "/"))
    regex = lazy_regex("".join(pieces) + r"\Z", re.DOTALL)
    if "[" in body or "\\" in body:
        try:
            regex.match("")
        except re.error:
            return None
        return _Glob("", "", regex)
    texts = _WILD.split(body.lstrip("/"))
    return _Glob(texts[0] if anchored else "", texts[-1].lstrip("/") if len(texts) > 1 else "", regex)


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
