"""Which files of a project hold a word, so that only those are parsed that can answer a question about a name.

Parsing is what costs: a file is asked by its text first whether it can use a name at all. The questions say too much
rather than too little, and who asks looks at the syntax of what is left.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set

_WORD = re.compile(r"\w+")
_LETTERS = frozenset(b"_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_BLANKED = bytes(byte if byte in _LETTERS or byte >= 0x80 else 0x20 for byte in range(256))
"""What the bytes of a text become so that only its words are left; what is not ASCII is looked at by itself."""

_HEAD = re.compile(r"class(?<!\wclass)\s+\w+(?:\s*\[[^\[\]]*\])?[\s\\]*\(([^:]*)")
_ENDS = frozenset("\"'{\\")

_BROKEN = re.compile(r"\.(?=[\s\\#])")
"""A dot behind which `x.name` may go on on the next line."""

_SETS_ATTRIBUTE = re.compile(r"setattr(?<=\bsetattr)[ \t]*\(")
_NAMES_MEMBERS = re.compile(
    r"[.\[](?:(?<=\.)(?:update[ \t]*\((?![ \t]*(?:\d|\)))|merge_from_\w+\()"
    r"|(?<=\[)[A-Za-z_]\w*\][ \t]*=(?!=)[ \t]*[A-Za-z_]\w*[ \t]*(?:#|$))",
    re.MULTILINE,
)
"""Where an object may be given members by computed names; `bar.update(1)` gives none."""

_OF_ENVIRONMENT = frozenset({"environ", "putenv", "load_dotenv"})
_SETS_VARIABLE = re.compile(
    r"(?:environ[ \t]*\[[ \t]*(?=[\"'][^\"'\n]*[\"'][ \t]*\][ \t]*=(?!=))|environ\.setdefault\([ \t]*|putenv\([ \t]*)"
    r"[\"']([^\"'\n]+)[\"']|environ\.update\(|load_dotenv\("
)
"""Where a variable of the environment may be set; any where none is captured."""

_STORES = re.compile(
    r"[.\[](?:(?<=\.)|[\"'])(\w+)(?=(?:[\"']\])?[ \t]*(?::[^=\n]{0,200})?[-+*/|&]?=(?!=))"
    r"|setattr\((?=[^\n,]{1,200},\s*[\"'](\w+)[\"'])"
)
"""Where something may be stored in an object under a name, as an attribute or an item."""

_ARGUMENTS = re.compile(r"[(=,]\s*(?:\w+\.)*(\w+)(?=\s*[,)])")
"""What is alone as an argument."""

_BLANKS = re.compile(r"[\s\\]*")


_DEFINED = re.compile(r"class(?<!\wclass)\s+(\w+)")
_INNER = frozenset(" \t\r\n\f#)]}")
"""What the lines begin with that belong to a statement before them."""

_OF_OWN = re.compile(r"(?<![\w.])(?:self|cls|super\([^()]*\))\Z")
"""What precedes the dot of an attribute that an object asks of itself."""

HANDING = frozenset({"partial", "partialmethod", "submit", "to_thread", "run_in_executor", "call_soon", "map", "imap",
                     "imap_unordered", "map_async", "apply", "apply_async", "Process", "Thread", "Timer", "spawn",
                     "start_processes", "launch", "starmap", "starmap_async"})  # fmt: skip
"""Functions and methods that call what they are handed."""

_LONGEST_OWN = 60
"""Characters before a dot that are looked at."""


class IdentifierIndex:
    """The words of the files of a project, read once when the first question comes.

    Args:
        paths: The files, in the order in which they are given back.
        text: Returns the text of a file.
        names: The words of files of which they are known, each once, with blanks between them.
    """

    def __init__(
        self, paths: Sequence[str], text: Callable[[str], str], names: Mapping[str, bytes] | None = None
    ) -> None:
        self.paths = paths
        self._names = names or {}
        self._text = text
        self._files: dict[bytes, list[int]] | None = None
        self._said: dict[tuple[str, str], bool] = {}
        self._holding_attribute: dict[tuple[str, str], bool] = {}
        self._calls: dict[str, frozenset[str]] = {}
        self._attributes: dict[str, frozenset[str]] = {}
        self._broken: dict[str, frozenset[str]] = {}
        self._defined: dict[str, frozenset[str]] = {}
        self._bases: dict[str, frozenset[str]] = {}
        self._arguments: dict[str, frozenset[str]] = {}
        self._handed: dict[str, frozenset[str]] = {}
        self._derived: dict[str, frozenset[str]] = {}
        self._saying: dict[tuple[str, re.Pattern[str]], frozenset[str]] = {}
        self._holding_any: dict[frozenset[str], frozenset[str]] = {}
        self._storing: dict[str, frozenset[str]] = {}
        self._stored: dict[str, frozenset[str]] = {}
        self._naming: frozenset[str] | None = None
        self._setting: dict[str, frozenset[str]] | None = None
        self._beginning: dict[str, list[str]] = {}
        self._sorted: list[bytes] = []

    def holding(self, word: str) -> list[str]:
        """Return the files that hold an identifier, by itself and not as a part of another."""
        return [self.paths[number] for number in self._index().get(word.encode("utf-8", "surrogatepass"), ())]

    def holding_any(self, words: frozenset[str]) -> frozenset[str]:
        """Return the files that hold one of some identifiers."""
        if words not in self._holding_any:
            self._holding_any[words] = frozenset(path for word in words for path in self.holding(word))
        return self._holding_any[words]

    def saying(self, word: str, pattern: re.Pattern[str]) -> frozenset[str]:
        """Return the files that hold an identifier and say something."""
        if (word, pattern) not in self._saying:
            self._saying[word, pattern] = frozenset(
                path for path in self.holding(word) if pattern.search(self._text(path))
            )
        return self._saying[word, pattern]

    def beginning(self, part: str) -> list[str]:
        """Return the files that hold a word which begins with a text without blanks and signs."""
        if part not in self._beginning:
            index = self._index()
            if not self._sorted:
                self._sorted = sorted(index)
            sought = part.encode("utf-8", "surrogatepass")
            numbers: set[int] = set()
            at = bisect_left(self._sorted, sought)
            while at < len(self._sorted) and self._sorted[at].startswith(sought):
                numbers.update(index[self._sorted[at]])
                at += 1
            self._beginning[part] = [self.paths[number] for number in sorted(numbers)]
        return self._beginning[part]

    def _index(self) -> dict[bytes, list[int]]:
        """Return the files, by their numbers, in which each word stands."""
        if self._files is None:
            files: defaultdict[bytes, list[int]] = defaultdict(list)
            for number, path in enumerate(self.paths):
                names = self._names.get(path)
                for word in words_of(self._text(path)) if names is None else names.split():
                    files[word].append(number)
            self._files = dict(files)
        return self._files

    def flagged(self, name: str) -> set[str]:
        """Return the files that may say a name with `-` in the place of some `_`, as options have it."""
        parts = name.split("_")
        paths: set[str] = set()
        for end in range(1, len(parts)):
            before = self.holding("_".join(parts[:end]))
            if before:  # behind the `-` a word begins, or another `-`
                paths.update({*before}.intersection(self.beginning(parts[end])) if parts[end] else before)
        return paths.union(self.holding(name))

    def declaring(self, name: str, among: Set[str] | None = None) -> frozenset[str]:
        """Return the files, or those of some, that may declare an option or a field: `"--name"`, `name: int`."""
        flagged = self.flagged(name) if among is None else self.flagged(name) & among if among else ()
        if not flagged:
            return frozenset()
        spelling = "[-_]".join(map(re.escape, name.split("_")))
        search = re.compile(rf"{spelling}(?:(?<=[\"'-]{spelling})[\"'/\\]|[\s\\)]*:)").search
        return frozenset(path for path in flagged if search(self._text(path)) is not None)

    def as_attribute(self, name: str) -> frozenset[str]:
        """Return the files that may hold `x.name`."""
        if name not in self._attributes:
            self._attributes[name] = frozenset(path for path in self.holding(name) if self.holds_attribute(path, name))
        return self._attributes[name]

    def holds_attribute(self, path: str, name: str) -> bool:
        """Whether a file may hold `x.name`."""
        key = (path, name)
        holds = self._holding_attribute.get(key)
        if holds is None:
            holds = _is_attribute(self._text(path), name) or name in self._behind_dots(path)
            self._holding_attribute[key] = holds
        return holds

    def _behind_dots(self, path: str) -> frozenset[str]:
        """Return the words of a file between which and a dot before them are blanks, comments or ends of lines."""
        if path not in self._broken:
            self._broken[path] = frozenset(_behind_broken(self._text(path)))
        return self._broken[path]

    def asks_others(self, path: str, name: str) -> bool:
        """Whether a file may hold `x.name` where `x` is not what a method of a class of the file belongs to."""
        if name in self._behind_dots(path):
            return True
        text, attribute = self._text(path), f".{name}"
        at = text.find(attribute)
        while at >= 0:
            end = at + len(attribute)
            if not _is_letter(text[end : end + 1]):
                if _OF_OWN.search(text[max(at - _LONGEST_OWN, 0) : at]) is None:
                    return True
                if not text.startswith("class ", _margin_before(text, at)):
                    return True
            at = text.find(attribute, end)
        return False

    def storing(self, name: str) -> frozenset[str]:
        """Return the files that may store something in an object under a name, as an attribute or an item."""
        if name not in self._storing:
            self._storing[name] = frozenset(path for path in self.holding(name) if name in self._stored_in(path))
        return self._storing[name]

    def _stored_in(self, path: str) -> frozenset[str]:
        """Return the names under which a file may store something: one search for all that are asked for."""
        if path not in self._stored:
            stored = _STORES.findall(self._text(path))
            self._stored[path] = frozenset(name for names in stored for name in names)
        return self._stored[path]

    def setting_variable(self, name: str) -> frozenset[str]:
        """Return the files that may set a variable of the environment."""
        if self._setting is None:
            paths = self.holding_any(_OF_ENVIRONMENT)
            self._setting = {path: frozenset(_SETS_VARIABLE.findall(self._text(path))) for path in paths}
        return frozenset(path for path, names in self._setting.items() if name in names or "" in names)

    def naming(self) -> frozenset[str]:
        """Return the files that may give objects attributes or items by names that they compute."""
        if self._naming is None:
            texts = ((path, self._text(path)) for path in self.paths)
            self._naming = frozenset(
                path for path, text in texts if _SETS_ATTRIBUTE.search(text) or _NAMES_MEMBERS.search(text)
            )
        return self._naming

    def classes_in(self, path: str) -> frozenset[str]:
        """Return the names of the classes that a file may define."""
        if path not in self._defined:
            self._defined[path] = frozenset(_DEFINED.findall(self._text(path)))
        return self._defined[path]

    def says(self, path: str, name: str) -> bool:
        """Whether a file may hold a string that is the name, or ends with a dot and the name."""
        key = (path, name)
        says = self._said.get(key)
        if says is None:
            says = self._said[key] = _is_text(self._text(path), name)
        return says

    def as_base(self, name: str) -> frozenset[str]:
        """Return the files that may derive a class from one of the name."""
        if name not in self._derived:
            self._derived[name] = frozenset(path for path in self.holding(name) if name in self._bases_in(path))
        return self._derived[name]

    def _bases_in(self, path: str) -> frozenset[str]:
        """Return the words behind the names of the classes of a file, up to the colons that end their heads."""
        if path not in self._bases:
            heads = _HEAD.findall(self._text(path))
            self._bases[path] = frozenset(word for head in heads for word in _WORD.findall(head))
        return self._bases[path]

    def as_call(self, name: str) -> frozenset[str]:
        """Return the files that may call something of the name."""
        if name not in self._calls:
            self._calls[name] = frozenset(path for path in self.holding(name) if _is_called(self._text(path), name))
        return self._calls[name]

    def as_argument(self, name: str) -> frozenset[str]:
        """Return the files that may hand on what a name represents: `map(name, ...)`, `Process(target=name)`."""
        if name not in self._arguments:
            paths = self.holding_any(HANDING).intersection(self.holding(name))
            self._arguments[name] = frozenset(path for path in paths if name in self._handed_in(path))
        return self._arguments[name]

    def _handed_in(self, path: str) -> frozenset[str]:
        """Return the names that are alone as arguments in a file."""
        if path not in self._handed:
            self._handed[path] = frozenset(_ARGUMENTS.findall(self._text(path)))
        return self._handed[path]


def words_of(text: str) -> set[bytes]:
    """Return the words of a text, each once, as `\\w+` finds them, in UTF-8."""
    words = set(text.encode("utf-8", "surrogatepass").translate(_BLANKED).split())
    if not text.isascii():
        for part in [word for word in words if not word.isascii()]:
            words.remove(part)
            matched = _WORD.findall(part.decode("utf-8", "surrogatepass"))
            words.update(word.encode("utf-8", "surrogatepass") for word in matched)
    return words


def _margin_before(text: str, at: int) -> int:
    """Return where the last statement at the left margin begins before a place; 0 where there is none."""
    start = text.rfind("\n", 0, at) + 1
    while start and text[start] in _INNER:
        start = text.rfind("\n", 0, start - 1) + 1
    return start


def _is_text(text: str, name: str) -> bool:
    """Whether a name is in a text between two signs that a string, or its last part, is between."""
    at = text.find(name, 1)
    while at >= 0:
        if text[at - 1] in "\"'}.\\\n" and text[at + len(name) : at + len(name) + 1] in _ENDS:
            return True
        at = text.find(name, at + 1)
    return False


def _is_called(text: str, name: str) -> bool:
    """Whether `name(` is in a text, not as the end of a longer word, and not where something is defined."""
    call = f"{name}("
    at = text.find(call)
    while at >= 0:
        if not (_is_letter(text[at - 1 : at]) or _defines(text, at, "def ") or _defines(text, at, "class ")):
            return True
        at = text.find(call, at + 1)
    return False


def _defines(text: str, at: int, keyword: str) -> bool:
    before = at - len(keyword)
    return text.startswith(keyword, before) and not _is_letter(text[before - 1 : before]) if before >= 0 else False


def _is_letter(sign: str) -> bool:
    return sign.isalnum() or sign == "_"


def _is_attribute(text: str, name: str) -> bool:
    """Whether `.name` is in a text, not as the beginning of a longer word."""
    attribute = f".{name}"
    at = text.find(attribute)
    while at >= 0:
        end = at + len(attribute)
        if not _is_letter(text[end : end + 1]):
            return True
        at = text.find(attribute, end)
    return False


def _behind_broken(text: str) -> set[str]:
    """Return the words between which and a dot before them are blanks, comments or ends of lines."""
    names = set()
    ends = [match.start() for match in re.finditer("\n", text)] if _BROKEN.search(text) else []
    words: dict[int, str] = {}  # what stands behind the blanks and comments that begin somewhere
    for dot in reversed([match.end() for match in _BROKEN.finditer(text)]):
        at, passed = dot, [dot]
        while at not in words:
            at = _end_of(_BLANKS, text, at)
            if text[at : at + 1] == "#" and at not in words:
                passed.append(at)
                line = bisect_left(ends, at)
                at = ends[line] + 1 if line < len(ends) else len(text)
                passed.append(at)
            else:
                words.setdefault(at, text[at : _end_of(_WORD, text, at)])
        words |= dict.fromkeys(passed, words[at])
        if words[at]:
            names.add(words[at])
    return names


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
