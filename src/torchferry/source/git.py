"""Ask git about a tree without letting the tree start a program.

A repository's own configuration, which an archive can carry, names programs that git starts: a file monitor, hooks,
filters of contents, and what fetches a missing object. All of them are switched off here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.core.tool_environment import tool_environment

_SAFELY = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")

_ENVIRONMENT = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Nothing is fetched, not even an object that the repository lacks; and nothing is written, not even git's index."""

SECONDS = 60
"""How long git may take: a named pipe in place of its own file makes it wait for ever."""


def repository_of(folder: Path) -> Path | None:
    """Return the nearest folder around one, or itself, that is the top of a work tree of git; None where none is."""
    return next((place for place in (folder.absolute(), *folder.absolute().parents) if (place / ".git").exists()), None)


def is_in_repository(root: Path) -> bool:
    """Whether a folder lies in a work tree of git."""
    return repository_of(root) is not None


def git(root: Path, *arguments: str, reads_contents: bool = False) -> str | None:
    """Run git in a folder and return what it prints; None where it fails or is not installed.

    Args:
        root: The folder.
        arguments: The command of git and its arguments.
        reads_contents: Whether this command compares contents of files, for which it would run filters.

    Raises:
        TorchferryError: git does not end.
    """
    options: list[str] = []
    for name in _own_filters(root) if reads_contents else ():
        if "=" in name:
            return None  # no option can switch it off
        options += ["-c", f"{name}.clean=", "-c", f"{name}.process=", "-c", f"{name}.required=false"]
    if reads_contents:  # git would run itself in each submodule, with the filters that this one configures
        command, *others = arguments
        arguments = (command, "--ignore-submodules=dirty", *others)
    return _run(root, *options, *arguments)


_MOST_SUBMODULES = 1_000


def tracked_files(root: Path) -> frozenset[str] | None:
    """Return the files below a folder that git tracks, by its index; None where git fails.

    Files of submodules that are checked out are among them: their own index says which. Nothing is fetched.
    """
    tracked: set[str] = set()
    todo, seen = [""], 0
    while todo:
        prefix = todo.pop()
        shown = git(root / prefix, "ls-files", "--stage", "-z")
        if shown is None:
            if not prefix:
                return None
            continue  # a submodule that git cannot read has no file that anybody vouches for
        for entry in shown.split("\0"):
            facts, tab, path = entry.partition("\t")
            if not tab:
                continue
            full = f"{prefix}/{path}" if prefix else path
            if not facts.startswith("160000"):
                tracked.add(full)
            elif (root / full / ".git").exists() and not (root / full).is_symlink() and seen < _MOST_SUBMODULES:
                todo.append(full)
                seen += 1
    return frozenset(tracked)


def shared_commit(root: Path) -> str:
    """Return the last commit that a branch shares with `origin`, which others can see; without it, the one that is out.

    A migrated project has commits of its own, which nobody finds at the address of the source. Empty without a commit.
    """
    for published in ("origin/HEAD", "@{upstream}"):
        shared = (git(root, "merge-base", "HEAD", published) or "").strip()
        if shared:
            return shared
    return (git(root, "rev-parse", "HEAD") or "").strip()


class CommittedFile(NamedTuple):
    """A file of a commit: the id of its contents, how many bytes they have, and the permission bits of the file."""

    blob: str
    size: int
    mode: int = 0o644


def comparable_commit(root: Path, revision: str) -> str | None:
    """Return the last commit that a revision shares with the one that is out, as a pull request is compared.

    None where git knows no such revision, or the two share none.
    """
    commit = known_commit(root, revision)
    return (git(root, "merge-base", "HEAD", commit) or "").strip() or None if commit else None


class CommittedTree(NamedTuple):
    """What a commit has below a folder.

    Attributes:
        files: Its files by their paths from the folder.
        others: Links, submodules, and names that could lead out of a folder, with what git says of each, by path.
    """

    files: dict[str, CommittedFile]
    others: dict[str, str]


