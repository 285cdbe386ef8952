"""The report of a scan, kept until anything changes that it depends on: a second scan of the same tree looks it up.

A report is found by a hash of torchferry's own files, the settings of the run, the list of files and what they hold,
and all else that a scan looks at in the tree. What could depend on more than that is never kept: packages of an
environment, runs of programs, vendors that are not built in, faults, and files whose examination was ended.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from torchferry import __version__
from torchferry.backends.registry import built_in
from torchferry.cli.choices import Choices
from torchferry.cli.judging import whole_listing
from torchferry.cli.settings import RunSettings
from torchferry.core import env, finding, messages
from torchferry.core.files import read_regular
from torchferry.core.records_json import records_from_json, records_to_json
from torchferry.core.result_cache import ResultCache
from torchferry.programs import model as programs
from torchferry.report import model as report_model
from torchferry.report.model import Report
from torchferry.rules import mentions
from torchferry.rules.file.too_costly_file import TooCostlyFile
from torchferry.source.roles import Role

_MOST = 32
"""Reports that are kept, of all projects together."""

_MOST_FILES = 100_000
"""Files of a tree above which looking at each costs more than is won."""

_LEFT_OUT = frozenset({".git", ".torchferry", "__pycache__"})
"""Folders that nobody reads a program from."""

_SAID_OTHERWISE = frozenset({"listing", "target", "rules", "jobs", "afterwards"})
"""Fields of a request that decide nothing, or of which the rest of the hash says enough."""

_PACKAGE = Path(__file__).parent.parent


class ScanCache:
    """Looks up the report of a scan, and keeps it.

    Args:
        setting: The run.
        choices: What was asked for on the command line.
        folder: Where reports are kept.
        tree_state: All that lies in the tree, of `_everything`.
    """

    def __init__(
        self, setting: RunSettings, choices: Choices, folder: Path, tree_state: list[tuple[str, tuple[int, ...]]]
    ) -> None:
        self._setting = setting
        self._listings = [setting.request.listing, whole_listing(setting, choices)]
        self._cache = ResultCache(folder, _MOST)
        self._tree_state = tree_state
        parts = (
            __version__,
            sys.version,
            _own_files(),
            messages.language(),
            os.path.abspath(setting.root),
            str(setting.target),
            choices.only,
            # a field that is new counts until somebody says that it does not
            {name: value for name, value in setting.request._asdict().items() if name not in _SAID_OTHERWISE},
            {name: value for name, value in setting._asdict().items() if name not in ("request", "target")},
            self._digest(),
        )
        self._key = hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()

    @classmethod
    def of(cls, setting: RunSettings, choices: Choices) -> ScanCache | None:
        """Return the cache for a run; None where it depends on more than the project and its settings, or on too much.

        Nothing is kept in the project itself: it would be examined with it.
        """
        if (
            env.scans_anew()
            or setting.target.name not in built_in()
            or setting.style == "portable"
            or choices.seen is not None
            or choices.home is not None
            or any(not _LEFT_OUT.isdisjoint(path.split("/")) for path in (*choices.only, *choices.besides_root))
        ):
            return None
        try:
            folder = env.cache_folder() / "scans"
            is_inside = Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(setting.root))
        except (OSError, RuntimeError):  # a user without a home folder, a path that cannot be
            return None
        tree_state = None if is_inside else _everything(setting.root)
        return None if tree_state is None else cls(setting, choices, folder, tree_state)

    def load(self) -> Report | None:
        """Return the report of an earlier scan of the same, or None."""
        data = self._cache.read(self._key)
        if data is None:
            return None
        try:
            report, native = records_from_json(data, _classes())
        except (TypeError, ValueError):  # no such text, or no two of them
            return None
        if not isinstance(report, Report):
            return None
        if native is not None:
            from torchferry.kernels.survey import NativeSurvey  # imported late: most projects have no C++

            report = report._replace(native=NativeSurvey(self._setting.target, *native))
        return report

    def store(self, report: Report) -> None:
        """Keep a report, unless something was ended or touched while the tree was examined."""
        if report.failures or any(each.code == TooCostlyFile.CODE for each in report.findings):
            return
        if _everything(self._setting.root) != self._tree_state:
            return
        native = None if report.native is None else report.native[1:]  # all but the target
        with suppress(ValueError, RecursionError):
            text = records_to_json((report._replace(native=None), native), _classes())
            self._cache.write(self._key, text.encode())

    # --- the tree ---

    def _digest(self) -> str:
        """Return a hash of what the tree holds."""
        digest = hashlib.sha256()
        for part in self._parts():
            digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()

    def _parts(self) -> Iterator[bytes]:
        for listing in self._listings:
            yield repr(listing).encode("utf-8", "surrogateescape")
        yield repr(self._tree_state).encode("utf-8", "surrogateescape")
        for path in sorted({entry.path for listing in self._listings for entry in listing.entries}):
            yield path.encode("utf-8", "surrogateescape")
            try:
                yield read_regular(self._setting.root / path)
            except OSError as error:
                yield f"{error.errno}".encode()


def _everything(root: Path) -> list[tuple[str, tuple[int, ...]]] | None:
    """Return all that lies in a tree, and in what may be a port of it, with when it was changed; None for too much.

    A scan asks for more than the files that it lists: for documents that git ignores, archives, ports, and what links
    lead to. Of what git writes in its own folder it asks git alone, which the listing shows.
    """
    real = Path(os.path.abspath(root))
    ports = [real.parent / name for name in _names(real.parent) if name.startswith(f"{real.name}_")]
    files: list[tuple[str, tuple[int, ...]]] = []
    waiting = [str(root), *map(str, ports)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            files.append((folder, (error.errno or 0,)))
            continue
        for entry in inside:
            if entry.name in _LEFT_OUT:
                continue
            files.append((entry.path, _times(Path(entry.path))))
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
        if len(files) > _MOST_FILES:
            return None
    return files


def _times(path: Path) -> tuple[int, ...]:
    """Return what changes with a file, and with what it leads to where it is a link."""
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)  # what lies in it has its own place
    times = status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    if not stat.S_ISLNK(status.st_mode):
        return times
    with suppress(OSError):
        behind = os.stat(path)
        return (*times, behind.st_mode, behind.st_size, behind.st_mtime_ns, behind.st_ctime_ns, behind.st_ino)
    return times


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _own_files() -> tuple[tuple[str, int, int], ...]:
    """Return torchferry's own files and when each was written: what a scan says changes with them."""
    files = []
    for folder, _, names in os.walk(_PACKAGE):
        for name in names:
            if name.endswith((".py", ".toml", ".json")):
                status = os.lstat(os.path.join(folder, name))
                files.append((os.path.join(folder, name), status.st_size, status.st_mtime_ns))
    return tuple(sorted(files))


def _classes() -> list[type]:
    """Return the classes of what a report holds, in an order of their own."""
    from torchferry.kernels import device_code, review, survey  # imported late: a run may keep nothing

    kinds: dict[type, None] = {Role: None}
    for module in (messages, finding, programs, report_model, mentions, survey, device_code, review):
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__.startswith("torchferry."):
                kinds[value] = None
    return list(kinds)
