"""The public part of a vendor's compiler of Triton kernels: which wheels hold it, and how it is asked.

It is in `triton.toml` of a vendor, as `[front_end]` with its parts. What runs it is
`torchferry/triton/front_end_program.py`, which knows no vendor: all that differs is in the table::

    [front_end]
    title = "acme-triton 3.2.0"
    up_to = "the memory plan"               # the last stage that is run; with up_to_zh
    back_end = "acme"                       # its name in `triton.backends`
    card_library = "AcmeUtils"              # the class that asks the card's library, by its name in the compiler
    unneeded_modules = ["pybind11"]         # what it imports to build launchers
    compiler = "acme/bin/acme-compile"      # in the wheels; empty where Triton compiles alone
    options = ["--memory-report"]
    calm_options = ["--one-thread"]         # for another attempt after a crash
    probes = ["--help"]                     # first arguments with which it is only asked about itself
    closed_stage = "acme-codegen"           # a program that is not public: what represents it hands its input on
    closed_version = "acme-codegen 1.0"
    variables = ["ACME_LINE_INFO=1"]
    programs = ["acme/bin/acme-compile"]    # files of the wheels that are run
    left_out = ["*/acme-opt"]               # what is not unpacked
    memory_files = "memory*.json"           # what the compiler writes of its memory plan
    elements_stage = "linalg"               # the stage whose text marks accesses of one element at a time
    elements_mark = "ByElement"
    core_key = "core"                       # where the metadata of a compiled kernel say the kind of core
    refusals = ["error: "]                  # how lines begin or what they hold that refuse a kernel
    noise = ["pipeline failed"]             # such lines that say nothing
    overflow = "overflow, requires"         # what refuses a kernel for its size
    source = "WHEEL"

    [[front_end.arch]]                      # the first one is the usual one
    name = "Acme-X1"
    cards = ["Acme X1"]

    [[front_end.memory]]
    scope = "ub"
    name = "UB"
    bytes = 196608

    [[front_end.core]]
    name = "v"
    title = "vector cores"                  # with title_zh

    [[front_end.wheel]]
    file = "acme_triton-3.2.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    requirement = "acme-triton==3.2.0"
    sha256 = "..."
    bytes = 54175507                        # of the file
    unpacked = 160000000
    machine = "x86_64"
    pythons = ["3.11"]
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.base import Backend
from torchferry.backends.datafile import DataFile, data_directory
from torchferry.core.messages import Bilingual
from torchferry.core.record import NamedTuple

_TABLE = "front_end"
_PARTS = frozenset({"arch", "memory", "core", "wheel"})


class FrontEndWheel(NamedTuple):
    """A wheel that holds a part of it.

    Attributes:
        file: Its name.
        requirement: What pip is asked for.
        sha256: The hash of the file.
        bytes: Its size.
        unpacked: The size of what is unpacked of it, in bytes.
        machine: The processor, as `platform.machine()` says it.
        pythons: The Pythons that it is taken for.
    """

    file: str
    requirement: str
    sha256: str
    bytes: int
    unpacked: int
    machine: str
    pythons: tuple[str, ...]


class FrontEndArch(NamedTuple):
    """A card that it compiles for.

    Attributes:
        name: As the compiler calls it.
        cards: The names of cards in `cards.toml`, and others that users write.
    """

    name: str
    cards: tuple[str, ...] = ()


class CoreMemory(NamedTuple):
    """A memory of a core.

    Attributes:
        scope: As the memory plan calls it.
        name: As the vendor's documents call it.
        bytes: Its size.
    """

    scope: str
    name: str
    bytes: int


class CoreKind(NamedTuple):
    """A kind of core that a kernel needs.

    Attributes:
        name: As the compiler calls it.
        title: What it is.
    """

    name: str
    title: Bilingual


class FrontEnd(NamedTuple):
    """The known facts about it; the module's text shows each field.

    Attributes:
        title: Its packages and versions.
        up_to: The last stage that is run.
        back_end: Its name in `triton.backends`.
        card_library: The class that asks the card's library.
        unneeded_modules: Modules that it imports and that nothing here needs.
        compiler: The compiler's program, in the wheels.
        options: Arguments that it is given besides.
        calm_options: Further ones after a crash.
        probes: First arguments with which it is asked about itself.
        closed_stage: The program that is not public.
        closed_version: What it says its version is.
        variables: `NAME=VALUE`.
        programs: Files that are run.
        left_out: Patterns of files that are not unpacked.
        memory_files: A pattern of what the compiler writes of its memory plan.
        elements_stage: The stage whose text marks accesses of one element at a time.
        elements_mark: The mark.
        core_key: Where the metadata say the kind of core.
        refusals: What lines hold that refuse a kernel.
        noise: What such lines hold that say nothing.
        overflow: What refuses a kernel for its size.
        source: Where this comes from.
        archs: The cards that it compiles for; the first one is the usual one.
        memories: The memories of a core.
        cores: The kinds of cores.
        wheels: The wheels.
        warp_size: Threads of a warp, as Triton is told.
        properties: What Triton is told of a card, by name.
    """

    title: str
    up_to: Bilingual
    back_end: str
    source: str
    archs: tuple[FrontEndArch, ...]
    memories: tuple[CoreMemory, ...]
    cores: tuple[CoreKind, ...]
    wheels: tuple[FrontEndWheel, ...]
    warp_size: int = 0
    properties: tuple[tuple[str, int], ...] = ()
    card_library: str = ""
    unneeded_modules: tuple[str, ...] = ()
    compiler: str = ""
    options: tuple[str, ...] = ()
    calm_options: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    closed_stage: str = ""
    closed_version: str = ""
    variables: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    memory_files: str = ""
    elements_stage: str = ""
    elements_mark: str = ""
    core_key: str = ""
    refusals: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    overflow: str = ""

    @property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons that it has wheels for, the newest first."""
        named = {python for wheel in self.wheels for python in wheel.pythons}
        return tuple(sorted(named, key=lambda each: [*map(int, each.split("."))], reverse=True))

    def wheels_for(self, python: str, machine: str) -> tuple[FrontEndWheel, ...]:
        """Return the wheels for a Python on a machine; empty where it has none."""
        return tuple(wheel for wheel in self.wheels if wheel.machine == machine and python in wheel.pythons)


