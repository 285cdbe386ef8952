"""`torchferry scan --since REV`: what a change brings, for who reviews it.

Both states are examined whole, since a line that changes in one file can give a name in another one its meaning. The
earlier one is read from git's objects into a temporary folder; nothing in the repository changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from torchferry.cli.choices import Choices
from torchferry.cli.native import with_survey
from torchferry.cli.settings import RunSettings
from torchferry.core.errors import UsageError
from torchferry.core.files import read_regular
from torchferry.core.finding import Grade
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.temporary import temporary_folder
from torchferry.report.model import Report, report_of
from torchferry.report.since import Since, added_lines, brought, renames
from torchferry.rules.analysis import analyse
from torchferry.source.committed_tree import examinable_contents, write_tree
from torchferry.source.git import CommittedFile, committed_files, comparable_commit, is_in_repository
from torchferry.source.tree import Listing, list_files

_PREFIX = "torchferry-since-"


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
        earlier = examinable_contents(root, files, present, setting.request.options.max_file_size)
    with temporary_folder(_PREFIX) as folder:
        before_root = folder / root.resolve().name  # a package may have the name of the project's folder
        write_tree(before_root, files, earlier)
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


def _text(contents: bytes) -> str:
    return contents.decode("utf-8", "replace")
