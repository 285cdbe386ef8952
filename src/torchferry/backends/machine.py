"""What a target's machine must have, as the doctor checks it, kept as `doctor.toml` in the vendor's folder.

A file names its sources once; every table cites them. A table or field that is absent is UNKNOWN: the doctor then says
that nobody has verified it, and never that it is well::

    [driver]
    pci_vendor = "0x19e5"
    versions = [{ path = "/usr/local/Ascend/driver/version.info", pattern = '^Version=(\\S+)' }]
    install = ["sudo bash Ascend-hdk-*-driver*.run --full"]
    source = "DOC"

    [[node]]
    pattern = "/dev/davinci[0-9]*"
    kind = "card"
    source = "DOC"

Paths are absolute and may hold shell patterns, and `{arch}` for the machine's architecture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torchferry.backends.datafile import DataFile, DataOwner, data_file
from torchferry.core.messages import Bilingual

NODE_KINDS = ("card", "control", "render")
"""What a device node is: one of the cards, something that every program needs, or the card's render node."""

LIBRARY_ROLES = ("driver", "runtime", "math", "collective")
"""What a library is for."""

BUILDS = ("cpu", "vendor")
"""Which torch the plugin wants: the CPU build that PyTorch publishes, or the vendor's own."""


@dataclass(frozen=True)
class VersionFile:
    """A file that states a version.

    Attributes:
        path: Where it is; may be a pattern.
        pattern: Its first group is the version.
    """

    path: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class Driver:
    """The kernel driver: how it is seen on the PCI bus, where it states its version, how it is installed."""

    pci_vendor: str = ""
    pci_devices: tuple[str, ...] = ()
    versions: tuple[VersionFile, ...] = ()
    files: tuple[str, ...] = ()
    install: tuple[str, ...] = ()
    advice: Bilingual | None = None
    iommu: Bilingual | None = None
    source: str = ""


@dataclass(frozen=True)
class KernelModule:
    """The driver's module of the kernel, as `lsmod` shows it; an empty name is unknown."""

    name: str = ""
    source: str = ""


@dataclass(frozen=True)
class Node:
    """Device nodes of one kind. `group` owns them, where that is known; empty means unknown."""

    pattern: str
    kind: str
    group: str
    source: str


@dataclass(frozen=True)
class Sdk:
    """The toolkit: its name, where it states its version, what sets its environment up.

    Attributes:
        name: As users know it.
        versions: Files that state the version.
        scripts: Files to be sourced, the usual one first.
        variables: Variables that such a script sets and that the runtime needs.
        folders: Folders of libraries, for the loader's search path.
        modules: Python modules that come with the toolkit, and that its setup script makes known to Python.
        packages: Distributions that the toolkit's own Python code needs, and does not bring.
        install: How it is installed.
        source: Where the facts come from.
    """

    name: str = ""
    versions: tuple[VersionFile, ...] = ()
    scripts: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    install: Bilingual | None = None
    source: str = ""


@dataclass(frozen=True)
class RequiredLibrary:
    """A shared library that programs load, by the name that the loader is asked for."""

    name: str
    role: str
    package: Bilingual
    source: str


@dataclass(frozen=True)
class Container:
    """How a container gets the cards.

    Attributes:
        run: The command that starts one, with the flags that are needed.
        runtime: Name of the vendor's container runtime in `daemon.json`; empty when there is none or it is unknown.
        bind: Command that makes that runtime known to Docker.
        mounts: Paths of the host that must be there inside.
        flags: Which of `privileged`, `ipc` and `network` the vendor's own command line has.
        shared_memory: Bytes of /dev/shm that the vendor's own command line asks for; 0 when it asks for none.
        variable_needed: Whether the container's visible-devices variable must be set.
        source: Where the facts come from.
    """

    run: str = ""
    runtime: str = ""
    bind: str = ""
    mounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    shared_memory: int = 0
    variable_needed: bool = False
    source: str = ""


@dataclass(frozen=True)
class Python:
    """The Python side.

    Attributes:
        build: Which torch is wanted, of `BUILDS`; empty when unknown.
        modules: Further modules that the plugin consists of.
        wheels: For a module, a pattern of wheels that lie on the machine.
        install: The line that installs, with `{torch}`, `{plugin}` (distribution==version) and `{wheel}`.
        source: Where the facts come from.
    """

    build: str = ""
    modules: tuple[str, ...] = ()
    wheels: tuple[tuple[str, str], ...] = ()
    install: str = ""
    source: str = ""


@dataclass(frozen=True)
class HostRequirements:
    """All that is known of a target's machine."""

    driver: Driver = Driver()
    kernel_module: KernelModule = KernelModule()
    nodes: tuple[Node, ...] = ()
    sdk: Sdk = Sdk()
    libraries: tuple[RequiredLibrary, ...] = ()
    container: Container = Container()
    python: Python = Python()


def facts(backend: type[DataOwner]) -> HostRequirements:
    """Return the known facts about the target's machine; without a file, nothing.

    Raises:
        ValueError: the file has a key it should not have, a value of the wrong kind, or cites no source.
    """
    path = data_file(backend, "doctor.toml")
    return HostRequirements() if path is None else _read(path)


_TABLES = frozenset(
    {"sources", "driver", "kernel_module", "node", "sdk", "library", "owner", "container", "python", "tool"}
)


@lru_cache(maxsize=16)
def _read(path: Path) -> HostRequirements:
    file = DataFile(path)
    file.check_keys(file.document, _TABLES, "top")
    return HostRequirements(
        _driver(file),
        _kernel_module(file),
        tuple(_node(file, entry) for entry in file.tables("node")),
        _sdk(file),
        tuple(_library(file, entry) for entry in file.tables("library")),
        _container(file),
        _python(file),
    )


