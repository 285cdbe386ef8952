"""Build scripts of CUDA extensions: what they need for a target, as edits, and what is left to people.

`port_build_files` takes the files of a project; each kind of file has a module of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torchferry.core.messages import say
from torchferry.kernels.buildfiles.cmake import port_cmake
from torchferry.kernels.buildfiles.model import BuildSettings, PortedBuildFile, ReviewList
from torchferry.kernels.buildfiles.other_files import port_manifest, port_pyproject, review_bazel, review_meson
from torchferry.kernels.buildfiles.python_script import port_python
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.text import SourceText, UndecodableError, decode_python, decode_text

_PORTERS = {
    Kind.PYTHON: port_python,
    Kind.CMAKE: port_cmake,
    Kind.PYPROJECT: port_pyproject,
    Kind.MANIFEST: port_manifest,
    Kind.MESON: review_meson,
    Kind.BAZEL: review_bazel,
}
MOST_BYTES = 8_000_000
"""Larger files are reported, and not read."""


def is_build_file(path: str) -> bool:
    """Whether a file, by its name, may say how extensions are built."""
    return kind_of(path) in _PORTERS


def port_build_file(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what becomes of one file; one that builds nothing comes back without edits.

    Args:
        path: The file, relative to the root, with `/`.
        text: Its decoded text.
        settings: How it is to be ported.
    """
    kind = kind_of(path)
    porter = _PORTERS.get(kind) if kind is not None else None
    if porter is None:
        return PortedBuildFile(path)
    inside = any(path.startswith(f"{folder}/") for folder in settings.folders)
    if inside and kind is Kind.CMAKE:
        settings = settings._replace(style="replace")  # the copy in the ported folder is for the target alone
    return porter(path, text, settings)


def port_build_files(root: Path, paths: Iterable[str], settings: BuildSettings) -> list[PortedBuildFile]:
    """Return what becomes of the build files among `paths`; those without edits and items are left out."""
    ported = []
    for path in paths:
        if not is_build_file(path):
            continue
        content = (root / path).read_bytes()
        review = ReviewList(path, SourceText(""))
        if len(content) > MOST_BYTES:
            review.add(0, "build-unread", say("larger than {limit} bytes: it was not read", limit=MOST_BYTES))
            ported.append(PortedBuildFile(path, (), review.items()))
            continue
        try:
            source = decode_python(content) if kind_of(path) is Kind.PYTHON else decode_text(content)
        except UndecodableError as error:
            review.add(0, "build-unread", error.message)
            ported.append(PortedBuildFile(path, (), review.items()))
            continue
        one = port_build_file(path, source.text, settings)
        if one.edits or one.review:
            ported.append(one)
    return ported
