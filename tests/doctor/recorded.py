"""A machine that was recorded: a folder of files, outputs of tools, an interpreter's answer, a user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchferry.backends.target import Target
from torchferry.core.subprocesses import ProcessResult
from torchferry.doctor import registry
from torchferry.doctor.context import CheckContext
from torchferry.doctor.engine import examine
from torchferry.doctor.host import Host, HostFile, Space, User
from torchferry.doctor.result import Result

KERNEL = "5.15.0-105-generic"

PYTHON: dict[str, Any] = {
    "executable": "/venv/bin/python",
    "version": "3.10.12",
    "prefix": "/venv",
    "virtual": True,
    "bits": 64,
    "modules": {},
    "distributions": {},
    "entry_points": {},
    "torch": None,
    "libraries": {},
    "import": None,
}


@dataclass(frozen=True)
class Recorded(Host):
    """A recorded machine.

    Attributes:
        outputs: For the words of a command, its output: a text, or how it ended.
        answer: What the program that looks into Python printed.
        imported: What importing the plugin printed.
        nodes: Device nodes, which a folder of an ordinary user cannot hold.
        links: What links point at.
        who: The user.
        bounds: Soft and hard limits.
        rooms: Room by path.
    """

    outputs: Mapping[str, str | ProcessResult] = field(default_factory=dict)
    answer: Mapping[str, Any] | ProcessResult = field(default_factory=lambda: PYTHON)
    imported: Mapping[str, Any] | ProcessResult = field(default_factory=lambda: {"error": "", "version": "1"})
    nodes: Mapping[str, HostFile] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    who: User = field(default_factory=lambda: User(1000, "mia", (1000,)))
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rooms: Mapping[str, Space] = field(default_factory=dict)

    @property
    def architecture(self) -> str:
        return "x86_64"

    @property
    def kernel(self) -> str:
        return KERNEL

    @property
    def hostname(self) -> str:
        return "node1"

    @property
    def user(self) -> User:
        return self.who

    def now(self) -> float:
        return 1.8e9

    def limits(self) -> dict[str, tuple[int, int]]:
        return dict(self.bounds)

    def entry(self, path: str) -> HostFile | None:
        return self.nodes.get(path) or super().entry(path)

    def link(self, path: str) -> str | None:
        return self.links.get(path)

    def find(self, pattern: str) -> list[str]:
        from fnmatch import fnmatchcase

        return sorted({*super().find(pattern), *(path for path in self.nodes if fnmatchcase(path, pattern))})

    def space(self, path: str) -> Space | None:
        return self.rooms.get(path)

    def which(self, name: str, places: tuple[str, ...] = ()) -> str | None:
        known = {command.split()[0] for command in self.outputs}
        return name if name in known else next((place for place in places if place in known), None)

    def run(self, command: tuple[str, ...], timeout: float = 0) -> ProcessResult:
        found = self.outputs.get(" ".join(command))
        if found is None:
            return ProcessResult(None, problem="missing")
        return found if isinstance(found, ProcessResult) else ProcessResult(0, found)

    def run_python(self, program: Path, argument: str, timeout: float, **variables: str) -> ProcessResult:
        smi = json.loads(argument)
        if smi["import"]:
            return (
                self.imported
                if isinstance(self.imported, ProcessResult)
                else ProcessResult(0, json.dumps({"import": self.imported}))
            )
        return (
            self.answer
            if isinstance(self.answer, ProcessResult)
            else ProcessResult(0, json.dumps({**PYTHON, **self.answer}))
        )


@dataclass(frozen=True)
class Case:
    """A row of a table: a machine, and what one check says of it.

    Attributes:
        check: Code of the check.
        target: The target.
        wanted: Status and a part of what is said, for each result.
        files: Files of the machine; a folder ends with a slash.
        rehearsed: Whether it is a rehearsal.
        probe: What the probe found.
        machine: Further fields of `Recorded`.
    """

    check: str
    target: str
    wanted: tuple[tuple[str, str], ...]
    files: Mapping[str, str] = field(default_factory=dict)
    rehearsed: bool = False
    probe: Mapping[str, Any] | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.check}-{self.target}-{'+'.join(status for status, _ in self.wanted)}"


def node(path: str, *, gid: int = 0, mode: int = 0o660, usable: bool = True) -> HostFile:
    """Return a device node."""
    return HostFile(path, True, mode, 0, gid, 0, usable)


def context_of(case: Case, root: Path) -> CheckContext:
    """Build the machine of a case below `root`."""
    for path, text in {"/proc/modules": "loop 40960 0\n", **case.files}.items():
        place = root / path.lstrip("/")
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    machine = Recorded(root=root, environment={"PATH": "/usr/bin"}, python="/venv/bin/python", cwd="/work")
    return CheckContext(
        replace(machine, **case.machine), Target.named(case.target), rehearsed=case.rehearsed, probe=case.probe
    )


def results_of(case: Case, root: Path) -> list[Result]:
    """Run the check of a case."""
    checks = [check for check in registry.all_checks() if check.code == case.check]
    return list(examine(context_of(case, root), checks).results)


def failures(results: list[Result]) -> Iterator[Result]:
    """Yield what is not well."""
    return (result for result in results if result.status.value in ("failure", "warning"))


ROOMY = Space(1 << 40, 1 << 39, True, True)
SHM = Space(64 << 30, 60 << 30, True, True)
INSIDE = {"/.dockerenv": ""}
OTHER_PCI = {
    "/sys/bus/pci/devices/0000:00:01.0/vendor": "0x19e5\n",
    "/sys/bus/pci/devices/0000:00:01.0/device": "0x1822\n",
    "/sys/bus/pci/devices/0000:00:01.0/class": "0x020000\n",
}


def python(**values: object) -> dict[str, object]:
    """Return a machine's fields with this Python side."""
    return {"answer": {**PYTHON, **values}}


def companions(torch: str, **versions: str) -> dict[str, object]:
    """Return an interpreter that has torch and what belongs to it."""
    return python(
        modules={"torch": "/venv/torch/__init__.py"},
        distributions={"torch": torch, **versions},
        torch={"version": torch, "cuda": None, "hip": None},
    )


def variables(**values: str) -> dict[str, object]:
    """Return a machine's environment."""
    return {"environment": {"PATH": "/usr/bin", **values}}


def tool(name: str, output: str | ProcessResult, **more: str | ProcessResult) -> dict[str, object]:
    """Return a machine's fields with these outputs."""
    return {"outputs": {name: output, **{key.replace("__", " -t ecc -i "): value for key, value in more.items()}}}


def steps(*said: dict[str, object], **more: object) -> dict[str, object]:
    """Return what the probe found."""
    return {"steps": list(said), "doing": "", "stopped": "", **more}


PROXY = {"PATH": "/usr/bin", "http_proxy": "http://mia:secret@10.0.0.1:3128", "HTTP_PROXY": "http://other:3128"}


def commands(check: str, target: str, tmp_path: Path, files: dict[str, str], **machine: object) -> list[str]:
    results = results_of(Case(check, target, (), files, machine=machine), tmp_path)
    return [command for result in results for command in result.commands]
