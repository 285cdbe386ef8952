"""Kernels and registrations as a library that torch loads, made with the C++ compiler of the machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torchferry.core import env
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import files_below
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.core.temporary import temporary_folder
from torchferry.core.tool_environment import tool_environment
from torchferry.rehearsal.build import compiler

_HOST = frozenset({".cc", ".cpp", ".cxx"})

_FLAGS = ("-std=c++20", "-fPIC", "-O1")


class Build(NamedTuple):
    """What a library is built from.

    Attributes:
        sources: C++ files.
        includes: Folders with headers.
        torch: The folder of the installed torch.
        flags: Compiler flags beside the usual ones.
    """

    sources: tuple[Path, ...]
    includes: tuple[Path, ...]
    torch: Path
    flags: tuple[str, ...] = ()

    def compile_command(self, source: Path, output: Path) -> list[str]:
        """The call that compiles one file."""
        torch_headers = self.torch / "include"
        places = [torch_headers, torch_headers / "torch" / "csrc" / "api" / "include"]
        return [
            compiler(), *_FLAGS, *self.flags,
            *(part for place in places for part in ("-isystem", str(place))),
            *(f"-I{folder}" for folder in self.includes), "-c", str(source), "-o", str(output),
        ]  # fmt: skip

    def link_command(self, objects: Sequence[Path], output: Path) -> list[str]:
        """The call that links them."""
        libraries = self.torch / "lib"
        return [
            compiler(), "-shared", *self.flags, *map(str, objects), "-o", str(output),
            f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}",
        ]  # fmt: skip


def host_sources(folders: Sequence[Path]) -> list[Path]:
    """Return the C++ files of folders, and files that are named themselves."""
    return [path for folder in folders for path in _files(folder) if path.suffix in _HOST]


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
    else:
        yield from sorted(path for path in files_below(folder) if path.is_file() and not path.is_symlink())


def build_library(build: Build, output: Path) -> None:
    """Compile and link, as many files at once as there are processors; the library appears when it is whole.

    Raises:
        TorchferryError: there is no compiler, or a file does not compile: says which, and the first error.
    """
    if not build.sources:
        raise TorchferryError(
            say("there is no C++ file to build"), say("name the folder of the kernels with --kernels")
        )
    with temporary_folder("torchferry-build-") as folder:
        objects = [folder / f"{number}.o" for number in range(len(build.sources))]
        commands = [build.compile_command(*pair) for pair in zip(build.sources, objects, strict=True)]
        with ThreadPoolExecutor(env.jobs()) as pool, doing(say("compiling files"), len(commands)) as work:
            for source, error in zip(build.sources, pool.map(_run, commands), strict=True):
                work.add()
                if error:
                    raise TorchferryError(say("{path} does not compile: {error}", path=source, error=error))
        linked = output.with_name(f".{output.name}.{os.getpid()}")
        try:
            with doing(say("linking {path}", path=output.name)):
                error = _run(build.link_command(objects, linked))
            if error:
                raise TorchferryError(
                    say("linking {path} failed: {error}", path=output.name, error=error),
                    say("if a symbol is undefined, add the file that defines this kernel with --kernels"),
                )
            linked.replace(output)
        except OSError as error:
            raise TorchferryError(
                say("cannot write {path}: {error}", path=output, error=error.strerror or error)
            ) from None
        finally:
            linked.unlink(missing_ok=True)


def _run(command: list[str]) -> str:
    """Run a compiler; returns its first error, empty where all went well."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=tool_environment())
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines()
    return ([line for line in lines if "error" in line.lower() or "undefined" in line] or lines or ["?"])[0]
