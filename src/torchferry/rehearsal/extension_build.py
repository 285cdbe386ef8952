"""What plugins have in place of `torch.utils.cpp_extension`: an extension can be described and not built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from setuptools import Extension  # type: ignore[import-untyped]
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

from torchferry.rehearsal.facade_support import extensions_unavailable


def describe(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Any:
    """Describe an extension to setuptools; it cannot be built here."""
    return Extension(name, sources, *args, language="c++", **kwargs)


def build_command(path: str) -> type:
    """Return the command that builds extensions, as the plugin has it at `path`; running it raises."""

    class BuildExtension(build_ext):  # type: ignore[misc]
        """The command that builds extensions."""

        @classmethod
        def with_options(cls, **options: Any) -> type:
            """Return the command with options filled in."""
            return type(cls.__name__, (cls,), {"options": options})

        def build_extensions(self) -> NoReturn:
            """Raise: extensions are not rehearsed."""
            extensions_unavailable(path)

    return BuildExtension


def loader(path: str) -> Callable[..., NoReturn]:
    """Return a function in place of the one at `path` that compiles and loads an extension; calling it raises."""

    def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:
        extensions_unavailable(path)

    load.__name__ = load.__qualname__ = path.rpartition(".")[2]
    load.__doc__ = "Compile and load an extension, which is not rehearsed."
    return load
