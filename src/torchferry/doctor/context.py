"""What the checks look at: a machine, a target, and what was asked of both once for all checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torchferry.backends import smi as smi_output
from torchferry.backends.card_table import Card
from torchferry.backends.cards import find_card
from torchferry.backends.errors import COMMON, ErrorMatch, errors_of, first_match
from torchferry.backends.library_owners import owner_of_function, owner_of_library
from torchferry.backends.machine import VersionFile
from torchferry.backends.machine import facts as host_requirements
from torchferry.backends.target import Target
from torchferry.backends.unknown import Unknown
from torchferry.core.errors import UsageError
from torchferry.core.json_text import parsed_json
from torchferry.core.messages import Bilingual, Message, say
from torchferry.core.shape import checked
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor.host import Host
from torchferry.doctor.symbols.names import qualified_name
from torchferry.doctor.symbols.owners import TargetVersions, of_function, of_library

INSIDE = Path(__file__).with_name("probes")

_LOOK_TIMEOUT = 30.0
"""Seconds for looking at the Python side: a cold disk reads many metadata files."""

_IMPORT_TIMEOUT = 120.0
"""Seconds for importing the plugin: the vendors' runtimes start up inside it."""

_CUDA_PACKAGES = ("nvidia-", "cupy", "flash-attn", "xformers", "apex", "bitsandbytes", "onnxruntime-gpu", "tensorrt")


@dataclass(frozen=True)
class SmiQuery:
    """The management tool's answer: where it is, what was run, how it ended, what it says."""

    path: str | None
    command: tuple[str, ...] = ()
    process: ProcessResult | None = None
    reading: smi_output.SmiOutput = field(default_factory=smi_output.SmiOutput)


@dataclass(frozen=True)
class PythonSide:
    """What the examined interpreter has; `process` is kept for when it could not be asked."""

    process: ProcessResult
    version: str = ""
    executable: str = ""
    bits: int = 64
    modules: Mapping[str, str | None] | None = None
    distributions: Mapping[str, str] | None = None
    entry_points: Mapping[str, str] | None = None
    torch: Mapping[str, Any] | None = None
    libraries: Mapping[str, str] | None = None

    def has(self, module: str) -> bool:
        """Whether a module can be found."""
        return bool(self.modules and self.modules.get(module) is not None)

    def installed(self, distribution: str) -> str:
        """Return the version of a distribution, or an empty text."""
        return (self.distributions or {}).get(distribution.lower().replace("_", "-"), "")


@dataclass(frozen=True)
class Imported:
    """How importing the plugin went; `tried` is false where there is none.

    `numpy` is the error of giving a tensor to NumPy, after an import that went well.
    """

    tried: bool = False
    error: str = ""
    version: str = ""
    process: ProcessResult | None = None
    numpy: str = ""


@dataclass(frozen=True)
class Explained:
    """The known facts about a failure: why, what mends it, where that comes from."""

    cause: Bilingual | Message
    commands: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class LibraryFile:
    """A library on disk. `on_path` says whether the loader looks in its folder."""

    path: str
    size: int
    on_path: bool


