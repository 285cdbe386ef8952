"""Building C++ and MUSA extensions. Source: torch_musa/utils/musa_extension.py, 2.7.1: names and arguments."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from torchferry.rehearsal import vendor_package as _vendor_package

MUSA_HOME = os.environ.get("MUSA_HOME") or os.environ.get("MUSA_PATH")
MUDNN_HOME = os.environ.get("MUDNN_HOME") or os.environ.get("MUDNN_PATH")


def MUSAExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: N802
    """Describe an extension to setuptools; it cannot be built here."""
    return Extension(name, sources, *args, language="c++", **kwargs)


class BuildExtension(build_ext):
    """The command that builds extensions."""

    @classmethod
    def with_options(cls, **options: Any) -> type:
        """Return the command with options filled in."""
        return type(cls.__name__, (cls,), {"options": options})

    def build_extensions(self) -> NoReturn:
        """Raise: extensions are not rehearsed."""
        _vendor_package.extensions_unavailable("torch_musa.utils.musa_extension.BuildExtension")


def load(name: str, sources: str | list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Compile and load an extension, which is not rehearsed."""
    _vendor_package.extensions_unavailable("torch_musa.utils.musa_extension.load")


def load_inline(name: str, cpp_sources: str | list[str], *args: Any, **kwargs: Any) -> NoReturn:
    """Compile and load an extension, which is not rehearsed."""
    _vendor_package.extensions_unavailable("torch_musa.utils.musa_extension.load_inline")
