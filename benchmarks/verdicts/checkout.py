"""A tree of files as a repository has them at a labelled commit, from a clone, a bare git directory or an archive."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# a clone that lacks some contents is read as it is, and not completed over the network
ENVIRONMENT = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


class AbsentError(Exception):
    """The repository, or its commit, is not there; the text says which."""


def repository_options(parser: argparse.ArgumentParser) -> None:
    """Add what both benchmarks ask: where the repositories lie, and which of them to take."""
    parser.add_argument("--repos", default=os.environ.get("VERDICTS_REPOS", ""), help="instead of VERDICTS_REPOS")
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the names of repositories")


def materialise(folder: Path, name: str, commit: str, into: Path) -> Path:
    """Return a tree with the files of a repository at a commit.

    Where git has them they are written to `into`, which becomes a clone with an index, so that submodules and ignored
    files are what they are for a user. A folder without git is taken as it is: an archive that was unpacked.

    Raises:
        AbsentError: neither is in the folder.
    """
    place = next((folder / called for called in _called(name) if (folder / called).is_dir()), None)
    if place is None:
        raise AbsentError("not in the folder")
    git = next((path for path in _git_directories(place)), None)
    if git is None:
        return place
    listed = _git(git, "ls-tree", "-r", "-z", "--full-tree", commit)
    if listed.returncode:
        raise AbsentError(f"the clone has no commit {commit[:12]}")
    into.mkdir(parents=True)
    _write(git, listed.stdout, into)
    _make_clone(git, commit, into)
    return into


def _called(name: str) -> tuple[str, str]:
    return name.replace("/", "+"), name.split("/")[1]


def _git_directories(place: Path) -> Iterator[Path]:
    for path in (place, place / ".git", *sorted(place.glob("*")), *sorted(place.glob("*/.git"))):
        if (path / "HEAD").is_file() and (path / "objects").is_dir():
            yield path


def _git(git: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "--git-dir", str(git), *arguments], capture_output=True, check=False, env=ENVIRONMENT)


def _write(git: Path, listed: bytes, into: Path) -> None:
    """Write every regular file whose content the clone has; links, submodules and what is lacking are left out."""
    files = []
    for row in filter(None, listed.split(b"\0")):
        described, path = row.split(b"\t", 1)
        mode, kind, digest = described.split()
        if kind == b"blob" and mode != b"120000":
            files.append((digest, into / os.fsdecode(path)))
    asked = b"".join(digest + b"\n" for digest, _ in files)
    answer = subprocess.run(
        ["git", "--git-dir", str(git), "cat-file", "--batch"], input=asked, capture_output=True, check=True,
        env=ENVIRONMENT,
    ).stdout  # fmt: skip
    start = 0
    for _, target in files:
        end = answer.index(b"\n", start)
        head = answer[start:end].split()
        start = end + 1
        if head[1] == b"missing":
            continue
        size = int(head[2])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(answer[start : start + size])
        start += size + 1


def _make_clone(git: Path, commit: str, tree: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tree)], check=True, env=ENVIRONMENT)
    own = tree / ".git"
    (own / "objects" / "info" / "alternates").write_text(f"{git.resolve() / 'objects'}\n", encoding="utf-8")
    for arguments in (("update-ref", "HEAD", commit), ("read-tree", commit)):
        _git(own, *arguments).check_returncode()
