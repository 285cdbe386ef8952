"""Build the rehearsal device: once for each torch, compiler and source, with one plain compiler call.

The library has no Python headers, so one build serves every Python. It lies in the user's cache and is found by a
hash of everything that could change it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torchferry.core import env, supported_torch, system
from torchferry.core.errors import TorchferryError
from torchferry.core.folders import remove_tree
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.terminal import print_own_notice
from torchferry.core.tool_environment import find_tool, tool_environment

SOURCES = Path(__file__).with_name("csrc")
_COMPILERS = ("c++", "g++", "clang++")
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")

_SANITIZERS = ("-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize=vptr")
"""With TORCHFERRY_SANITIZE, for people who work on the device: see `make sanitize`. vptr needs torch's type info."""


SECONDS = 40
"""CPU seconds that a library took with g++ 12 and torch 2.13.0, on one core: 38 that of the simulated plugin, 32 the
operators of a vendor's own. The driver takes 1.3."""

_NO_ROOM = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""What compilers and linkers end a message with when the disk, the user's share of it, or a limit of size is full."""


class MissingCompilerError(TorchferryError):
    """There is nothing to build with."""


@dataclass(frozen=True)
class Recipe:
    """What a build is made from.

    Attributes:
        torch_version: As `torch.__version__` says.
        torch_folder: The installed package, which has the headers and the libraries.
        compiler: Path of the C++ compiler.
        compiler_version: First line of its `--version`.
        flags: Compiler flags, without paths.
        source: The file that is compiled, with those beside it.
    """

    torch_version: str
    torch_folder: Path
    compiler: str
    compiler_version: str
    flags: tuple[str, ...]
    source: Path = SOURCES / "rehearsal.cpp"

    @property
    def key(self) -> str:
        """A name for the result: a hash of all that goes into it, the compiler last."""
        compiler = hashlib.sha256(self.compiler_version.encode()).hexdigest()
        return f"{_sources_key(self.torch_version, self.flags, self.source.parent)}-{compiler[:8]}"

    def command(self, output: Path) -> list[str]:
        """The compiler call that writes `output`."""
        include, libraries = self.torch_folder / "include", self.torch_folder / "lib"
        return [
            self.compiler,
            *self.flags,
            "-isystem",
            str(include),
            "-isystem",
            str(include / "torch" / "csrc" / "api" / "include"),
            str(self.source),
            "-o",
            str(output),
            f"-L{libraries}",
            "-lc10",
            "-ltorch_cpu",
            f"-Wl,-rpath,{libraries}",
        ]


def library() -> Path:
    """Return the built library for this process' torch, building it when it is not in the cache.

    Raises:
        TorchferryError: torch is too old, there is no compiler, the cache cannot be written, or the build fails.
    """
    return library_of(SOURCES / "rehearsal.cpp", "device.so")


def library_of(source: Path, file: str) -> Path:
    """Return what is built from `source` for this process' torch; where there is no compiler, what was built before.

    Raises:
        TorchferryError: as `library` does.
    """
    try:
        current_recipe = recipe(source=source)
    except MissingCompilerError:
        built = _built_before(source, file)
        if built is None:
            raise
        return built
    return in_cache(current_recipe, file)


def in_cache(recipe: Recipe, file: str) -> Path:
    """Return what a recipe makes, building it when it is not in the cache.

    Raises:
        TorchferryError: the cache cannot be written, or the build fails.
    """
    return folder_in_cache(recipe.key, lambda folder: _build(recipe, folder / file), file) / file


def folder_in_cache(key: str, make: Callable[[Path], None], file: str = "") -> Path:
    """Return the folder of the cache with this key, which `make` fills where it is not there; whole or not at all.

    Args:
        key: Names everything that could change what is made.
        make: Fills an empty folder.
        file: What must be in the folder; without it the folder is made anew.

    Raises:
        TorchferryError: the cache cannot be written, or whatever `make` raises.
    """
    cache = _cache()
    folder = cache / key
    if (folder / file).exists():
        return folder
    with _locked(cache, key):
        if not (folder / file).exists():  # somebody else may have made it while we waited
            partial = cache / f"partial-{key}"
            try:
                _remove(partial)  # of one that was killed
                partial.mkdir()
                make(partial)
                _remove(folder)
                partial.replace(folder)
            except OSError as error:
                raise _unwritable(cache, error) from None
            finally:
                remove_tree(partial)
    return folder


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def recipe(
    extra_flags: tuple[str, ...] = (),
    *,
    source: Path = SOURCES / "rehearsal.cpp",
) -> Recipe:
    """Return what a build in this process is made from.

    Args:
        extra_flags: Compiler flags beside the usual ones.
        source: The file that is compiled.

    Raises:
        TorchferryError: torch is absent or too old, or there is no C++ compiler.
    """
    with supported_torch.needed("torchferry rehearse"):
        import torch

    version = str(torch.__version__)
    supported_torch.require(version, say("the rehearsal device"))
    compiler_path = compiler()
    flags = (*_flags(), *extra_flags)
    folder = Path(str(torch.__file__)).parent
    return Recipe(version, folder, compiler_path, compiler_version(compiler_path), flags, source)


