"""`torchferry scan --since REV`: what a change brings, for who reviews it.

Both states are examined whole, since a line that changes in one file can give a name in another one its meaning. The
earlier one is read from git's objects into a temporary folder; nothing in the repository changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.cli.native import with_survey
from torchferry.cli.settings import RunSettings
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular
from torchferry.core.finding import Grade
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.temporary import temporary_folder
from torchferry.report.model import Report, report_of
from torchferry.report.since import Since, added_lines, brought, renames
from torchferry.rules.analysis import analyse
from torchferry.source.git import (
    CommittedFile,
    blob_of,
    committed_contents,
    committed_files,
    comparable_commit,
    is_in_repository,
)
from torchferry.source.kinds import kind_of
from torchferry.source.tree import Listing, list_files

_PREFIX = "torchferry-since-"

_MOST_BYTES = 1 << 29
"""What git hands over at once: the earlier contents of the files that differ."""

_MOST_OTHERS = 20_000
"""Files that are not examined and are made empty in the earlier state, since rules may ask whether they are there."""


def report_since(setting: RunSettings, choices: Choices, revision: str) -> Report:
    """Return the report of what has come since a revision.

    Args:
        setting: The run.
        choices: What was asked for on the command line.
        revision: What git knows a commit by.

    Raises:
        UsageError: the project is in no repository, or git knows no commit that the revision shares with the present
            one.
        TorchferryError: git lacks contents of that commit, or they are too many.
    """
    root, decisions = setting.root, setting.request.selection.decided
    commit, files = _committed(root, revision)
    with doing(say("reading the earlier state from git")):
        present = dict(_read(root, setting.request.listing, setting.request.options.max_file_size))
        earlier = _earlier(root, files, present, setting.request.options.max_file_size)
    with temporary_folder(_PREFIX) as folder:
        before_root = folder / root.resolve().name  # a package may have the name of the project's folder
        _write(before_root, files, earlier)
        only = tuple(path for path in choices.only if os.path.lexists(before_root / path))
        listing = list_files(before_root, setting.config.exclude, only)
        if choices.only and not only:
            listing = listing._replace(entries=[])
        request = setting.request._replace(root=before_root, listing=listing)
        analysis, _ = with_survey(analyse(request), before_root, setting.target, decisions)
        before = report_of(analysis, setting.target, setting.name, decisions=decisions)
    analysis, native = with_survey(analyse(setting.request), root, setting.target, decisions)
    report = report_of(analysis, setting.target, setting.name, decisions=decisions)
    examined = {entry.path for entry in listing.entries}
    changed = tuple(sorted(path for path in examined | {*present} if earlier.get(path) != present.get(path)))
    gone = {path: _text(earlier[path]) for path in changed if path in earlier and path not in present}
    come = {path: _text(present[path]) for path in changed if path in present and path not in examined}
    renamed = renames(gone, come)
    earlier_names = {path: path for path in examined} | {name: path for path, name in renamed.items()}
    lines = {
        path: added_lines(_text(earlier.get(earlier_names.get(path, ""), b"")), _text(present[path]))
        for path in changed
        if path in present
    }
    compared = brought(before.findings, report.findings, lines, renamed)
    return report._replace(
        findings=compared.new,
        native=None if native is None or not any(file.path in changed for file in native.files) else native,
        partial=True,
        remarks=(say("Only what the change brings is shown; `torchferry scan` judges the programs."),),
        since=Since(revision, commit, changed, sum(finding.grade is not Grade.NOTE for finding in compared.gone)),
    )


def _committed(root: Path, revision: str) -> tuple[str, dict[str, CommittedFile]]:
    """Return the commit that is compared with, and its files."""
    if not is_in_repository(root):
        raise UsageError(
            say("{root} is not in a work tree of git", root=root),
            say("leave out --since to examine the project as it is"),
        )
    commit = comparable_commit(root, revision)
    files = None if commit is None else committed_files(root, commit)
    if commit is None or files is None:
        raise UsageError(
            say("git knows no commit that `{revision}` shares with the present one", revision=revision),
            say("name a branch, tag or commit; a shallow clone needs its history: `git fetch --unshallow`"),
        )
    return commit, files


def _read(root: Path, listing: Listing, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files that are examined, as they are; the report says of the others that they cannot be read."""
    for entry in listing.entries:
        with contextlib.suppress(OSError):
            yield entry.path, read_regular(root / entry.path, limit)


def _earlier(
    root: Path, files: Mapping[str, CommittedFile], present: Mapping[str, bytes], limit: int
) -> dict[str, bytes]:
    """Return the earlier contents of the files that may be examined and are no larger than is examined."""
    contents: dict[str, bytes] = {}
    differ: dict[str, CommittedFile] = {}
    for path, file in files.items():
        if file.size > limit or not _may_be_examined(path):
            continue
        now = present.get(path)
        if now is not None and _is_same(now, file.blob):
            contents[path] = now
        else:
            differ[path] = file
    size = sum(file.size for file in differ.values())
    if size > _MOST_BYTES:
        raise TorchferryError(
            say("{count} files differ, of {megabytes} MB", count=len(differ), megabytes=size >> 20),
            say("compare with a later revision, or name folders"),
        )
    given = committed_contents(root, (file.blob for file in differ.values())) if differ else {}
    if given is None:
        raise TorchferryError(
            say("git lacks contents of the earlier state"),
            say("fetch them: `git fetch --refetch --filter=blob:limit=100m`, or clone without `--filter`"),
        )
    return contents | {path: given[file.blob] for path, file in differ.items()}


def _is_same(contents: bytes, blob: str) -> bool:
    """Whether contents are those of an id, also where git writes the line ends of Windows into the work tree."""
    return blob_of(contents, blob) == blob or (
        b"\r\n" in contents and blob_of(contents.replace(b"\r\n", b"\n"), blob) == blob
    )


def _may_be_examined(path: str) -> bool:
    """Whether a file may be examined by its name; one without a suffix may be a script."""
    return kind_of(path) is not None or "." not in path.rpartition("/")[2]


def _write(root: Path, files: Mapping[str, CommittedFile], contents: Mapping[str, bytes]) -> None:
    """Write the earlier state into a new folder."""
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
                elif _may_be_examined(path):
                    written.truncate(file.size)  # too large to be examined, and without its bytes too


def _text(contents: bytes) -> str:
    return contents.decode("utf-8", "replace")
