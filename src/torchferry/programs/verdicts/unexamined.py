"""What of a project was not looked at, and how many words of CUDA it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from torchferry.core.files import LARGEST_SETTINGS, read_text
from torchferry.core.messages import Message, say, say_plural
from torchferry.programs.entry_points.written_commands import READ_FOR_COMMANDS
from torchferry.programs.imports.missing_sources import absent_submodules, words_of_cuda
from torchferry.programs.imports.packaging_metadata import INSTALLERS, LARGEST_DOCUMENT
from torchferry.programs.model import Unexamined
from torchferry.rules.analysis import Analysis
from torchferry.source.kinds import Kind, language_of
from torchferry.source.tree import MOST_IGNORED

_NATIVE = {Kind.CPP: "C, C++", Kind.KERNEL: "CUDA", Kind.CMAKE: "CMake"}
_MOST_BYTES = 1 << 28
"""Bytes that are read to count words."""


def unexamined(analysis: Analysis) -> tuple[Unexamined, ...]:
    """Return what of a project was not looked at.

    Args:
        analysis: The project, examined.
    """
    if analysis.project is None or analysis.listing is None:
        return ()
    return tuple(_Account(analysis, analysis.project.root).lines())


class _Account:
    def __init__(self, analysis: Analysis, root: Path) -> None:
        self.analysis = analysis
        self.root = root
        self.room = _MOST_BYTES

    def lines(self) -> Iterator[Unexamined]:
        listing = self.analysis.listing
        assert listing is not None
        if _is_unread(self.root / ".gitmodules"):
            yield Unexamined(".gitmodules", say("cannot be read, so it is not known which submodules are missing"), 0)
        for submodule in absent_submodules(self.root):
            yield Unexamined(submodule.path, say("a submodule that is not checked out ({url})", url=submodule.url), 0)
        yield from self._by_folder(listing.ignored, say("hidden by .gitignore, in a tree without git"))
        yield from self._by_folder(listing.excluded, say("left out by the settings or by `--exclude`"))
        for folder in listing.left_alone:
            yield Unexamined(folder, say("third-party packages, which are not examined"), 0)
        for folder in listing.built:
            yield Unexamined(folder, say("a folder that a build wrote, which is not examined"), 0)
        yield from self._too_large()
        yield from self._languages(listing.others)

    def _by_folder(self, paths: Iterable[str], reason: Message) -> Iterator[Unexamined]:
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        for folder, files in folders.items():
            place = files[0] if len(files) == 1 else f"{folder}/" if folder else "."
            yield Unexamined(place, reason, len(files), self._words(files))
        if sum(map(len, folders.values())) >= MOST_IGNORED:
            yield Unexamined("", say("more files of this kind, which were not counted"), 0)

    def _too_large(self) -> Iterator[Unexamined]:
        limit = self.analysis.largest
        for item in self.analysis.examined:
            try:
                size = os.lstat(self.root / item.path).st_size
            except OSError:
                continue
            if limit and size > limit:
                reason = say_plural(
                    "{count} byte is above the limit of {limit}",
                    "{count} bytes are above the limit of {limit}",
                    count=size,
                    limit=limit,
                )
                yield Unexamined(item.path, reason, 1, self._words([item.path]))
            elif size > LARGEST_DOCUMENT and (item.kind in READ_FOR_COMMANDS or Path(item.path).name in INSTALLERS):
                reason = say_plural(
                    "{count} byte: commands that start programs were not looked for in it",
                    "{count} bytes: commands that start programs were not looked for in it",
                    count=size,
                )
                yield Unexamined(item.path, reason, 1, self._words([item.path]))

    def _languages(self, others: Iterable[str]) -> Iterator[Unexamined]:
        """Yield the languages that programs are not followed into, where they speak of CUDA."""
        languages: dict[str, list[str]] = {}
        for item in self.analysis.examined:
            if item.kind in _NATIVE:
                languages.setdefault(_NATIVE[item.kind], []).append(item.path)
        for path in others:
            languages.setdefault(language_of(path), []).append(path)
        for language, paths in languages.items():
            words = self._words(paths)
            if words != 0:
                reason = (
                    say("counted, but no program is followed into it")
                    if language in _NATIVE.values()
                    else say("a language that is not read")
                )
                yield Unexamined(language, reason, len(paths), words)

    def _words(self, paths: Iterable[str]) -> int | None:
        """Return how many words of CUDA some files hold; None where one was not counted."""
        count = 0
        for path in paths:
            try:
                self.room -= os.lstat(self.root / path).st_size
            except OSError:
                return None
            words = words_of_cuda(self.root / path) if self.room >= 0 else None
            if words is None:
                return None
            count += words
        return count


def _is_unread(path: Path) -> bool:
    """Whether a file of settings is there and is not read: it is too large, or no file."""
    try:
        read_text(path, LARGEST_SETTINGS, "replace")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
