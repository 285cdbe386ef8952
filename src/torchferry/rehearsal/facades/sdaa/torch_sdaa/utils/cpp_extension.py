"""Building C++ and SDAA extensions. Source: github.com/Tecorigin/teco-ops@c58369950e39 setup.py."""

from __future__ import annotations

from typing import Any, NoReturn

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from torchferry.rehearsal import vendor_package as _vendor_package


def TecoExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: N802
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
        _vendor_package.extensions_unavailable("torch_sdaa.utils.cpp_extension.BuildExtension")


def load_inline(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Compile and load an extension, which is not rehearsed."""
    _vendor_package.extensions_unavailable("torch_sdaa.utils.cpp_extension.load_inline")