def _flags() -> tuple[str, ...]:
    import torch

    sanitizers = _SANITIZERS if os.environ.get("TORCHFERRY_SANITIZE") else ()
    return (*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *sanitizers)


def _sources_key(torch_version: str, flags: tuple[str, ...], folder: Path = SOURCES) -> str:
    digest = hashlib.sha256()
    for part in (torch_version, *flags, platform.machine(), sys.platform):
        digest.update(part.encode() + b"\0")
    for path in sorted({*SOURCES.iterdir(), *folder.iterdir()}):
        if path.suffix in {".h", ".cpp"}:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"torch-{torch_version.partition('+')[0]}-{digest.hexdigest()[:16]}"


def _built_before(source: Path, file: str) -> Path | None:
    """Return what any compiler has made of these sources for this torch: where there is none now, it serves."""
    import torch

    return built_before(_sources_key(str(torch.__version__), _flags(), source.parent), file)


def built_before(key: str, file: str) -> Path | None:
    """Return a file of the cache that some compiler has made, by its key without the compiler's part."""
    return next(_cache().glob(f"{key}-*/{file}"), None)


def compiler() -> str:
    """Return the C++ compiler that builds: `CXX`, else the first that is there.

    Raises:
        MissingCompilerError: there is none.
    """
    names = named_or("CXX", _COMPILERS)
    path = first_on_path(names)
    if path is None:
        raise MissingCompilerError(
            say("there is no C++ compiler ({names})", names=", ".join(names)),
            say(
                "install g++ 11 or clang++ 14, or later, or name one in the variable CXX; the device is "
                "built once and then kept"
            ),
        )
    return path


def named_or(variable: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program that an environment variable names, else those that are usual."""
    named = os.environ.get(variable, "")
    return (named,) if named else names


def first_on_path(names: Iterable[str]) -> str | None:
    """Return the path of the first of some programs that is there."""
    return next(filter(None, map(find_tool, names)), None)


@lru_cache(maxsize=4)
def compiler_version(compiler: str) -> str:
    """Return the first line of what a compiler says of its version."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False, env=tool_environment())
    return done.stdout.splitlines()[0] if done.stdout else compiler


def _cache() -> Path:
    folder = env.cache_folder() / "rehearsal"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def _unwritable(folder: Path, error: OSError | str) -> TorchferryError:
    reason = (error.strerror or error) if isinstance(error, OSError) else error
    return TorchferryError(
        say("cannot write in the cache {folder}: {error}", folder=folder, error=reason),
        say("set TORCHFERRY_CACHE to a folder that can be written and has some MiB free"),
    )


@contextmanager
def _locked(folder: Path, key: str) -> Iterator[None]:
    """Hold the build of one key; the lock goes with the process, however that ends."""
    try:
        descriptor = os.open(folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        try:
            system.lock(descriptor)
        except OSError:
            print_own_notice(say("another process is building the library of the simulated card; waiting for it"))
            system.lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _build(recipe: Recipe, path: Path) -> None:
    print_own_notice(
        say(
            "building the library of the simulated card for torch {torch}: once for this torch and compiler, about "
            "{seconds} s of one core",
            torch=recipe.torch_version,
            seconds=SECONDS,
        )
    )
    started = time.monotonic()
    with doing(say("building the library of the simulated card (about {seconds} s)", seconds=SECONDS)):
        _compile(recipe, path)
    print_own_notice(say("built in {seconds} s", seconds=f"{time.monotonic() - started:.0f}"))


def _compile(recipe: Recipe, output: Path) -> None:
    error = run_compiler(recipe.command(output))
    if error:
        raise TorchferryError(
            say(
                "the rehearsal device does not compile with torch {version} and {compiler}: {error}",
                version=recipe.torch_version,
                compiler=recipe.compiler_version,
                error=error,
            ),
            say("tested: torch {tested}", tested=supported_torch.ran())
            if not supported_torch.is_tested(recipe.torch_version)
            else say("the call was: {command}", command=" ".join(recipe.command(output))),
        )


def run_compiler(command: list[str]) -> str:
    """Run a compiler and return its first error; empty where all went well.

    Raises:
        TorchferryError: there is no room for what it makes, in the cache.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=tool_environment())
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines()
    full = [line for line in lines if line.rstrip(".").endswith(_NO_ROOM)]
    if full:
        raise _unwritable(_cache(), full[0])
    return ([line for line in lines if "error" in line.lower()] or lines or ["?"])[0]
