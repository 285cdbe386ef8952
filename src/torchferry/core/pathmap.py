"""Path prefixes and what replaces them, from the user's table.

A key is a folder or another prefix (`/kaggle/input/`), or a folder and a pattern of the files in it
(`/kaggle/working/*.pth`), so that one folder can become several by what a file is. Of the entries that fit at one place
the most specific counts: the longer folder, then the narrower pattern, then the folder without a pattern. Only the
folder of a path is replaced; what follows it stays.

A text is mapped once: where it has the new path already, it stays, so that a second run changes nothing, also where the
new path begins with the old one (`/data/` to `/data/new/`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from torchferry.core.record import NamedTuple

LONGEST_NAME = 255
"""Characters of a file's name or pattern: no usual file system has longer names (NAME_MAX of Linux, in bytes)."""

_SEPARATORS = ("/", "\\")
_QUOTES = frozenset("\"'`")
_ENDS = frozenset("\"'`<>|;,():\n\r\t ")
_UNKNOWN = re.compile(
    r"\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}"  # {name} of an f-string or of str.format, with a format that is computed
    r"|\$(?:\{[^}\n]*\}|\([^)\n]*\)|\w+)"  # ${name}, $(command) and $name of a shell
    r"|%[-+ #0]*(?:(?!0)\d+)?(?:\.\d+)?[a-zA-Z]"  # %s and %05d
)
"""A part of a path that is filled in when the program runs, which a name holds as `*`."""

_FIRST_FOLDER = re.compile(r"[/\\]?[^/\\]+(?=[/\\])")


class PathEntry(NamedTuple):
    """One line of the table.

    Attributes:
        key: The line's key, as the user wrote it.
        prefix: The folder or other prefix; with a slash at its end where the key has a pattern.
        pattern: The pattern of the file's name, with `*`; empty for a key without one.
        new: The replacement of the prefix.
    """

    key: str
    prefix: str
    pattern: str
    new: str


class PathReplacement(NamedTuple):
    """A prefix in a text and what is to be in its place.

    Attributes:
        start, end: The offsets of the prefix.
        old: The prefix.
        new: What replaces it; None where the table maps only some files below it, and which file is meant
            cannot be read here.
        doubt: The key of a narrower entry that holds if the file turns out to be one of its pattern; empty for none.
    """

    start: int
    end: int
    old: str
    new: str | None
    doubt: str = ""


class PathConflict(NamedTuple):
    """Two keys that both hold for one file, neither being narrower than the other."""

    first: str
    second: str


class PathMap:
    """A table of path prefixes; of those that fit at one place the most specific one counts."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self.entries = _in_order([path_entry(key, new) for key, new in table.items()])
        places = sorted({_place(each) for each in self.entries}, key=len, reverse=True)
        self._pattern = re.compile(r"(?<![\w./-])(?:" + "|".join(map(_whole, places)) + ")") if places else None
        self._places = [(each, re.compile(_whole(_place(each)))) for each in self.entries]
        self._folders = {each.prefix for each in self.entries if not each.pattern}
        self._around = {
            each.key: [
                (match.start(), re.compile(_whole(each.new.rstrip("/\\") or each.new)))
                for match in re.finditer(re.escape(each.prefix), each.new)
            ]
            for each in self.entries
        }

    @classmethod
    def of(cls, table: Mapping[str, str]) -> PathMap:
        """Return the map of a table, which is made once."""
        return _made(tuple(table.items()))

    @property
    def words(self) -> tuple[str, ...]:
        """What a text holds of which the table maps anything."""
        return tuple(dict.fromkeys(map(_place, self.entries)))

    @property
    def beginnings(self) -> tuple[str, ...]:
        """The first folder of each path, of which a program may put it together."""
        return tuple(dict.fromkeys(match[0] for word in self.words if (match := _FIRST_FOLDER.match(word))))

    @property
    def has_roles(self) -> bool:
        """Whether a key has a pattern, so that the file's name counts."""
        return any(each.pattern for each in self.entries)

    def replacements(
        self, text: str, start: int = 0, end: int | None = None, joined: str = ""
    ) -> Iterator[PathReplacement]:
        """Yield what is to be replaced in a part of a text.

        Args:
            text: The text.
            start: Where the part begins.
            end: Where it ends; None for the end of the text.
            joined: What the program joins to the path where it ends with its quote, `*` for what is not known.
        """
        if self._pattern is None:
            return
        for match in self._pattern.finditer(text, start, len(text) if end is None else end):
            replacement = self._replacement(text, match.start(), joined)
            if replacement is not None:
                yield replacement

    def _replacement(self, text: str, at: int, joined: str) -> PathReplacement | None:
        doubts = []
        for each, place in self._places:
            if place.match(text, at) is None:
                continue
            if self._is_mapped(each, text, at):
                return None
            old, new = each.prefix, each.new
            if not text.startswith(old, at):  # the folder alone, without its slash
                old, new = _place(each), new.rstrip("/\\") or new
                if not each.pattern and old in self._folders:
                    continue  # which has an entry of its own
            if each.pattern:
                name = _name(text, at, at + len(_place(each)), joined)
                if not _covers(each.pattern, name):
                    if not name or _meets(each.pattern, name):
                        doubts.append((each, bool(name), at + len(old), old))
                    continue
            doubt = next((d.key for d, named, *_ in doubts if named and d.new.rstrip("/\\") != new.rstrip("/\\")), "")
            return PathReplacement(at, at + len(old), old, new, doubt)
        if doubts:
            narrow, _, last, old = doubts[0]
            return PathReplacement(at, last, old, None, narrow.key)
        return None

    def _is_mapped(self, each: PathEntry, text: str, at: int) -> bool:
        """Whether the old path at a place is a part of the new one, which is there already."""
        return any(at >= before and new.match(text, at - before) for before, new in self._around[each.key])

    def unstable(self) -> PathReplacement | None:
        """Return a key, and the new path from which a second run would make yet another; None for a sound table."""
        if self._pattern is None:
            return None
        for number, each in enumerate(self.entries):
            files = each.pattern or "*"
            # a file of these would have been mapped by them already
            earlier = [other for other in self.entries[:number] if other.pattern and _folder(other) == _folder(each)]
            for match in self._pattern.finditer(each.new):
                for other, place in self._places:
                    if other in earlier or place.match(each.new, match.start()) is None:
                        continue
                    if self._is_mapped(other, each.new, match.start()):
                        break
                    if not other.pattern or _meets(other.pattern, files):
                        return PathReplacement(match.start(), match.end(), each.key, other.new)
        return None

    def conflict(self) -> PathConflict | None:
        """Return two keys of one folder that hold for the same file, and neither of which is narrower."""
        roles = [each for each in self.entries if each.pattern]
        for number, each in enumerate(roles):
            for other in roles[:number]:
                if (
                    each.prefix == other.prefix
                    and each.new != other.new
                    and _meets(each.pattern, other.pattern)
                    and _covers(each.pattern, other.pattern) == _covers(other.pattern, each.pattern)
                ):
                    return PathConflict(other.key, each.key)
        return None


