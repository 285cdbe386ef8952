"""A migration carried over to a later state of what it was made from.

Three states of each file are looked at: what a migration makes of the earlier upstream, the present file, in which a
person may have changed more, and what a migration makes of the later upstream. What changed from the first to the
last is made in the second; where both changed the same lines, a person has to choose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum

from torchferry.core.errors import UsageError
from torchferry.core.json_text import json_text, parsed_json
from torchferry.core.messages import Message, say, say_plural, translatable
from torchferry.core.record import NamedTuple

RECORD = "torchferry-upstream.json"
"""The file of a migrated project that says which commit of upstream it has arrived at."""

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class FileOutcome(Enum):
    """What becomes of a file that upstream has changed."""

    TAKEN = translatable("as upstream has it, migrated")
    MERGED = translatable("merged with what was changed here")
    ADDED = translatable("new")
    CONFLICT = translatable("both changed the same lines")
    KEPT = translatable("left as it is: upstream has removed it, or changed what was removed here")
    REMOVED = translatable("upstream has removed it: remove it")
    NO_FILE = translatable("upstream has changed a link, a submodule or permissions: do it by hand")


LEFT_TO_DO = frozenset({FileOutcome.CONFLICT, FileOutcome.KEPT, FileOutcome.REMOVED, FileOutcome.NO_FILE})
"""What a person has something to do about."""


class MergedFile(NamedTuple):
    """What becomes of a file.

    Attributes:
        path: Its path.
        outcome: What becomes of it.
        before: The present content; None where there is no file.
        after: What is to be written; None for nothing.
        conflicts: Places that a person has to choose between, marked in `after` as git marks them.
        earlier_path: Its path before upstream gave it another; empty where it has not.
    """

    path: str
    outcome: FileOutcome
    before: bytes | None = None
    after: bytes | None = None
    conflicts: int = 0
    earlier_path: str = ""


Merge = Callable[[bytes, bytes, bytes], tuple[bytes, int]]
"""Merges the present, the earlier and the later content; returns the result, and how many conflicts it marks."""


def merged_files(
    earlier: Mapping[str, bytes],
    present: Mapping[str, bytes],
    later: Mapping[str, bytes],
    renamed: Mapping[str, str],
    merge: Merge,
) -> Iterator[MergedFile]:
    """Yield what becomes of each file that differs between two states of upstream, in order of paths.

    Args:
        earlier: The migrated files of the earlier state, at least those that differ.
        present: The files as they are.
        later: The migrated files of the later state.
        renamed: The later paths of files by their earlier ones, where upstream gave them others.
        merge: Merges texts.
    """
    origins = {new: old for old, new in renamed.items()}
    for path in sorted({*earlier, *later}):
        if path in renamed:  # looked at by its new path
            if path in present:
                yield MergedFile(path, FileOutcome.REMOVED, present[path])
            continue
        origin = origins.get(path, "")
        base, new = earlier.get(origin or path), later.get(path)
        if base == new and not origin:
            continue
        ours = present.get(path, present.get(origin) if origin else None)
        file = _merged(path, base, ours, new, merge)
        if file is None and origin and path not in present:  # another name alone
            file = MergedFile(path, FileOutcome.TAKEN, after=new)
        if file is not None:
            yield file._replace(before=present.get(path), earlier_path=origin)


def _merged(path: str, base: bytes | None, ours: bytes | None, new: bytes | None, merge: Merge) -> MergedFile | None:
    if ours == new:
        return None
    if new is None:
        return MergedFile(path, FileOutcome.REMOVED if ours == base else FileOutcome.KEPT)
    if ours is None and base is None:
        return MergedFile(path, FileOutcome.ADDED, after=new)
    if ours is None:
        return MergedFile(path, FileOutcome.KEPT)
    if ours == base:
        return MergedFile(path, FileOutcome.TAKEN, after=new)
    if is_binary(ours) or is_binary(new):
        return MergedFile(path, FileOutcome.CONFLICT)
    text, conflicts = merge(ours, _with_ends_of(ours, base or b""), _with_ends_of(ours, new))
    if text == ours and not conflicts:
        return None  # what upstream changed stands there already
    return MergedFile(path, FileOutcome.CONFLICT if conflicts else FileOutcome.MERGED, after=text, conflicts=conflicts)


def is_binary(data: bytes) -> bool:
    """Whether contents are no text, which nobody merges line by line."""
    return b"\0" in data[:8000]  # as git has it


def _with_ends_of(ours: bytes, data: bytes) -> bytes:
    """Return contents with the line ends of others, which are Windows' where one of them is."""
    data = data.replace(b"\r\n", b"\n")
    return data.replace(b"\n", b"\r\n") if b"\r\n" in ours else data


def outcome_message(file: MergedFile) -> Message:
    """Return what became of a file, as a phrase."""
    words = say(file.outcome.value)
    if file.outcome is FileOutcome.CONFLICT and file.conflicts:
        places = say_plural("one place", "{count} places", count=file.conflicts)
        words = say("{what}: {places}", what=words, places=places)
    return say("{what}; it was {path}", what=words, path=file.earlier_path) if file.earlier_path else words


def recorded_commit(data: bytes | None) -> str:
    """Return the commit that a record says the project has arrived at; empty where there is no record.

    Raises:
        UsageError: it is none, or holds a conflict.
    """
    if data is None:
        return ""
    try:
        document = parsed_json(data.decode("utf-8"))
        commit = document.get("commit") if isinstance(document, dict) else None
    except ValueError:
        commit = None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise UsageError(
            say("{file} does not name a commit", file=RECORD),
            say("correct it, or remove it and name the commit with --from"),
        )
    return commit


def record_of(commit: str, revision: str) -> bytes:
    """Return the record of a commit that the project has arrived at."""
    return json_text({"commit": commit, "revision": revision}).encode()
