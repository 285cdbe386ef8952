"""The build files of a project, changed together with the port of its sources."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchferry.core.errors import UsageError
from torchferry.core.files import LARGEST, read_regular
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.buildfiles import is_build_file, port_build_file
from torchferry.kernels.buildfiles.model import BuildSettings
from torchferry.kernels.ported_tree import PortedTree
from torchferry.kernels.review import ReviewItem
from torchferry.migration.transaction import Write, apply, exclusive
from torchferry.source.text import UndecodableError, apply_edits, decode_python, decode_text

_HALF = lazy_regex(rb"\b__half2?\b|\bcuda_(?:fp16|bf16)\.h")
_HOST_SOURCES = (".cpp", ".cc", ".cxx", ".c")


class PortedBuild(NamedTuple):
    """What becomes of the build files of one folder.

    Attributes:
        root: The folder, which undo takes them back from.
        writes: The files that change.
        items: What is left to people, with paths relative to the folder.
    """

    root: Path
    writes: tuple[Write, ...]
    items: tuple[ReviewItem, ...]


def port_builds(
    ported: PortedTree, output: Path | None, files: Iterable[Path], style: str, macros: Mapping[str, str]
) -> list[PortedBuild]:
    """Return what becomes of build files, by their folders; nothing is written.

    Args:
        ported: The sources.
        output: The folder of their port; None where it is written over them.
        files: The build files.
        style: One of `STYLES`.
        macros: Macros of the project with their new names.

    Raises:
        UsageError: a file is none that builds, or the sources are not below its folder.
    """
    by_root: dict[Path, list[Path]] = {}
    for file in files:
        path = Path(os.path.abspath(file))
        if not is_build_file(path.name):
            raise UsageError(say("`{file}` is no build file that is known", file=file))
        by_root.setdefault(path.parent, []).append(path)
    half = any(file.path.endswith(_HOST_SOURCES) and _HALF.search(file.before) is not None for file in ported.files)
    builds = []
    for root, paths in by_root.items():
        folder = os.path.relpath(os.path.abspath(ported.root), root).replace(os.sep, "/")
        if folder.split("/")[0] in ("..", "."):
            raise UsageError(say("the sources in {folder} are not below {root}", folder=ported.root, root=root))
        place = folder if output is None else os.path.relpath(os.path.abspath(output), root).replace(os.sep, "/")
        settings = BuildSettings(ported.target, style, {folder: place}, (), dict(macros), half)
        builds.append(_one_folder(root, paths, settings))
    return builds


def _one_folder(root: Path, paths: Iterable[Path], settings: BuildSettings) -> PortedBuild:
    writes, items = [], []
    for path in paths:
        before = read_regular(os.fspath(path), LARGEST)
        try:
            source = decode_python(before) if path.suffix == ".py" else decode_text(before)
        except UndecodableError as error:
            items.append(ReviewItem(path.name, 1, 1, "build-unread", error.message, ""))
            continue
        result = port_build_file(path.name, source.text, settings)
        items += result.review
        if result.edits:
            after = source.encode(apply_edits(source.text, result.edits))
            writes.append(Write(path.name, before, after, path.stat().st_mode & 0o777))
    return PortedBuild(root, tuple(writes), tuple(items))


def write_builds(builds: Iterable[PortedBuild], journal_key: str) -> int:
    """Write the build files, those of each folder as one transaction; return how many."""
    written = 0
    for build in builds:
        if build.writes:
            with exclusive(build.root) as tree:
                apply(tree, list(build.writes), journal_key)
            written += len(build.writes)
    return written