@lru_cache(maxsize=8)
def _made(items: tuple[tuple[str, str], ...]) -> PathMap:
    return PathMap(dict(items))


def path_entry(key: str, new: str) -> PathEntry:
    """Return a line of the table, its key divided into folder and pattern of file names."""
    slash = max(key.rfind(separator) for separator in _SEPARATORS)
    name = key[slash + 1 :]
    return PathEntry(key, key[: slash + 1], name, new) if "*" in name else PathEntry(key, key, "", new)


def _in_order(entries: list[PathEntry]) -> list[PathEntry]:
    """Return the entries, the most specific first: by folder, then by pattern, the plain folder last."""

    def narrowness(each: PathEntry) -> tuple[int, int, int]:
        wider = sum(
            other.prefix == each.prefix and bool(other.pattern) and _covers(other.pattern, each.pattern)
            for other in entries
            if each.pattern
        )
        return -len(_folder(each)), -wider, -len(each.prefix)

    return sorted(entries, key=narrowness)


def _folder(each: PathEntry) -> str:
    return each.prefix.rstrip("/\\")


def _place(each: PathEntry) -> str:
    """Return what a text has to hold: a folder may be alone, without its slash, as `os.path.join` takes it."""
    if each.pattern:
        return each.prefix[:-1]
    is_folder = each.prefix.endswith(_SEPARATORS) and each.new.endswith(_SEPARATORS)
    return each.prefix[:-1] if is_folder and each.prefix[:-1].rstrip("/\\") == each.prefix[:-1] != "" else each.prefix


def _whole(path: str) -> str:
    """Return a pattern for a path: `/data` is not found in `/database`."""
    return re.escape(path) + ("" if path.endswith(("/", "\\")) else r"(?![\w.-])")


def _name(text: str, start: int, at: int, joined: str) -> str:
    """Return the file's name of the path that begins at `start`, read on from `at`; empty for a folder.

    A part that is only known when the program runs is `*`.
    """
    quote = text[start - 1] if start and text[start - 1] in _QUOTES else ""
    separator = "\\" if "\\" in text[start:at] else "/"
    rest = []
    while at < len(text):
        unknown = _UNKNOWN.match(text, at)
        if unknown is not None:
            rest.append("*")
            at = unknown.end()
            continue
        letter = text[at]
        if letter in (quote, "\n") if quote else letter in _ENDS:
            break
        if letter == "\\" and separator == "/":
            break  # an escape, such as the end of a line
        rest.append(letter)
        at += 1
    path = "".join(rest)
    if quote and text[at : at + 1] == quote:
        path += joined
    name = path.rpartition(separator)[2]
    return name if len(name) <= LONGEST_NAME else "*"


def _covers(wide: str, narrow: str) -> bool:
    """Whether every name of one pattern, or a name, is one of another; no for an empty one."""
    return bool(narrow) and _compare(wide, narrow, both=False)


def _meets(wide: str, narrow: str) -> bool:
    """Whether there is a name of both patterns."""
    return _compare(wide, narrow, both=True)


@lru_cache(maxsize=4096)
def _compare(wide: str, narrow: str, both: bool) -> bool:
    """Compare two patterns, symbol by symbol from their ends, in time of the product of their lengths.

    `*` of `wide` represents any symbols of `narrow`; with `both`, `*` of `narrow` represents symbols of `wide` too.
    """
    row = [all(letter == "*" for letter in narrow[j:]) if both else j == len(narrow) for j in range(len(narrow) + 1)]
    for i in range(len(wide) - 1, -1, -1):
        above = row
        row = [False] * (len(narrow) + 1)
        row[-1] = wide[i] == "*" and above[-1]
        for j in range(len(narrow) - 1, -1, -1):
            if wide[i] == "*":
                row[j] = above[j] or row[j + 1]
            elif narrow[j] == "*":
                row[j] = both and (above[j] or row[j + 1])
            else:
                row[j] = wide[i] == narrow[j] and above[j + 1]
    return row[0]