def committed_tree(root: Path, commit: str) -> CommittedTree | None:
    """Return what a commit has below a folder; None where git fails."""
    shown = git(root, "ls-tree", "-r", "-l", "-z", commit)
    if shown is None:
        return None
    tree = CommittedTree({}, {})
    for facts, tab, path in (entry.partition("\t") for entry in shown.split("\0")):
        if not tab:
            continue
        mode, _, blob, size = facts.split()
        is_inside = not {"", ".", ".."} & {*path.split("/")}
        if mode in ("100644", "100755") and is_inside and size.isdigit():
            tree.files[path] = CommittedFile(blob, int(size), int(mode[3:], 8))
        else:
            tree.others[path] = facts
    return tree


def committed_contents(root: Path, blobs: Iterable[str]) -> dict[str, bytes] | None:
    """Return contents of a commit's files by their ids, as they were committed; None where git fails or lacks one."""
    asked = list(dict.fromkeys(blobs))
    shown, _ = _run_with(root, "".join(f"{blob}\n" for blob in asked), "cat-file", "--batch")
    contents: dict[str, bytes] = {}
    at = 0
    for blob in asked if shown is not None else ():
        assert shown is not None
        end = shown.find(b"\n", at)
        head = shown[at:end].split()
        if end < 0 or len(head) != 3 or head[0].decode("ascii", "replace") != blob or not head[2].isdigit():
            return None  # an object that a shallow or partial clone lacks
        contents[blob] = shown[end + 1 : end + 1 + int(head[2])]
        at = end + 2 + int(head[2])
    return None if shown is None else contents


def known_commit(root: Path, revision: str) -> str:
    """Return the commit that git knows by a name; empty where it knows none."""
    return (git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}") or "").strip()


def is_ancestor(root: Path, commit: str, other: str) -> bool:
    """Whether a commit is another one, or lies in its history."""
    return git(root, "merge-base", "--is-ancestor", commit, other) is not None


def merged_text(folder: Path, names: tuple[str, str, str], labels: tuple[str, str, str]) -> tuple[bytes, int] | None:
    """Return two files merged by what they had in common, and how many conflicts are marked; None where git fails.

    Args:
        folder: The folder of the files, outside of any repository.
        names: Ours, what both were made from, and theirs.
        labels: What they are called in marks of conflicts.
    """
    words = [word for label in labels for word in ("-L", label)]
    shown, status = _run_with(folder, "", "merge-file", "-p", "--diff3", *words, *names, most=127)
    return None if shown is None else (shown, status)


def blob_of(contents: bytes, like: str) -> str:
    """Return the id that git gives to contents, in the form of another id: of SHA-1, or of SHA-256."""
    digest = hashlib.sha256() if len(like) == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(contents))
    digest.update(contents)
    return digest.hexdigest()


def _own_filters(root: Path) -> set[str]:
    """Return the filters of contents that the repository itself configures, not those of the user, such as git-lfs."""
    filters: set[str] = set()
    for scope in ("--local", "--worktree"):
        shown = _run(root, "config", scope, "--includes", "--list", "--name-only", "-z") or ""
        filters |= {key.rpartition(".")[0] for key in shown.split("\0") if key.startswith("filter.")}
    return filters


def _run(root: Path, *arguments: str) -> str | None:
    shown, _ = _run_with(root, "", *arguments)
    return None if shown is None else os.fsdecode(shown)


def _run_with(root: Path, given: str, *arguments: str, most: int = 0) -> tuple[bytes | None, int]:
    """Run git, give it a text on its standard input, and return what it prints, None where it fails, and its status.

    Args:
        root: Where it runs.
        given: The text.
        arguments: Its command and arguments.
        most: The largest exit status that is no failure.
    """
    import subprocess  # imported late: a tree without git needs none

    command = ["git", *_SAFELY, "-C", os.fspath(root), *arguments]
    try:
        done = subprocess.run(
            command,
            input=given.encode(),
            capture_output=True,
            check=False,
            env={**tool_environment(), **_ENVIRONMENT},
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise TorchferryError(
            say("git did not end within {seconds} s in {root}", seconds=SECONDS, root=root),
            say("check whether `git -C {root} status` ends; a pipe instead of a file makes git wait", root=root),
        ) from None
    except OSError:
        return None, -1
    return (done.stdout if 0 <= done.returncode <= most else None), done.returncode
