"""Build the simulated driver, and the library that takes the plugin's operators over."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.rehearsal import build
from torchferry.rehearsal.driver.description import SimulatedDriver

MACHINE = Path(__file__).with_name("csrc")
"""The machine: C, the same for every vendor."""

OPERATORS = Path(__file__).with_name("operators") / "operators.cpp"

_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-std=c17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_CORE = "libtorchferry_driver.so"


def driver_folder(driver: SimulatedDriver) -> Path:
    """Return the folder with the driver's libraries, built when it is not in the cache.

    Raises:
        TorchferryError: there is no compiler, the cache cannot be written, or the build fails.
    """
    key = _key(driver)
    try:
        compiler = c_compiler()
    except build.MissingCompilerError:
        built = build.built_before(key, _CORE)
        if built is None:
            raise
        return built.parent
    made_by = hashlib.sha256(f"{compiler} {build.compiler_version(compiler)}".encode()).hexdigest()
    return build.folder_in_cache(f"{key}-{made_by[:8]}", lambda folder: make(driver, compiler, folder))


def driver_core(folder: Path) -> Path:
    """Return the library that holds everything; those under the vendor's names lead to it."""
    return folder / _CORE


def c_compiler() -> str:
    """Return the C compiler that builds: `CC`, else the first that is there.

    Raises:
        MissingCompilerError: there is none.
    """
    names = build.named_or("CC", _COMPILERS)
    path = build.first_on_path(names)
    if path is None:
        raise build.MissingCompilerError(
            say("there is no C compiler ({names})", names=", ".join(names)),
            say(
                "install gcc or clang, or name one in the variable CC; the simulated driver is built once and then kept"
            ),
        )
    return path


def sources(driver: SimulatedDriver) -> list[Path]:
    """Return the C files of a driver, without the one that is written from its description."""
    return [*sorted(MACHINE.glob("*.c")), *(driver.folder / name for name in driver.files)]


def stubs(driver: SimulatedDriver) -> str:
    """Return the C text of the entry points that do nothing, and of those that are refused."""
    accepted = (f"FERRY_EXPORT long {name}(void) {{ return 0; }}" for name in driver.accepted)
    refused = (f'FERRY_EXPORT int {name}(void) {{ return {driver.refuse}("{name}"); }}' for name in driver.refused)
    return "\n".join([f'#include "{driver.header}"', *accepted, *refused, ""])


def command(
    driver: SimulatedDriver, compiler: str, written: Path, output: Path, flags: Iterable[str] = ()
) -> list[str]:
    """Return the compiler call that makes the driver, with `written` the file that holds `stubs`."""
    return [
        *(compiler, *_FLAGS, *flags),
        *("-I", str(MACHINE), "-I", str(driver.folder)),
        *map(str, sources(driver)),
        str(written),
        *("-o", str(output), f"-Wl,-soname,{_CORE}", "-pthread", "-lrt"),
    ]


def _key(driver: SimulatedDriver) -> str:
    """Name all that goes into a driver, but for the compiler."""
    digest = hashlib.sha256()
    for part in (platform.machine(), *_FLAGS, *driver.libraries, *driver.folders, stubs(driver)):
        digest.update(part.encode() + b"\0")
    for path in [*sources(driver), *sorted(MACHINE.glob("*.h")), *sorted(driver.folder.glob("*.h"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"driver-{driver.backend}-{digest.hexdigest()[:16]}"


def make(driver: SimulatedDriver, compiler: str, folder: Path) -> None:
    """Build a driver's libraries in an empty folder, for the machine that the compiler is for.

    Raises:
        TorchferryError: the build fails.
    """
    written = folder / "entry_points.c"
    written.write_text(stubs(driver), encoding="utf-8")
    for name in driver.folders:
        (folder / name).mkdir()
    core = folder / _CORE
    # The loader takes a library that is loaded already for one that is asked for by the same name (its soname).
    links = [
        [
            *(compiler, "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", str(core)),
            *("-Wl,-rpath,$ORIGIN", "-o", str(folder / name)),
        ]
        for name in driver.libraries
    ]
    calls = [command(driver, compiler, written, core), *links]
    with doing(say("building the simulated driver, step"), len(calls)) as work:
        for number, call in enumerate(calls, 1):
            work.reach(number)
            _run(call, driver)


def _run(call: list[str], driver: SimulatedDriver) -> None:
    error = build.run_compiler(call)
    if error:
        raise TorchferryError(
            say(
                "the simulated driver of {backend} does not compile: {error}",
                backend=driver.backend,
                error=error,
            ),
            say("the call was: {command}", command=" ".join(call)),
        )


def operators_library() -> Path:
    """Return the library that takes operators over, for this process' torch, built when it is not in the cache.

    Raises:
        TorchferryError: torch is too old, there is no compiler, the cache cannot be written, or the build fails.
    """
    return build.library_of(OPERATORS, "operators.so")


def operators_recipe(extra_flags: tuple[str, ...] = ()) -> build.Recipe:
    """Return what that library is made from; raises what `operators_library` raises."""
    return build.recipe(extra_flags, source=OPERATORS)
