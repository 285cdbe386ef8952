"""A commit's files as a tree on the disk: what the examination of an earlier or a later state reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.source.git import CommittedFile, blob_of, committed_contents
from torchferry.source.kinds import kind_of

_MOST_BYTES = 1 << 29
"""What git hands over at once."""

_MOST_OTHERS = 20_000
"""Files that are not examined and are made empty, since rules may check whether they are there."""


def examinable_contents(
    root: Path, files: Mapping[str, CommittedFile], at_hand: Mapping[str, bytes], limit: int
) -> dict[str, bytes]:
    """Return the contents of the files that may be examined by their names and are no larger than is examined.

    Args:
        root: A folder of the repository.
        files: The files of a commit below it.
        at_hand: Contents by their paths: git is not asked for what is equal, but for its line ends.
        limit: Bytes of a file above which it is not examined.

    Raises:
        TorchferryError: git lacks contents, or they are too many.
    """
    contents: dict[str, bytes] = {}
    asked: list[str] = []
    for path, file in files.items():
        if file.size > limit or not may_be_examined(path):
            continue
        now = at_hand.get(path)
        if now is not None and is_same(now, file.blob):
            contents[path] = now
        else:
            asked.append(path)
    return contents | contents_of(root, files, asked)


def contents_of(root: Path, files: Mapping[str, CommittedFile], paths: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of some files of a commit.

    Raises:
        TorchferryError: git lacks contents, or they are too many.
    """
    asked = {path: files[path] for path in paths}
    size = sum(file.size for file in asked.values())
    if size > _MOST_BYTES:
        raise TorchferryError(
            say("the files that differ have {megabytes} MB, too many to compare", megabytes=size >> 20),
            say("choose a revision that is nearer"),
        )
    given = committed_contents(root, (file.blob for file in asked.values())) if asked else {}
    if given is None:
        raise TorchferryError(
            say("git lacks contents of the earlier state"),
            say("fetch them: `git fetch --refetch --filter=blob:limit=100m`, or clone without `--filter`"),
        )
    return {path: given[file.blob] for path, file in asked.items()}


def is_same(contents: bytes, blob: str) -> bool:
    """Whether contents are those of an id, also where git writes the line ends of Windows into the work tree."""
    return blob_of(contents, blob) == blob or (
        b"\r\n" in contents and blob_of(contents.replace(b"\r\n", b"\n"), blob) == blob
    )


def may_be_examined(path: str) -> bool:
    """Whether a file may be examined by its name; one without a suffix may be a script."""
    return kind_of(path) is not None or "." not in path.rpartition("/")[2]


def write_tree(root: Path, files: Mapping[str, CommittedFile], contents: Mapping[str, bytes]) -> None:
    """Write a commit's files into a new folder: those of which there are contents, the others empty.

    A file that is too large to be examined is as large, and has no bytes.
    """
    root.mkdir()
    others = 0
    for path, file in files.items():
        others += path not in contents
        if path not in contents and others > _MOST_OTHERS:
            continue
        place = root / path
        with contextlib.suppress(FileExistsError, NotADirectoryError):  # names that this system takes for the same
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as written:
                if path in contents:
                    written.write(contents[path])
                elif may_be_examined(path):
                    written.truncate(file.size)
