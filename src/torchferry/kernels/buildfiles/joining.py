"""The build files of a project, changed together with the port of its sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError, UsageError
from torchferry.core.files import LARGEST, read_regular
from torchferry.core.messages import say
from torchferry.core.record import NamedTuple
from torchferry.kernels.buildfiles import is_build_file, port_build_data
from torchferry.kernels.buildfiles.model import BuildSettings
from torchferry.kernels.ported_tree import PortedTree, has_half_in_host_code
from torchferry.kernels.review import ReviewItem


class PortedNeighbour(NamedTuple):
    """A file outside of the ported folder that changes with it: a build file, or a test.

    Attributes:
        path: The file, absolute.
        before: Its bytes before any port.
        after: What is to be written; the same where nothing changes.
        mode: Its permission bits.
        items: What is left to people, with paths as a person names them.
    """

    path: Path
    before: bytes
    after: bytes
    mode: int
    items: tuple[ReviewItem, ...]


def port_builds(
    ported: PortedTree, output: Path | None, files: Iterable[Path], style: str, original: Callable[[Path], bytes | None]
) -> list[PortedNeighbour]:
    """Return what becomes of build files; nothing is written.

    Args:
        ported: The sources.
        output: The folder of their port; None where it is written over them.
        files: The build files. One of the ported folder was ported with it, and is left out.
        style: One of `STYLES`.
        original: Returns the content that a file had before an earlier port; None where there was none.

    Raises:
        TorchferryError: a file cannot be read, or is reached by a link.
        UsageError: a file is none that builds, or the sources are not below its folder.
    """
    half = has_half_in_host_code(ported.files)
    builds = []
    for file in files:
        path = Path(os.path.abspath(file))
        if not is_build_file(path.name):
            raise UsageError(
                say("--build: torchferry does not know `{file}` as a build file", file=file),
                say(
                    "name a Python build script, CMakeLists.txt, pyproject.toml, MANIFEST.in, or a file of "
                    "Meson or Bazel"
                ),
            )
        root = path.parent
        folder = os.path.relpath(os.path.abspath(ported.root), root).replace(os.sep, "/")
        if not folder.strip("./"):
            continue
        if folder.split("/")[0] == "..":
            raise UsageError(
                say("--build: the sources in {folder} are not below {root}", folder=ported.root, root=root),
                say("name a build file in a folder above the sources"),
            )
        place = folder if output is None else os.path.relpath(os.path.abspath(output), root).replace(os.sep, "/")
        ignored = tuple(f"{folder}/{each}" for each in ported.ignored)  # they have no port that could be named
        settings = BuildSettings(ported.target, style, {folder: place}, ignored, ported.rules.names, half)
        content, mode = content_of(path)
        before = original(path)
        before = content if before is None else before
        after, items = port_build_data(path.name, before, settings)
        if after == before and not items and path.suffix in (".py", ".pyw", ".txt", ".cmake"):
            message = say("no build of CUDA code was found in this file: it stays as it is")
            items = (ReviewItem(path.name, 1, 1, "build-extension", message, ""),)
        builds.append(PortedNeighbour(path, before, after, mode, items))
    return builds


def content_of(path: Path) -> tuple[bytes, int]:
    """Return the content of a file that is to be changed, and its permission bits.

    Raises:
        TorchferryError: it cannot be read, or is a link, which is never followed for writing.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            raise TorchferryError(say("{path} is a link", path=path), say("name the file that it points to"))
        return read_regular(path, LARGEST), stat.S_IMODE(status.st_mode)
    except OSError as error:
        raise TorchferryError(say("cannot read {path}: {error}", path=path, error=error.strerror)) from None
