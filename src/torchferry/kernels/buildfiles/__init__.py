"""Build scripts of CUDA extensions: what they need for a target, as edits, and what is left to people.

`port_build_data` takes the bytes of a file, `port_build_file` its text; each kind of file has its own module.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torchferry.core.messages import say
from torchferry.kernels.buildfiles.model import BuildSettings, PortedBuildFile, ReviewList
from torchferry.kernels.review import ReviewItem
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.text import SourceText, UndecodableError, apply_edits, decode_python, decode_text

_PORTERS = {
    Kind.CMAKE: ("cmake", "port_cmake"),
    Kind.PYPROJECT: ("other_files", "port_pyproject"),
    Kind.MANIFEST: ("other_files", "port_manifest"),
    Kind.MESON: ("other_files", "review_meson"),
    Kind.BAZEL: ("other_files", "review_bazel"),
}
"""The module and the function that port a file of a kind; most trees of kernels have none, and import none."""

_PYTHON = ("python_script", "port_python")

MOST_BYTES = 8_000_000
"""Larger files are reported, and not read."""


def is_build_file(path: str) -> bool:
    """Whether a file, by its name, may say how extensions are built."""
    return _porter_name(path) is not None


def _porter_name(path: str) -> tuple[str, str] | None:
    """Return module and function that port a file, by its name; a stub (`.pyi`) builds nothing."""
    name = path.rpartition("/")[2]
    if name.endswith((".py", ".pyw")) and not name.startswith(".py"):
        return _PYTHON
    kind = kind_of(path)
    return None if kind is None else _PORTERS.get(kind)


def _porter_of(path: str) -> Callable[[str, str, BuildSettings], PortedBuildFile] | None:
    named = _porter_name(path)
    if named is None:
        return None
    porter: Callable[[str, str, BuildSettings], PortedBuildFile]
    porter = getattr(importlib.import_module(f"{__name__}.{named[0]}"), named[1])
    return porter


def port_build_file(path: str, text: str, settings: BuildSettings) -> PortedBuildFile:
    """Return what becomes of one file; one that builds nothing comes back without edits.

    Args:
        path: The file, relative to the root, with `/`.
        text: Its decoded text.
        settings: How it is to be ported.
    """
    porter = _porter_of(path)
    if porter is None:
        return PortedBuildFile(path)
    return porter(path, text, settings)


def port_build_data(path: str, data: bytes, settings: BuildSettings) -> tuple[bytes, tuple[ReviewItem, ...]]:
    """Return the bytes of a build file after the port, and what is left to people; bytes that stay are the same.

    Args:
        path: The file, relative to the root, with `/`.
        data: Its bytes.
        settings: How it is to be ported.
    """
    review = ReviewList(path, SourceText(""))
    if len(data) > MOST_BYTES:
        review.add(0, "build-unread", say("larger than {limit} bytes: it was not read", limit=MOST_BYTES))
        return data, review.items()
    try:
        source = decode_python(data) if path.endswith((".py", ".pyw")) else decode_text(data)
    except UndecodableError as error:
        review.add(0, "build-unread", error.message)
        return data, review.items()
    ported = port_build_file(path, source.text, settings)
    return source.encode(apply_edits(source.text, ported.edits)) if ported.edits else data, ported.review
