"""`.gitignore` files for trees that are not git checkouts, such as an unpacked download.

In a checkout git itself is asked. The pattern language is that of gitignore(5). A pattern is matched without
backtracking: behind each `*` or `**` the first place that fits is right, as the next one can reach whatever lies later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Union

from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.record import NamedTuple

_LONGEST_NAME = 4096
"""Characters that a name of a file can have at most, on any system: a pattern that requests more matches nothing."""


_Segment = Union[str, "re.Pattern[str]", None]


class _Glob(NamedTuple):
    """One pattern that is more than a name, an ending or a path.

    Attributes:
        head: What a path that it matches begins with.
        tail: What a path that it matches ends with.
        segments: The names that a path consists of, or what they match; None for `**`, which is any number of names.
    """

    head: str
    tail: str
    segments: tuple[_Segment, ...]

    def matches(self, path: str) -> bool:
        """Whether it matches a path relative to the folder of the file."""
        return path.startswith(self.head) and path.endswith(self.tail) and _matches(self.segments, path.split("/"))


def _matches(segments: Sequence[_Segment], names: Sequence[str]) -> bool:
    """Whether the names of a path match; where one does not, the last `**` takes one name more."""
    at = number = 0
    wild = resume = -1  # the last `**`, and the first name that it has not taken
    while at < len(names):
        segment = segments[number] if number < len(segments) else None
        if number < len(segments) and segment is None:
            wild, resume = number, at
            number += 1
        elif segment is not None and (
            names[at] == segment if isinstance(segment, str) else segment.match(names[at]) is not None
        ):
            at += 1
            number += 1
        elif wild >= 0:
            resume += 1
            at, number = resume, wild + 1
        else:
            return False
    return all(segment is None for segment in segments[number:])


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
    endings: list[list[str]] = []
    for line in text.splitlines():
        stripped = line.rstrip(" \t")
        if stripped.endswith("\\"):
            stripped = line[: len(stripped) + 1]  # a space that is escaped belongs to the pattern
        if not stripped or stripped.startswith("#"):
            continue
        negated = stripped.startswith("!")
        body = stripped[negated:]
        if not groups or groups[-1].negated != negated:
            groups.append(Patterns(base, negated, set(), (), set(), [], set(), set(), []))
            endings.append([])
        _add(groups[-1], endings[-1], body.rstrip("/"), folders_only=body.endswith("/"))
    return [group._replace(endings=tuple(ends)) for group, ends in zip(groups, endings, strict=True)]


def _add(patterns: Patterns, endings: list[str], body: str, folders_only: bool) -> None:
    """Add a pattern to those that it belongs to; how names end is collected beside them."""
    if body and not _SPECIAL.search(body):
        (patterns.folder_names if folders_only else patterns.names).add(body)
    elif body[:1] == "*" and body[1:] and not folders_only and not _SPECIAL.search(body, 1):
        endings.append(body[1:])
    elif body.strip("/") and not _SPECIAL_BUT_SLASH.search(body):
        (patterns.folder_paths if folders_only else patterns.paths).add(body.lstrip("/"))
    else:
        pattern = _glob(body)
        if pattern is not None:
            (patterns.folder_others if folders_only else patterns.others).append(pattern)


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
    segments: list[_Segment] = [] if anchored else [None]
    for part in body.lstrip("/").split("/"):
        if part != "**":
            segment = _segment(part)
            if segment is None:
                return None
            segments.append(segment)
        elif not segments or segments[-1] is not None:
            segments.append(None)
    if segments[-1] is None:
        segments.append(_ANY_NAME)
    if "[" in body or "\\" in body:
        return _Glob("", "", tuple(segments))
    texts = _WILD.split(body.lstrip("/"))
    head = texts[0] if anchored else ""
    return _Glob(head, texts[-1].lstrip("/") if len(texts) > 1 else "", tuple(segments))


_ANY_NAME = lazy_regex("")


def _segment(part: str) -> re.Pattern[str] | str | None:
    """Return what a name must match for a part of a pattern between slashes; None where nothing can match it."""
    if not _SPECIAL.search(part):
        return part
    chunks: list[list[str]] = [[]]  # what stands between stars, one expression for each character
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            if chunks[-1] or len(chunks) == 1:
                chunks.append([])
        elif char == "?":
            chunks[-1].append(".")
        elif char == "\\" and at < len(part):
            chunks[-1].append(re.escape(part[at]))
            at += 1
        elif char == "[":
            end = part.find("]", at + 1)
            if end < 0:
                chunks[-1].append(r"\[")
            else:
                inside = re.sub(r"[\\\[&~|]", r"\\\g<0>", part[at:end])
                chunks[-1].append("[" + ("^" + inside[1:] if inside[0] in "!^" else inside) + "]")
                at = end + 1
        else:
            chunks[-1].append(re.escape(char))
    if sum(map(len, chunks)) > _LONGEST_NAME:
        return None
    first, *others = map("".join, chunks)
    # a group that is looked ahead and then repeated is not entered again: what fnmatch does, too
    middle = "".join(f"(?=(?P<g{number}>.*?{chunk}))(?P=g{number})" for number, chunk in enumerate(others[:-1]))
    regex = lazy_regex(first + middle + (f".*{others[-1]}" if others else "") + r"\Z", re.DOTALL)
    if "[" in part:
        try:
            regex.match("")
        except re.error:
            return None
    return regex