def bilingual(file: DataFile, table: dict[str, Any], key: str, where: str) -> Bilingual | None:
    """Return a text that the table holds as `key` and `key_zh`, or None."""
    if key not in table:
        return None
    chinese = file.text(table, f"{key}_zh", where)
    if not chinese:
        raise file.wrong(f"{where}: `{key}` needs `{key}_zh`")
    return Bilingual(file.text(table, key, where), chinese)


def pattern(file: DataFile, text: str, where: str) -> re.Pattern[str]:
    """Return a regular expression of the file, over several lines."""
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise file.wrong(f"{where}: {text!r} is no regular expression: {error}") from None


def _versions(file: DataFile, table: dict[str, Any], where: str) -> tuple[VersionFile, ...]:
    entries = table.get("versions", [])
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and entry.keys() == {"path", "pattern"} for entry in entries
    ):
        raise file.wrong(f"{where}: `versions` is a list of {{ path, pattern }}")
    versions = tuple(VersionFile(str(entry["path"]), pattern(file, str(entry["pattern"]), where)) for entry in entries)
    for entry in versions:
        if entry.pattern.groups < 1:
            raise file.wrong(f"{where}: {entry.pattern.pattern!r} has no group")
    return versions


def _driver(file: DataFile) -> Driver:
    table, where = file.table("driver"), "[driver]"
    if not table:
        return Driver()
    keys = {"pci_vendor", "pci_devices", "versions", "files", "install", "advice", "advice_zh", "iommu", "iommu_zh"}
    file.check_keys(table, frozenset({*keys, "source"}), where)
    return Driver(
        file.text(table, "pci_vendor", where),
        file.texts(table, "pci_devices", where),
        _versions(file, table, where),
        file.texts(table, "files", where),
        file.texts(table, "install", where),
        bilingual(file, table, "advice", where),
        bilingual(file, table, "iommu", where),
        file.cited(table, where),
    )


def _kernel_module(file: DataFile) -> KernelModule:
    table, where = file.table("kernel_module"), "[kernel_module]"
    if not table:
        return KernelModule()
    file.check_keys(table, frozenset({"name", "source"}), where)
    return KernelModule(file.text(table, "name", where), file.cited(table, where))


def _node(file: DataFile, entry: dict[str, Any]) -> Node:
    where = f"[[node]] {entry.get('pattern', '')}"
    file.check_keys(entry, frozenset({"pattern", "kind", "group", "source"}), where)
    kind = file.text(entry, "kind", where)
    if kind not in NODE_KINDS:
        raise file.wrong(f"{where}: `kind` is none of {', '.join(NODE_KINDS)}")
    return Node(file.text(entry, "pattern", where), kind, file.text(entry, "group", where), file.cited(entry, where))


def _sdk(file: DataFile) -> Sdk:
    table, where = file.table("sdk"), "[sdk]"
    if not table:
        return Sdk()
    keys = {"name", "versions", "scripts", "variables", "folders", "modules", "packages", "install"}
    file.check_keys(table, frozenset({*keys, "install_zh", "source"}), where)
    return Sdk(
        file.text(table, "name", where),
        _versions(file, table, where),
        file.texts(table, "scripts", where),
        file.texts(table, "variables", where),
        file.texts(table, "folders", where),
        file.texts(table, "modules", where),
        file.texts(table, "packages", where),
        bilingual(file, table, "install", where),
        file.cited(table, where),
    )


def _library(file: DataFile, entry: dict[str, Any]) -> RequiredLibrary:
    where = f"[[library]] {entry.get('name', '')}"
    file.check_keys(entry, frozenset({"name", "role", "package", "package_zh", "source"}), where)
    role = file.text(entry, "role", where)
    package = bilingual(file, entry, "package", where)
    if role not in LIBRARY_ROLES or package is None:
        raise file.wrong(f"{where}: needs `package`, and a `role` of {', '.join(LIBRARY_ROLES)}")
    return RequiredLibrary(file.text(entry, "name", where), role, package, file.cited(entry, where))


def _container(file: DataFile) -> Container:
    table, where = file.table("container"), "[container]"
    if not table:
        return Container()
    keys = {"run", "runtime", "bind", "mounts", "flags", "shared_memory", "variable_needed", "source"}
    file.check_keys(table, frozenset(keys), where)
    size, needed = table.get("shared_memory", 0), table.get("variable_needed", False)
    if type(size) is not int or type(needed) is not bool:
        raise file.wrong(f"{where}: `shared_memory` is a number of bytes, `variable_needed` true or false")
    return Container(
        file.text(table, "run", where),
        file.text(table, "runtime", where),
        file.text(table, "bind", where),
        file.texts(table, "mounts", where),
        file.texts(table, "flags", where),
        size,
        needed,
        file.cited(table, where),
    )


def _python(file: DataFile) -> Python:
    table, where = file.table("python"), "[python]"
    if not table:
        return Python()
    file.check_keys(table, frozenset({"build", "modules", "wheels", "install", "source"}), where)
    build = file.text(table, "build", where)
    wheels = table.get("wheels", {})
    if build not in ("", *BUILDS) or not isinstance(wheels, dict):
        raise file.wrong(f"{where}: `build` is none of {', '.join(BUILDS)}, or `wheels` no table")
    return Python(
        build,
        file.texts(table, "modules", where),
        tuple((str(module), str(path)) for module, path in wheels.items()),
        file.text(table, "install", where),
        file.cited(table, where),
    )
