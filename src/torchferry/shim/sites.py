"""Where a program went through the redirect: each of its own lines, and the name of torch that it used there.

A process writes what it saw when it ends; the command that was started puts its processes together.
"""

from __future__ import annotations

import atexit
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
from torchferry.core.userlines import Place, UserLines

SCHEMA = "1.0"


class Sites:
    """The lines that one process saw, with their counts."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Place, str]] = Counter()
        self._lines = UserLines()

    def note(self, name: str) -> None:
        """Count a use of `name` for the user's line that is being executed."""
        self._counts[self._lines.of(sys._getframe(2)), name] += 1

    def noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts its calls."""

        def call(*args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if not _is_torchs(frame):
                self._counts[self._lines.of(frame), name] += 1
            return function(*args, **kwargs)

        return call

    def write_into(self, folder: Path) -> None:
        """Write what this process saw, and what its children see, into `folder` when they end."""

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


def collect(folder: Path, target: str, root: Path) -> str:
    """Return what all processes saw, as JSON: the lines below `root`, with a hash of each file to know it again by."""
    counts: Counter[tuple[str, int, str]] = Counter()
    for path in sorted(folder.glob("sites-*.json")):
        for file, line, name, times in json.loads(path.read_text(encoding="utf-8")):
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
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"
