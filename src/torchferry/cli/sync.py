"""`torchferry sync`: carry a migrated project over to a later state of upstream."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from torchferry.cli.choices import Choices
from torchferry.cli.migrate import plan_of, tell_unknown
from torchferry.cli.options import selection_options, style_options
from torchferry.cli.settings import RunSettings, settle
from torchferry.cli.since import report_of_tree
from torchferry.core import exitcodes
from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import read_regular
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.core.temporary import temporary_folder
from torchferry.core.terminal import print_data, print_notice, print_text
from torchferry.core.write_fence import WriteFence
from torchferry.migration.patch import patch
from torchferry.migration.preconditions import refuse_uncommitted
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.migration.upstream import (
    LEFT_TO_DO,
    RECORD,
    FileOutcome,
    MergedFile,
    is_binary,
    merged_files,
    outcome_message,
    record_of,
    recorded_commit,
)
from torchferry.report.full_format import by_file
from torchferry.report.headline import verdict_sentence
from torchferry.report.model import Report
from torchferry.report.since import Since, brought, renames
from torchferry.source.committed_tree import contents_of, examinable_contents, write_tree
from torchferry.source.git import (
    CommittedTree,
    committed_tree,
    comparable_commit,
    is_ancestor,
    is_in_repository,
    known_commit,
    merged_text,
)

_PREFIX = "torchferry-sync-"


@click.command("sync")
@click.argument("revision", metavar="UPSTREAM_REV")
@selection_options
@click.option(
    "--from",
    "from_revision",
    default="",
    metavar="REV",
    help="The upstream commit that the project was migrated from; default: the one of the last sync, else the last "
    "commit that both histories share.",
)
@click.option("--unsafe-fixes", is_flag=True, help="Also make the fixes to read; read them first.")
@click.option("--diff", is_flag=True, help="Print a patch and write nothing; exit with 1 if something would change.")
@click.option("--allow-dirty", is_flag=True, help="Write even if there are uncommitted changes.")
@style_options
def command(
    revision: str,
    choices: Choices,
    from_revision: str,
    unsafe_fixes: bool,
    diff: bool,
    allow_dirty: bool,
    style: str,
    device_module: str,
) -> None:
    """Carry a migrated project over to a later state of upstream: a branch, tag or commit that git has here.

    Both states of upstream are migrated, outside of the project; what differs between them is made in the project's
    files, where what people changed stays. Where both changed the same lines, both texts are written, marked as git
    marks them. Give the options that the project was migrated with. `torchferry undo` restores every byte.
    """
    if choices.only or choices.home is not None or choices.seen is not None:
        raise UsageError(say("sync needs the project's folder"), say("name the folder alone"))
    lang = choices.lang
    choices = choices._replace(unsafe_fixes=unsafe_fixes, style=style, device_module=device_module)
    setting = settle(choices, rewrite=True)
    upstream = _upstream(setting.root, revision, from_revision)
    if upstream.earlier == upstream.later:
        print_text(
            say("the project is at {revision} ({commit})", revision=revision, commit=upstream.later[:10]).render(lang)
        )
        return
    with exclusive(setting.root, fence=WriteFence.around(setting.root)) as tree:
        files = _merged(setting, choices, upstream)
        writes = _writes(setting.root, files, upstream)
        if diff:
            print_data(patch(write for write in writes if not is_binary(write.after)))
        tell = print_notice if diff else print_text
        for file in files:
            tell(f"  {file.path}: {outcome_message(file).render(lang)}")
        if not diff:
            if not allow_dirty:
                refuse_uncommitted(setting.root)
            before = report_of_tree(setting, setting.request._replace(rewrite=False))
            tell_unknown(apply(tree, writes, setting.target.journal_key), setting.root, lang)
            _tell_new(settle(choices, rewrite=False), before, files, upstream, lang)
    is_left = any(file.outcome in LEFT_TO_DO for file in files)
    sys.exit(exitcodes.FINDINGS if is_left or diff else exitcodes.CLEAN)


class _Upstream(NamedTuple):
    """What the project goes from and to: commits, the name of the later one, and what both have."""

    revision: str
    earlier: str
    later: str
    earlier_tree: CommittedTree
    later_tree: CommittedTree


def _upstream(root: Path, revision: str, from_revision: str) -> _Upstream:
    if not is_in_repository(root):
        raise UsageError(
            say("{root} is not in a work tree of git", root=root), say("sync needs the history of both sides")
        )
    later = known_commit(root, revision)
    if not later:
        raise UsageError(
            say("git knows no commit `{revision}`", revision=revision), say("fetch it: `git fetch upstream --tags`")
        )
    if from_revision:
        earlier = known_commit(root, from_revision)
    else:
        recorded = recorded_commit(_present(root, [RECORD]).get(RECORD))
        shared = comparable_commit(root, revision) or ""
        # after a merge by hand the histories share more than the last sync knew
        earlier = (
            shared if not recorded or (shared and is_ancestor(root, recorded, shared)) else known_commit(root, recorded)
        )
    trees = [committed_tree(root, commit) if commit else None for commit in (earlier, later)]
    if trees[0] is None or trees[1] is None:
        raise UsageError(
            say("git does not know which commit of upstream the project was migrated from"),
            say("name it with --from; a shallow clone needs its history: `git fetch --unshallow`"),
        )
    return _Upstream(revision, earlier, later, trees[0], trees[1])


def _present(root: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """Return the files that are there; a link is none.

    Raises:
        TorchferryError: one cannot be read, so that nobody knows what a merge would lose.
    """
    contents: dict[str, bytes] = {}
    for path in paths:
        if not (root / path).is_symlink():
            try:
                contents[path] = read_regular(root / path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise TorchferryError(
                    say("cannot read {path}: {error}", path=root / path, error=error.strerror)
                ) from None
    return contents


def _merged(setting: RunSettings, choices: Choices, upstream: _Upstream) -> list[MergedFile]:
    """Return what becomes of each file that upstream has changed."""
    root, limit = setting.root, setting.request.options.max_file_size
    old_files, new_files = upstream.earlier_tree.files, upstream.later_tree.files
    with doing(say("migrating both states of upstream")), temporary_folder(_PREFIX) as folder:
        old = examinable_contents(root, old_files, {}, limit)
        new = examinable_contents(root, new_files, old, limit)
        renamed = renames(
            {path: data for path, data in old.items() if path not in new_files},
            {path: data for path, data in new.items() if path not in old_files},
        )
        states = []
        for name, committed, contents in (("earlier", old_files, old), ("later", new_files, new)):
            place = folder / name / root.resolve().name  # a package may have the name of the project's folder
            place.parent.mkdir()
            write_tree(place, committed, contents)
            states.append(contents | _migrated(place, setting, choices))
        differ = {path for path in {*old_files, *new_files} if old_files.get(path) != new_files.get(path)}
        differ |= {path for path in {*states[0], *states[1]} if states[0].get(path) != states[1].get(path)}
        earlier, later = (
            {path: state[path] for path in differ if path in state}
            | contents_of(root, committed, (path for path in differ if path in committed and path not in state))
            for state, committed in zip(states, (old_files, new_files), strict=True)
        )
        present = _present(root, {*differ, *renamed})
        files = [*merged_files(earlier, present, later, renamed, partial(_merge, folder, upstream))]
    return sorted((*files, *_no_files(upstream)), key=lambda file: file.path)


def _no_files(upstream: _Upstream) -> Iterator[MergedFile]:
    """Yield what upstream has changed besides the contents of files, which is not carried over."""
    earlier, later = upstream.earlier_tree, upstream.later_tree
    paths = {path for path in {*earlier.others, *later.others} if earlier.others.get(path) != later.others.get(path)}
    both = earlier.files.keys() & later.files.keys()
    paths |= {path for path in both if earlier.files[path].mode != later.files[path].mode}
    yield from (MergedFile(path, FileOutcome.NO_FILE) for path in paths)


def _migrated(place: Path, setting: RunSettings, choices: Choices) -> dict[str, bytes]:
    """Return what a migration of a tree writes, by the project's settings."""
    source = setting.config.source
    there = choices._replace(
        paths=(place,), around=None, config_file=source, isolated=source is None, exclude=(), target=str(setting.target)
    )
    _, planned = plan_of(settle(there, rewrite=True))
    return {write.path: write.after for write in planned.writes}


