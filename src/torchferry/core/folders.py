"""Folders that nobody vouches for: walked, copied and removed without recursion, since they can be nested deeply.

`os.walk`, `shutil.copytree`, `shutil.rmtree`, `Path.rglob` and `TemporaryDirectory` of older Pythons call themselves
for each level, and end in a RecursionError at a thousand.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from torchferry.core import system
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.system import HeldFolder


def walk(top: str | os.PathLike[str], *, lenient: bool = False) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a folder, its folders and its other files, then the same for each of its folders; no link is followed.

    Args:
        top: The first folder.
        lenient: Pass over a folder that cannot be read.

    Raises:
        TorchferryError: a folder cannot be read, or its path is longer than the system takes.
    """
    waiting = [os.fspath(top)]
    while waiting:
        folder = waiting.pop()
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(folder) as scan:
                for item in scan:
                    (folders if item.is_dir(follow_symlinks=False) else files).append(item.name)
        except OSError as error:
            if lenient:
                continue
            raise TorchferryError(say("cannot read {path}: {error}", path=folder, error=error.strerror)) from None
        yield folder, folders, files  # the receiver removes from `folders` what is not to be entered
        waiting += [os.path.join(folder, name) for name in reversed(folders)]


def identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return what tells a folder from every other, under each of its names; None for one that is not there.

    `os.path.realpath` does that too, with a question to the system for each folder above it.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def files_below(top: Path) -> Iterator[Path]:
    """Yield everything below a folder, the folders too; raises what `walk` does."""
    for folder, folders, files in walk(top):
        for name in (*folders, *files):
            yield Path(folder, name)


def copy_tree(source: Path, goal: Path, leave_out: Callable[[str, list[str]], Collection[str]]) -> None:
    """Copy a folder into one that is there; links are copied as links.

    Args:
        source: The folder.
        goal: Where its files go.
        leave_out: Gets a folder and the names in it, and returns those that are not copied.

    Raises:
        shutil.Error: something cannot be copied; its argument lists source, goal and reason of each.
    """
    failed: list[tuple[str, str, str]] = []
    folders: list[tuple[str, str]] = []
    with doing(say("copying files")) as work:
        waiting = [(os.fspath(source), os.fspath(goal))]
        while waiting:
            folder, into = waiting.pop()
            try:
                with os.scandir(folder) as scan:
                    items = list(scan)
                os.makedirs(into, exist_ok=True)
            except OSError as error:
                failed.append((folder, into, error.strerror or str(error)))
                continue
            folders.append((folder, into))
            unwanted = leave_out(folder, [item.name for item in items])
            for item in items:
                if item.name in unwanted:
                    continue
                place = os.path.join(into, item.name)
                try:
                    if item.is_dir(follow_symlinks=False):
                        waiting.append((item.path, place))
                    else:
                        shutil.copy2(item.path, place, follow_symlinks=False)
                        work.add()
                except OSError as error:
                    failed.append((item.path, place, error.strerror or str(error)))
    for folder, into in reversed(folders):  # the modes last: one may forbid writing
        with contextlib.suppress(OSError):
            shutil.copystat(folder, into)
    if failed:
        raise shutil.Error(failed)


def remove_tree(top: str | os.PathLike[str], last: str = "") -> None:
    """Remove a folder with all that is in it, as far as that is possible; no link is followed.

    Folders that lie deeper are moved up before they are emptied, so neither the length of a path nor the number of
    open files limits how deep they may lie.

    Args:
        top: The folder.
        last: A file in it that goes when all else is gone: whoever is killed before leaves it.
    """
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        held = system.open_folder(top)
        opened.callback(held.close)
        held.own_chmod(0o700)
        number = 0
        while folders := _remove_files(held, last):
            removed = False
            for name in folders:
                with contextlib.suppress(OSError):
                    number = _move_up(held, name, number)
                    held.remove_folder(name)
                    removed = True
            if not removed:
                break
        if last and held.names() == [last]:
            held.remove(last)
    with contextlib.suppress(OSError):
        os.rmdir(top)


def _remove_files(held: HeldFolder, but: str = "") -> list[str]:
    """Remove what is no folder, but for one file; return the names of the folders."""
    folders = []
    for name, is_folder in held.kinds():
        if is_folder:
            folders.append(name)
        elif name != but:
            with contextlib.suppress(OSError):
                held.remove(name)
    return folders


def _move_up(top: HeldFolder, name: str, number: int) -> int:
    """Remove the files of a folder below `top`, and move its folders beside it under numbers above `number`."""
    if system.is_link(top.status(name)):
        return number
    with contextlib.suppress(OSError):
        top.chmod(name, 0o700)
    inside = top.folder(name)
    try:
        for inner in _remove_files(inside):
            with contextlib.suppress(OSError):
                inside.chmod(inner, 0o700)  # a folder that nobody may write cannot be moved
            number += 1
            inside.replace(inner, top, f".{number}.{os.getpid()}.removed")
    finally:
        inside.close()
    return number