class CheckContext:
    """One machine that is examined for one target.

    Attributes:
        host: The machine.
        target: The target.
        requirements: What the target's machine must have.
        tool: The target's management tool.
        rehearsed: Whether this is a rehearsal, where there is no card and no driver.
        probe: What the live probe found; None when it was not asked for.
    """

    def __init__(
        self, host: Host, target: Target, *, rehearsed: bool = False, probe: Mapping[str, Any] | None = None
    ) -> None:
        self.host = host
        self.target = target
        self.requirements = host_requirements(target.backend)
        self.tool = smi_output.tool(target.backend)
        self.rehearsed = rehearsed
        self.probe = probe

    def prefetch(self) -> None:
        """Ask tool and interpreter at the same time: both wait for others most of the time."""
        with ThreadPoolExecutor(2) as pool:
            imported, shown = pool.submit(lambda: self.imported), pool.submit(lambda: self.smi)
            imported.result()
            shown.result()

    # --- the management tool ---

    @cached_property
    def tool_name(self) -> str | Unknown:
        """Name of the management tool."""
        return self.target.backend.SMI

    @cached_property
    def smi(self) -> SmiQuery:
        """The tool's answer; a further command is tried where the former's format is unknown."""
        if isinstance(self.tool_name, Unknown) or self.rehearsed:
            return SmiQuery(None)
        path = self.host.which(self.tool_name, self.tool.places)
        if path is None:
            return SmiQuery(None)
        last = SmiQuery(path)
        for command in self.tool.commands or ((self.tool_name,),):
            process = self.host.run((path, *command[1:]))
            last = SmiQuery(path, command, process, smi_output.read(self.tool, process.out))
            if last.reading.cards or process.problem:
                break
        return last

    @property
    def cards(self) -> tuple[smi_output.SmiCard, ...]:
        """The cards that the tool shows."""
        return self.smi.reading.cards

    def model(self, shown: str) -> Card | None:
        """Return the model that the tool's name for a card means; None where no table knows it."""
        try:
            return find_card(self.target.backend, shown)
        except UsageError:
            return None

    @property
    def card_nodes(self) -> list[str]:
        """The device nodes of cards."""
        patterns = [node.pattern for node in self.requirements.nodes if node.kind == "card"]
        return [path for pattern in patterns for path in self.host.find(pattern)]

    def devices_per_card(self, card: smi_output.SmiCard) -> int | Unknown:
        """Return how many torch devices a card shows up as: as its model does, else as every card of the plugin."""
        model = self.model(card.name)
        return self.target.backend.DEVICES_PER_CARD if model is None else model.devices_per_card

    # --- the Python side ---

    @cached_property
    def plugin_modules(self) -> tuple[str, ...]:
        """The modules that the plugin consists of."""
        return (self.target.backend.PLUGIN, *self.requirements.python.modules)

    @cached_property
    def python(self) -> PythonSide:
        """What the interpreter has."""
        names = sorted({files[0].path.rpartition("/")[2] for files in self.library_files.values() if files})
        question = {
            "modules": ["torch", *self.plugin_modules, *self.requirements.sdk.modules],
            "import": "",
            "libraries": names,
            "rehearsed": self.rehearsed,
        }
        process = self.host.run_python(INSIDE / "python_side.py", json.dumps(question), _LOOK_TIMEOUT)
        answer = _answer(process, _PYTHON)
        if answer is None:
            return PythonSide(process)
        return PythonSide(
            process,
            answer["version"],
            answer["executable"],
            answer["bits"],
            answer["modules"],
            {name: version or "" for name, version in answer["distributions"].items()},
            answer["entry_points"],
            answer["torch"],
            answer["libraries"],
        )

    @cached_property
    def imported(self) -> Imported:
        """How importing the plugin goes, in its own process."""
        plugin = self.target.backend.PLUGIN
        if not (self.python.has("torch") and self.python.has(plugin)):
            return Imported()
        question = {"modules": [], "import": plugin, "libraries": [], "rehearsed": self.rehearsed}
        process = self.host.run_python(INSIDE / "python_side.py", json.dumps(question), _IMPORT_TIMEOUT)
        answer = _answer(process, _IMPORTED)
        if answer is None:
            return Imported(
                True,
                "\n".join(process.first_lines(20)) or process.problem or f"exit status {process.status}",
                "",
                process,
            )
        outcome = answer["import"]
        return Imported(True, outcome["error"], outcome["version"], process, outcome.get("numpy", ""))

    @property
    def torch(self) -> str:
        """The version of torch, without what follows `+`; empty when there is none."""
        return str((self.python.torch or {}).get("version") or "").partition("+")[0]

    @property
    def plugin(self) -> str:
        """The version of the plugin's distribution; empty when there is none."""
        backend = self.target.backend
        names = [backend.PIP_NAME] if isinstance(backend.PIP_NAME, str) else []
        return next(filter(None, (self.python.installed(name) for name in [*names, backend.PLUGIN])), "")

    @property
    def cuda_packages(self) -> list[str]:
        """Installed distributions that serve CUDA alone."""
        return sorted(name for name in self.python.distributions or {} if name.startswith(_CUDA_PACKAGES))

    # --- known failures ---

    def explained(self, text: str, *first: str) -> Explained | None:
        """Return the known facts about a failure by the text that was printed: the target's own first, then anybody's.

        Args:
            text: What was printed.
            first: Which entries of the table are asked before those of a machine, such as `tool`.
        """
        causes = (entry for entry in errors_of(self.target.backend) if entry.role == "cause")
        match = first_match(causes, text, (*first, "machine", "log"))
        if match is None:
            return None
        owned = self._owned(match)
        if owned is not None:
            cause, advice, source = owned
            both = say("{cause}; {advice}", cause=cause, advice=advice)
            return Explained(both, match.commands(self.host.python), source)
        return Explained(match.causes[0], match.commands(self.host.python), match.entry.source)

    def _owned(self, match: ErrorMatch) -> tuple[Message, Message, str] | None:
        """Return cause, advice and source of a library or function that is missing and whose package is known.

        Only where no entry of the target itself matched: that one says more.
        """
        if match.entry.owner != COMMON:
            return None
        installed = TargetVersions(self.driver_version[0], self.sdk_version[0], self.plugin)
        library, symbol = match.groups.get("library", ""), match.groups.get("symbol", "")
        owner = owner_of_library(library, [self.target.backend]) if library else None
        if owner is not None:
            folders = [*self.search_path, *self.requirements.sdk.folders]
            return (*of_library(library, "", owner, lambda target: installed, folders), owner.source)
        owner = owner_of_function(qualified_name(symbol), [self.target.backend]) if symbol else None
        if owner is not None:
            return (*of_function(owner, lambda target: installed), owner.source)
        return None

    # --- libraries ---

    @cached_property
    def search_path(self) -> list[str]:
        """Folders in which the loader looks, in order: LD_LIBRARY_PATH, its configuration, its defaults."""
        folders = [part for part in self.host.environment.get("LD_LIBRARY_PATH", "").split(":") if part]
        for path in ["/etc/ld.so.conf", *self.host.find("/etc/ld.so.conf.d/*.conf")]:
            lines = map(str.strip, (self.host.read(path) or "").splitlines())
            folders += [line for line in lines if line.startswith("/")]
        triple = f"{self.host.architecture}-linux-gnu"
        folders += [f"{base}/{triple}" for base in ("/lib", "/usr/lib")]
        return list(dict.fromkeys([*folders, "/lib64", "/usr/lib64", "/lib", "/usr/lib"]))

    @cached_property
    def library_files(self) -> dict[str, list[LibraryFile]]:
        """For each library that the target needs, the files of it, in the order in which the loader sees them."""
        files_by_library: dict[str, list[LibraryFile]] = {}
        beyond = [folder for folder in self.requirements.sdk.folders if folder not in self.search_path]
        for library in self.requirements.libraries:
            files = files_by_library[library.name] = []
            for folder in [*self.search_path, *beyond]:
                paths = [f"{folder}/{library.name}", *self.host.find(f"{folder}/{library.name}.[0-9]*")]
                entry = next(filter(None, (self.host.entry(path) for path in paths)), None)
                if entry is not None:
                    files.append(LibraryFile(entry.path, entry.size, folder in self.search_path))
        return files_by_library

    # --- the toolkit ---

    @cached_property
    def sdk_version(self) -> tuple[str, str]:
        """Version of the toolkit and the file that says so; both empty when none does."""
        return self.stated(self.requirements.sdk.versions)

    @cached_property
    def driver_version(self) -> tuple[str, str]:
        """Version of the driver and who says so: a file, or the tool."""
        version, path = self.stated(self.requirements.driver.versions)
        if version:
            return version, path
        return self.smi.reading.driver, str(self.tool_name) if self.smi.reading.driver else ""

    def stated(self, files: tuple[VersionFile, ...]) -> tuple[str, str]:
        """Return the first version that one of the files states, and the file."""
        for file in files:
            for path in self.host.find(file.path):
                match = file.pattern.search(self.host.read(path) or "")
                if match:
                    return match[1], path
        return "", ""

    @cached_property
    def modules_loaded(self) -> set[str]:
        """Kernel modules that are loaded."""
        lines = (self.host.read("/proc/modules") or "").splitlines()
        return {line.split()[0] for line in lines if line.split()}

    @cached_property
    def kernels_with_driver(self) -> list[str]:
        """The kernels for which the driver's module is built, by what depmod listed and what lies there."""
        name = self.target.backend.DRIVER_MODULE
        if isinstance(name, Unknown):
            return []
        kernels = set()
        for folder in self.host.find("/lib/modules/*"):
            listed = f"/{name}.ko" in (self.host.read(f"{folder}/modules.dep") or "")
            depths = ("", "*/", "*/*/", "*/*/*/")
            if listed or any(self.host.find(f"{folder}/{depth}{name}.ko*") for depth in depths):
                kernels.add(folder.rpartition("/")[2])
        return sorted(kernels)

    @cached_property
    def driver_loaded(self) -> bool | None:
        """Whether the driver's module is loaded; None when its name is unknown."""
        name = self.target.backend.DRIVER_MODULE
        if isinstance(name, Unknown):
            return None
        return name in self.modules_loaded or self.host.entry(f"/sys/module/{name}") is not None


_PYTHON = {
    "version": str,
    "executable": str,
    "bits": int,
    "modules": {str: (str, None)},
    "distributions": {str: (str, None)},
    "entry_points": {str: str},
    "torch": (dict, None),
    "libraries": {str: str},
}
_IMPORTED = {"import": {"error": str, "version": str, "numpy?": str}}
"""What our program prints; another interpreter runs it, and what that loads can print too."""


def _answer(process: ProcessResult, shape: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON of a shape that a program of ours printed last; None when there is none."""
    lines = process.out.strip().splitlines()
    if not process.ok or not lines:
        return None
    try:
        answer: dict[str, Any] = checked(parsed_json(lines[-1]), dict(shape))
    except ValueError:
        return None
    return answer