def _merge(folder: Path, upstream: _Upstream, ours: bytes, base: bytes, theirs: bytes) -> tuple[bytes, int]:
    names = ("ours", "base", "theirs")
    for name, data in zip(names, (ours, base, theirs), strict=True):
        (folder / name).write_bytes(data)
    labels = ("present", f"migrated {upstream.earlier[:10]}", f"migrated {upstream.later[:10]}")
    merged = merged_text(folder, names, labels)
    if merged is None:
        raise TorchferryError(
            say("git could not merge; nothing was written"), say("check that `git merge-file -h` runs")
        )
    return merged


def _writes(root: Path, files: Sequence[MergedFile], upstream: _Upstream) -> list[Write]:
    later = upstream.later_tree.files
    modes = {file.path: later[file.path].mode for file in files if file.path in later}
    writes = [
        Write(file.path, file.before, file.after, modes.get(file.path, 0o644))
        for file in files
        if file.after is not None
    ]
    record = _present(root, [RECORD]).get(RECORD)
    return [*writes, Write(RECORD, record, record_of(upstream.later, upstream.revision))]


def _tell_new(
    setting: RunSettings, before: Report, files: Sequence[MergedFile], upstream: _Upstream, lang: str
) -> None:
    """Say what upstream has brought: places that the project did not have."""
    report = report_of_tree(setting, setting.request)
    renamed = {file.earlier_path: file.path for file in files if file.earlier_path}
    compared = brought(before.findings, report.findings, {}, renamed)
    since = Since(upstream.revision, upstream.later, tuple(file.path for file in files), compared.work_less)
    report = report._replace(findings=compared.new, since=since, partial=True)
    print_text("", verdict_sentence(report).render(lang), *by_file(report.work, lang))
    root = shlex.quote(str(setting.root))
    print_text(
        "",
        say(
            "`torchferry undo {root}` restores what was there; commit `{record}` with the rest.",
            root=root,
            record=RECORD,
        ).render(lang),
    )