def front_end_of(backend: type[Backend]) -> FrontEnd | None:
    """Return the front end of a vendor's Triton; None where none is described."""
    return _read(data_directory(backend) / "triton.toml")


@lru_cache(maxsize=8)
def _read(path: Path) -> FrontEnd | None:
    if not path.is_file():
        return None
    file = DataFile(path)
    table = file.table(_TABLE)
    if not table:
        return None
    target = file.table("target")
    parts: dict[str, Any] = {
        "archs": tuple(file.record(FrontEndArch, each, "arch") for each in _listed(file, table, "arch")),
        "memories": tuple(file.record(CoreMemory, each, "memory") for each in _listed(file, table, "memory")),
        "cores": tuple(file.record(CoreKind, each, "core") for each in _listed(file, table, "core")),
        "wheels": tuple(file.record(FrontEndWheel, each, "wheel") for each in _listed(file, table, "wheel")),
        "warp_size": file.number(target, "warp_size", "target"),
        "properties": tuple(target.get("properties", {}).items()),
    }
    if not parts["archs"] or not parts["wheels"]:
        raise file.wrong("[front_end] has at least one [[front_end.arch]] and one [[front_end.wheel]]")
    own = {key: value for key, value in table.items() if key not in _PARTS}
    return file.record(FrontEnd, own, _TABLE, **parts)


def _listed(file: DataFile, table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise file.wrong(f"write [[{_TABLE}.{key}]]")
    return value
