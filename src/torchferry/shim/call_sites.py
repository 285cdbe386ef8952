"""Where a program went through the redirect: each of its own lines, and the name of torch that it used there.

A process writes what it saw when it ends, and each new place at once, since some end without a word (`os._exit`, a
signal); the command that was started puts its processes together.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from types import FrameType
from typing import Any

from torchferry import __version__
from torchferry.core.json_text import json_text, parsed_json
from torchferry.core.shape import checked
from torchferry.core.userlines import UserLine, UserLines

SCHEMA = "1.0"

CountedUse = tuple[str, int, str, int]
"""A file, its line, the name that is used there, and how often."""


class CallSites:
    """The lines that one process saw, with their counts."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[UserLine, str]] = Counter()
        self._lines = UserLines()
        self._folder: Path | None = None

    def note(self, name: str) -> None:
        """Count a use of `name` for the user's line that is being executed."""
        self._count(self._lines.of(sys._getframe(2)), name)

    def _count(self, place: UserLine, name: str) -> None:
        self._counts[place, name] += 1
        if self._counts[place, name] == 1 and self._folder is not None:
            with contextlib.suppress(OSError), (self._folder / f"seen-{os.getpid()}.jsonl").open("a") as file:
                file.write(json.dumps([place.file, place.line, name]) + "\n")

    def counting_calls(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its calls."""

        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if not _is_torchs(frame):
                self._count(self._lines.of(frame), name)
            return function(*args, **kwargs)

        return call

    def write_into(self, folder: Path) -> None:
        """Write what this process sees, and what its children see, into `folder`; how often, when they end."""
        self._folder = folder

        def write() -> None:
            rows = [[place.file, place.line, name, times] for (place, name), times in self._counts.items()]
            (folder / f"sites-{os.getpid()}.json").write_text(json.dumps(rows), encoding="utf-8")

        atexit.register(write)
        os.register_at_fork(after_in_child=self._counts.clear)
        # multiprocessing's children end without atexit
        register_after_fork(self, lambda _: Finalize(None, write, exitpriority=0))


def _is_torchs(frame: FrameType | None) -> bool:
    """Whether torch itself calls: the program has nothing to rewrite there."""
    package = "torchferry"
    while frame is not None and package == "torchferry":
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        frame = frame.f_back
    return package == "torch"


def collect(folder: Path, target: str, root: Path) -> tuple[str, int]:
    """Return what all processes saw, and how many of them ended before they could count.

    What they saw is JSON: the lines below `root`, with a hash of each file to know it again by.
    """
    counts: Counter[tuple[str, int, str]] = Counter()
    broken_off = 0
    for seen in sorted(folder.glob("seen-*.jsonl")):
        rows = _counted(folder / f"sites-{seen.stem.removeprefix('seen-')}.json")
        broken_off += rows is None
        for file, line, name, times in _first_seen(seen) if rows is None else rows:
            counts[file, line, name] += times
    sites = []
    hashes: dict[str, str] = {}
    for (file, line, name), times in sorted(counts.items()):
        try:
            inside = Path(file).resolve().relative_to(root.resolve()).as_posix()
            hashes.setdefault(inside, hashlib.sha256(Path(file).read_bytes()).hexdigest())
        except (OSError, ValueError):
            continue  # not a file of the project: the prompt, or a program elsewhere
        sites.append({"path": inside, "line": line, "name": name, "times": times})
    document = {
        "schema": SCHEMA,
        "torchferry": __version__,
        "target": target,
        "root": str(root),
        "files": hashes,
        "sites": sites,
    }
    return json_text(document), broken_off


def _counted(path: Path) -> list[CountedUse] | None:
    """Return what a process wrote as it ended; None where it did not reach that, or not to the end of it."""
    try:
        rows = checked(parsed_json(path.read_bytes()), [[str, int, str, int]])
    except (OSError, ValueError):
        return None
    return [(file, line, name, times) for file, line, name, times in rows]


def _first_seen(path: Path) -> list[CountedUse]:
    """Return the places that a process wrote as it saw them, the last of which may be cut off."""
    rows: list[CountedUse] = []
    for text in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            file, line, name = checked(parsed_json(text), [str, int, str])
            rows.append((file, line, name, 1))
    return rows
