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
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.temporary import temporary_folder
from torchferry.report.model import Report, report_of
from torchferry.report.since import Since, added_lines, brought, renames
from torchferry.rules.analysis import Request, analyse
from torchferry.source.committed_tree import examinable_contents, is_same, write_tree
from torchferry.source.git import CommittedFile, committed_tree, comparable_commit, is_in_repository
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
    root, limit = setting.root, setting.request.options.max_file_size
    commit, files = _committed(root, revision)
    with doing(say("reading the earlier state from git")):
        present = dict(_read(root, setting.request.listing, limit))
        earlier = examinable_contents(root, files, present, limit)
    with temporary_folder(_PREFIX) as folder:
        before_root = folder / root.resolve().name  # a package may have the name of the project's folder
        write_tree(before_root, files, earlier)
        only = tuple(path for path in choices.only if os.path.lexists(before_root / path))
        listing = list_files(before_root, setting.config.exclude, only)
        if choices.only and not only:
            listing = listing._replace(entries=[])
        before = report_of_tree(setting, setting.request._replace(root=before_root, listing=listing))
    report = report_of_tree(setting, setting.request)
    examined = {entry.path for entry in listing.entries}
    differing = {path for path in examined | {*present} if earlier.get(path) != present.get(path)}
    unread = {entry.path for entry in setting.request.listing.entries if entry.path not in present}
    changed = differing | {path for path in unread if not _is_as_committed(root / path, files.get(path))}
    gone = {path: earlier[path] for path in differing if path in earlier and path not in present}
    come = {path: present[path] for path in differing if path in present and path not in examined}
    renamed = renames(gone, come)
    earlier_names = {path: path for path in examined} | {name: path for path, name in renamed.items()}
    lines = {
        path: added_lines(earlier.get(earlier_names.get(path, ""), b""), present[path])
        for path in differing
        if path in present
    }
    compared = brought(before.of_examined_files, report.of_examined_files, lines, renamed)
    # of a changed file that cannot be examined nobody knows what the change brings, also where it could not be before
    unexamined = (each for each in report.not_examined if each.location.path in changed)
    native = report.native
    return report._replace(
        findings=tuple(sorted((*compared.new, *unexamined), key=lambda finding: finding.location)),
        native=None if native is None or not any(file.path in changed for file in native.files) else native,
        partial=True,
        remarks=(say("Only what the change brings is shown; `torchferry scan` judges the programs."),),
        since=Since(revision, commit, tuple(sorted(changed)), compared.work_less),
    )


def report_of_tree(setting: RunSettings, request: Request) -> Report:
    """Return the report of a tree's files without its programs, by the settings of a run."""
    decisions = request.selection.decided
    analysis, native = with_survey(analyse(request), request.root, setting.target, decisions)
    return report_of(analysis, setting.target, setting.name, decisions=decisions)._replace(native=native)


def _committed(root: Path, revision: str) -> tuple[str, dict[str, CommittedFile]]:
    """Return the commit that is compared with, and its files."""
    if not is_in_repository(root):
        raise UsageError(
            say("{root} is not in a work tree of git", root=root),
            say("leave out --since to examine the project as it is"),
        )
    commit = comparable_commit(root, revision)
    tree = None if commit is None else committed_tree(root, commit)
    if commit is None or tree is None:
        raise UsageError(
            say("git knows no commit that `{revision}` shares with the present one", revision=revision),
            say("name a branch, tag or commit; a shallow clone needs its history: `git fetch --unshallow`"),
        )
    return commit, tree.files


def _read(root: Path, listing: Listing, limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files that are examined, as they are; the report says of the others that they cannot be read."""
    for entry in listing.entries:
        with contextlib.suppress(OSError):
            yield entry.path, read_regular(root / entry.path, limit)


def _is_as_committed(path: Path, committed: CommittedFile | None) -> bool:
    """Whether a file that is too large to be examined is that of a commit; what cannot be read at all is not."""
    if committed is None:
        return False
    try:
        return is_same(read_regular(path), committed.blob)
    except OSError:
        return False
