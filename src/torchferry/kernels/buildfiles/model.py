"""What the porting of build scripts is given, and what it gives back."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from torchferry.backends.build_facts import BuildFacts, build_facts
from torchferry.backends.target import Target
from torchferry.core.finding import Edit
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.kernels.review import ReviewItem
from torchferry.source.text import SourceText

STYLES = ("branch", "replace")
"""How a build script is changed: `branch` adds what the target needs beside what CUDA needs, under a variable of the
environment; `replace` writes the target's in place of CUDA's."""

_STEPS = lazy_regex(r"(?:\.{1,2}/)*")

_MOST_ITEMS = 500
"""Review items of one file; what is beyond is counted in the last one."""


class BuildSettings(NamedTuple):
    """How build scripts are to be ported.

    Attributes:
        target: Where the extensions are to run.
        style: One of `STYLES`.
        folders: Folders of sources that were ported, with where their ports are: both relative to the root, with `/`.
        ignored: Folders within these that were not ported, relative to the root, with `/`.
        macros: The project's own macros that the port renamed, with their new names.
        half_sources: Whether C++ sources use CUDA's half types, which the host's compiler does not know on some
            targets.
    """

    target: Target
    style: str = "branch"
    folders: Mapping[str, str] = {}
    ignored: tuple[str, ...] = ()
    macros: Mapping[str, str] = {}
    half_sources: bool = False

    @property
    def facts(self) -> BuildFacts:
        """How extensions for the target are built."""
        return build_facts(self.target.backend)


class PortedBuildFile(NamedTuple):
    """What becomes of one build file.

    Attributes:
        path: The file, relative to the root, with `/`.
        edits: What changes, as spans of the decoded text: sorted, and none overlaps another.
        review: What is left to people.
    """

    path: str
    edits: tuple[Edit, ...] = ()
    review: tuple[ReviewItem, ...] = ()


class ReviewList:
    """Collects the review items of one file, each place and kind once."""

    def __init__(self, path: str, source: SourceText) -> None:
        self._path = path
        self._source = source
        self._items: dict[tuple[int, str, str], ReviewItem] = {}

    def add(self, offset: int, kind: str, message: Message) -> None:
        """Add an item at an offset of the text."""
        line, column = self._source.position(offset)
        key = line, kind, message.template
        if key not in self._items and len(self._items) < _MOST_ITEMS:
            excerpt = self._source.line_text(line).strip()[:120]
            self._items[key] = ReviewItem(self._path, line, column, kind, message, excerpt)

    def items(self) -> tuple[ReviewItem, ...]:
        """Return the items by their place."""
        return tuple(sorted(self._items.values(), key=lambda item: (item.line, item.column, item.kind)))


class Renaming:
    """Where the ported sources are, as a build file in one folder names them."""

    def __init__(self, settings: BuildSettings, path: str) -> None:
        base = posixpath.dirname(path)
        self.folders = {
            posixpath.relpath(folder, base or "."): posixpath.relpath(output, base or ".")
            for folder, output in settings.folders.items()
            if folder != output and not f"{base}/".startswith(f"{folder}/")  # a file in it moves along
        }
        self._ignored = [posixpath.relpath(folder, base or ".") for folder in settings.ignored]
        self.suffixes = settings.facts.uses("suffix")
        self.macros = dict(settings.macros)
        ordered = sorted(self.suffixes, key=len, reverse=True)
        self._ending = re.compile(f"(?:{'|'.join(map(re.escape, ordered))})\\Z") if ordered else None

    def ported_name(self, name: str) -> str:
        """Return the name of a source, or of a pattern for sources, after the port; the same where nothing changes."""
        if self.is_ignored(name):
            return name
        for folder, output in sorted(self.folders.items(), key=lambda pair: -len(pair[0])):
            found = folder_in(name, folder)
            if found is not None:
                name = name[: found[0]] + output + name[found[1] :]
                break
        return name if self._ending is None else self._ending.sub(lambda match: self.suffixes[match.group()], name)

    def is_ignored(self, name: str) -> bool:
        """Whether a path is, or lies in, what was not ported: there is no port of it to name."""
        return any(folder_in(name, folder) is not None for folder in self._ignored)

    def is_source(self, name: str) -> bool:
        """Whether a text ends as a CUDA source or as a pattern for some."""
        return self._ending is not None and self._ending.search(name) is not None


def folder_in(name: str, folder: str) -> tuple[int, int] | None:
    """Return where a path holds a folder as a whole: at its beginning, or behind `./`, `../` or a variable."""
    steps = _STEPS.match(name)
    assert steps is not None
    newline = name.find("\n")
    at = name.find(folder)
    while at >= 0:
        end = at + len(folder)
        leads = at == 0 or (name[at - 1] == "/" and at <= steps.end())
        behind_variable = name.endswith(("}/", ")/"), 0, at) and (newline < 0 or newline >= at)
        if (leads or behind_variable) and name[end : end + 1] in ("", "/"):
            return at, end
        at = name.find(folder, at + 1)
    return None


def disjoint(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Return the edits in order; of two that overlap the one that begins first, and of those the longer one."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda edit: (edit.start, -edit.end, edit.text)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return tuple(kept)
