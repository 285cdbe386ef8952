"""Small projects, written into a folder and looked at."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.programs.entry_points.finder import programs_of
from torchferry.programs.entry_points.launch_commands import StartingCommands
from torchferry.programs.imports.module_graph import Modules
from torchferry.programs.imports.settings_classes import SettingsFiles
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import JudgedProgram, Program
from torchferry.programs.verdicts.judging import judge
from torchferry.rules.analysis import Analysis, Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.project import Project
from torchferry.source.tree import list_files

Files = dict[str, str]

MAIN = "import torch\nif __name__ == '__main__':\n    print(torch.ones(2))\n"
"""A program that has nothing to change."""

KERNEL = "__global__ void f() {}\nvoid run() { f<<<1, 1>>>(); }\n"
BUILT = {
    "csrc/setup.py": "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\n"
    'setup(ext_modules=[CUDAExtension("fast_ops", ["ops.cu"])])\n',
    "csrc/ops.cu": KERNEL,
}
"""Files that build the compiled module `fast_ops` from CUDA, which no other card has."""


@cache
def target_of(name: str) -> Target:
    choice = registry.choose(name)
    return Target(choice.backend, choice.version)


def write(root: Path, files: Files) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Small(NamedTuple):
    """A small project, examined."""

    analysis: Analysis
    target: Target

    @property
    def project(self) -> Project:
        assert self.analysis.project is not None
        return self.analysis.project

    def programs(self) -> list[Program]:
        sources = Sources(self.project, [item.path for item in self.analysis.examined if item.kind is Kind.NOTEBOOK])
        modules, examined = self.modules(), self.analysis.examined
        commands = StartingCommands(self.project.root, modules, self.target).started(examined)
        assert self.analysis.roles is not None
        return programs_of(sources, modules, examined, self.analysis.roles, commands)

    def modules(self) -> Modules:
        outlines = [item.outline for item in self.analysis.examined if item.outline is not None]
        settings = [item.path for item in self.analysis.examined if item.kind in (Kind.YAML, Kind.JSON)]
        return Modules(self.project, outlines, SettingsFiles(self.project.root, settings))

    def judged(self) -> dict[str, JudgedProgram]:
        """Return the verdicts by the titles of the programs."""
        found = judge(self.analysis, self.target)
        return {each.program.title: each for each in found}


def small(root: Path, files: Files, target: str = "npu", *, with_rules: bool = False) -> Small:
    """Write a project and examine it; without rules when only its programs and imports are asked for."""
    write(root, files)
    listing = list_files(root)
    request = Request(root, listing, target_of(target), rules() if with_rules else ())
    analysis = analyse(request)
    assert analysis.failures == []
    return Small(analysis, request.target)


def judged(root: Path, files: Files, target: str = "npu") -> dict[str, JudgedProgram]:
    """Write a project, and return the verdicts of its programs by their titles."""
    return small(root, files, target, with_rules=True).judged()
