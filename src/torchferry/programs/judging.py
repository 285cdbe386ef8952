"""The verdict of each program: what it comes to that the target does not have, what must change, what nobody knows."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchferry.backends.target import Target
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.programs.conditions import Conditions
from torchferry.programs.discovery import ASIDE, programs_of
from torchferry.programs.instantiated import SettingsFiles
from torchferry.programs.model import Judged, Need, Obstacle, Program, Step, Verdict, Way
from torchferry.programs.modules import Edge, External, Modules
from torchferry.programs.reach import Reach
from torchferry.programs.sources import Sources, import_at
from torchferry.programs.switches import Settings, Switchboard, Switches, said
from torchferry.programs.uses import Uses
from torchferry.rules.analysis import Analysis
from torchferry.rules.examined import Failure
from torchferry.source.kinds import Kind
from torchferry.source.outline import Import, Outline, outline
from torchferry.source.project import Project, absolute_module, extension_names
from torchferry.source.python import PythonFile

MOST_PROGRAMS = 400
"""Programs that are judged; a folder of examples may hold thousands, and further ones are left out."""

_MOST_DECISIONS = 80
"""Findings of one program whose way is looked for; the rest counts as reached."""

_BUILDERS = ("CUDAExtension", "CppExtension", "cpp_extension", "create_extension")
_CUDA_BUILD = ("CUDAExtension", ".cu'", '.cu"', "nvcc", "create_extension")


class _Lack(NamedTuple):
    """Something that the target does not have, where a file needs it; `noted` where its rule saw a guard."""

    what: str
    code: str
    place: Location
    message: Message
    noted: bool = False


class _Facts(NamedTuple):
    """What every program that reaches a file takes from it.

    Attributes:
        fixes: How many findings can be fixed.
        manual: What a person must decide where a program comes to it.
        unread: Why the file could not be looked into.
        packages: What it imports that is not the project's, each top-level package once.
        other: Where it first imports a framework other than torch.
        uses_torch: Whether it imports torch.
    """

    fixes: int
    manual: tuple[Finding, ...]
    unread: tuple[Finding, ...]
    packages: tuple[tuple[str, External], ...]
    other: External | None
    uses_torch: bool


def judge(analysis: Analysis, target: Target, named: Iterable[str] = ()) -> tuple[Judged, ...]:
    """Return the programs of a project and the verdict of each, those that documents start first.

    Args:
        analysis: The project, examined.
        target: Where it is to run.
        named: Files that the user says are programs.
    """
    assert analysis.project is not None
    return _Judge(analysis, analysis.project, target).judged(named)


def blocking(findings: Iterable[Finding], programs: Sequence[Judged]) -> Iterator[Finding]:
    """Yield findings that block only where a program comes to them.

    What compiles CUDA blocks where a program needs a compiled module. Without programs, findings stay as they are.
    """
    places = {obstacle.place for judged in programs for obstacle in judged.blockers}
    compiled = any(obstacle.code.startswith("EXT") for judged in programs for obstacle in judged.blockers)
    for finding in findings:
        needed = finding.location in places or (finding.code.startswith("EXT") and compiled and not finding.lacks)
        if finding.lacks and finding.location in places:
            yield finding._replace(blocker=True)
        elif finding.blocker and programs and not needed:
            yield finding._replace(blocker=False)
        else:
            yield finding


class _Judge:
    def __init__(self, analysis: Analysis, project: Project, target: Target) -> None:
        self.examined = analysis.examined
        self.target = target
        self.project = project
        notebooks = [item.path for item in self.examined if item.kind is Kind.NOTEBOOK]
        self.sources = Sources(project, notebooks)
        self.settings = [
            item.path for item in self.examined if item.kind in (Kind.YAML, Kind.JSON) and not ASIDE.search(item.path)
        ]
        self.modules = Modules(project, self._outlines(), SettingsFiles(project.root, self.settings))
        self.uses = Uses(self.sources, self.modules)
        self.by_path = {item.path: item for item in self.examined}
        self.compiled = self._compiled_modules()
        self.switchboard = Switchboard(self.sources, lambda: Settings(self._setting_texts()))
        self._lacks: dict[str, list[_Lack]] = {}
        self._facts: dict[str, _Facts] = {}
        self._lacking: list[str] | None = None

    def _outlines(self) -> Iterator[Outline]:
        for number, item in enumerate(self.examined):
            if item.kind is Kind.NOTEBOOK:
                read = outline(item.path, self.sources.text(item.path).encode("utf-8", "replace"))
                self.examined[number] = item._replace(outline=read)
                yield read
            elif item.outline is not None:
                yield item.outline

    def judged(self, named: Iterable[str]) -> tuple[Judged, ...]:
        programs = programs_of(self.sources, self.modules, self.examined, self.target, named)[:MOST_PROGRAMS]
        closures = {program: self._attempted(program) for program in programs}
        self.uses.reached = frozenset(path for closure in closures.values() for path in closure or ())
        return tuple(self._judged(program, closure) for program, closure in closures.items())

    def _attempted(self, program: Program) -> dict[str, Edge | None] | None:
        """Return what a program reaches, or None where torchferry fails on it: that is reported in its turn."""
        try:
            return self._closure(program)
        except Exception:
            return None

    def _judged(self, program: Program, closure: dict[str, Edge | None] | None) -> Judged:
        """Judge a program; a fault of torchferry's own is reported, and the run goes on."""
        try:
            return self._judge(program, self._closure(program) if closure is None else closure)
        except Exception:
            number, item = next((n, item) for n, item in enumerate(self.examined) if item.path == program.path)
            failure = Failure(program.path, traceback.format_exc())
            self.examined[number] = self.by_path[program.path] = item._replace(failure=failure)
            return Judged(program, Verdict.NOT_JUDGED, unread=((program.path, say("torchferry failed on it")),))

    def _closure(self, program: Program) -> dict[str, Edge | None]:
        named = (argument.removeprefix("./") for argument in program.arguments)
        also = [path for path in named if path.endswith(".py") and path in self.project.paths]
        settings = self.modules.settings.of_program(program.path, self.sources.text(program.path), program.arguments)
        return self.modules.closure(program.path, also, settings)

    def _judge(self, program: Program, closure: dict[str, Edge | None]) -> Judged:
        switches = Switches(self.switchboard, closure)
        conditions = Conditions(self.sources, tuple(closure), switches, said(program.arguments))
        reach = Reach(program, self.sources, self.modules, closure, conditions, self._lacking_lines, self.uses)
        blockers: list[Obstacle] = []
        optional: list[Obstacle] = []
        for path in closure:
            for lack in self._lacks_of(path):
                obstacle = self._obstacle(reach, lack)
                if obstacle is not None:
                    (blockers if obstacle.way.need is Need.ALWAYS else optional).append(obstacle)
        decisions = tuple(self._decisions(reach, closure))
        fixes = sum(self._facts_of(path).fixes for path in closure)
        unread = tuple(self._unread(closure))
        unfollowed = tuple(
            (f"{inner.path}:{inner.line}", say("imports what cannot be told: {text}", text=inner.text))
            for path in closure
            for inner in self.modules.unfollowed.get(path, ())
        )
        if unfollowed:
            optional += self._behind_computed(closure, unfollowed[0][0])
        blockers, optional = _sorted(blockers), _sorted(optional)
        optional = [item for item in optional if item.what not in {blocker.what for blocker in blockers}]
        if blockers:
            verdict = Verdict.BLOCKED
        elif unread:
            verdict = Verdict.NOT_JUDGED
        elif decisions:
            verdict = Verdict.DECISIONS
        elif optional:
            verdict = Verdict.WITHOUT
        else:
            verdict = Verdict.FIXES if fixes else Verdict.READY
        return Judged(
            program,
            verdict,
            tuple(blockers),
            tuple(optional),
            fixes,
            decisions,
            tuple(self._unverified(closure)),
            (*unread, *unfollowed),
            len(closure),
        )

    # --- what the target does not have ---

    def _lacks_of(self, path: str) -> list[_Lack]:
        if path not in self._lacks:
            item = self.by_path.get(path)
            found = [
                _Lack(finding.lacks, finding.code, finding.location, finding.message, finding.grade is Grade.NOTE)
                for finding in (item.findings if item is not None else ())
                if finding.lacks
            ]
            found += self._compiled_imports(path)
            self._lacks[path] = found
        return self._lacks[path]

    def _lacking_lines(self, path: str) -> set[int]:
        """Return the lines of a file where something is imported that the target does not have."""
        return {lack.place.line for lack in self._lacks_of(path)}

    def _compiled_modules(self) -> dict[str, str]:
        """Return the compiled modules that need CUDA, by their last name, with the script that builds each."""
        found: dict[str, str] = {}
        for path in sorted(self.project.paths):
            text = self.sources.text(path) if _may_build(path) else ""
            if any(word in text for word in _BUILDERS) and any(word in text for word in _CUDA_BUILD):
                for name in extension_names(text):
                    found.setdefault(name, path)
        return found

    def _compiled_imports(self, path: str) -> Iterator[_Lack]:
        """Yield the imports of a file that need a module which is compiled from CUDA."""
        for imported in self.modules.imports.get(path, ()) if self.compiled else ():
            names = [imported.module.rpartition(".")[2], *imported.names]
            name = next((name for name in names if name in self.compiled), None)
            if name is None or self._is_written(imported, name, path):
                continue
            loaded = self.sources.file(path)
            statement = import_at(loaded[0], imported.line) if loaded is not None else None
            if loaded is None or statement is None:
                continue
            place = loaded[0].location(*loaded[0].span(statement))
            message = say(
                "`{name}` is compiled from CUDA by {script}: {target} cannot run its kernels; port them, or use "
                "what computes the same in torch",
                name=name,
                script=self.compiled[name],
                target=self.target.title,
            )
            yield _Lack(name, "EXT101", place, message)

    def _is_written(self, imported: Import, name: str, path: str) -> bool:
        """Whether a name that is imported is a file of Python all the same, or is torch's."""
        module = absolute_module(imported.module, path)
        if module.partition(".")[0] == "torch":
            return True
        whole = module if module.rpartition(".")[2] == name else f"{module}.{name}"
        return self.modules.find(whole, path) is not None

    def _obstacle(self, reach: Reach, lack: _Lack) -> Obstacle | None:
        """Return what the target lacks with the way to it, or None where the program does not come there."""
        loaded = self.sources.file(lack.place.path)
        node = _node_of(loaded[0], lack.place) if loaded is not None else None
        if node is not None:
            way = reach.way(lack.place.path, node)
        else:  # the cells of a notebook run from the first to the last
            need = Need.GUARDED if lack.noted else Need.ALWAYS
            way = Way(need, (Step(lack.place.path, lack.place.line),))
        return None if way is None else Obstacle(lack.what, lack.code, lack.place, lack.message, way)

    def _behind_computed(self, closure: dict[str, Edge | None], place: str) -> Iterator[Obstacle]:
        """Yield what the rest of the project lacks: an import that cannot be told may come to it."""
        if self._lacking is None:
            python = (item.path for item in self.examined if item.kind is Kind.PYTHON)
            self._lacking = [path for path in python if self._lacks_of(path) and not ASIDE.search(path)]
        for path in self._lacking:
            for lack in self._lacks_of(path) if path not in closure else ():
                way = Way(Need.CHOSEN, (Step(lack.place.path, lack.place.line),), (f"import ({place})",))
                yield Obstacle(lack.what, lack.code, lack.place, lack.message, way)

    def _facts_of(self, path: str) -> _Facts:
        if path not in self._facts:
            item = self.by_path.get(path)
            findings = item.findings if item is not None else ()
            manual = [finding for finding in findings if finding.grade is Grade.MANUAL]
            is_code = item is not None and item.kind in (Kind.PYTHON, Kind.NOTEBOOK)
            self._facts[path] = _Facts(
                sum(finding.grade in (Grade.SAFE, Grade.UNSAFE) for finding in findings),
                tuple(f for f in manual if is_code and not f.lacks and not f.code.startswith("FIL")),
                tuple(f for f in manual if f.code.startswith("FIL")),
                tuple(self._packages(path)),
                next(filter(self._is_other_framework, self.modules.externals.get(path, ())), None),
                any(map(_means_torch, self.modules.externals.get(path, ()))),
            )
        return self._facts[path]

    def _packages(self, path: str) -> Iterator[tuple[str, External]]:
        seen: set[str] = set()
        for external in self.modules.externals.get(path, ()):
            top = external.module.partition(".")[0]
            if top and top not in seen and top not in sys.stdlib_module_names and top not in self.compiled:
                seen.add(top)
                yield top, external

    def _is_other_framework(self, external: External) -> bool:
        known = self.target.package_of_module(external.module)
        return known is not None and known[0].kind == "other"

    # --- what a person must decide ---

    def _decisions(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Location]:
        looked = 0
        for path in closure:
            for finding in self._facts_of(path).manual:
                looked += 1
                if looked > _MOST_DECISIONS or self._comes_to(reach, finding):
                    yield finding.location

    def _comes_to(self, reach: Reach, finding: Finding) -> bool:
        loaded = self.sources.file(finding.location.path)
        if loaded is None:
            return True
        node = _node_of(loaded[0], finding.location)
        if node is None:
            return True
        return reach.comes_to(finding.location.path, node)

    # --- what nobody knows ---

    def _unread(self, closure: dict[str, Edge | None]) -> Iterator[tuple[str, Message]]:
        other = self._other_framework(closure)
        if other is not None:
            yield other
        for path in closure:
            item = self.by_path.get(path)
            if item is not None and item.failure is not None:
                yield path, say("torchferry failed on it")
            for finding in self._facts_of(path).unread:
                yield path, finding.message

    def _other_framework(self, closure: dict[str, Edge | None]) -> tuple[str, Message] | None:
        """Return where a program without torch imports another framework, of which nothing is known here."""
        if any(self._facts_of(path).uses_torch for path in closure):
            return None
        for path in closure:
            external = self._facts_of(path).other
            known = self.target.package_of_module(external.module) if external is not None else None
            if external is not None and known is not None:
                return f"{path}:{external.line}", say("computes with {name}, which is not torch", name=known[0].name)
        return None

    def _unverified(self, closure: dict[str, Edge | None]) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for path in closure:
            for top, external in self._facts_of(path).packages:
                if top in seen:
                    continue
                seen.add(top)
                known = self.target.package_of_module(external.module)
                if known is None or known[1].status == "unknown":
                    yield known[0].name if known is not None else top, f"{path}:{external.line}"

    def _setting_texts(self) -> Iterator[str]:
        for path in self.settings:
            try:
                data = read_regular(self.project.root / path, LARGEST_SETTINGS)
            except OSError:
                continue
            yield data.decode("utf-8", "replace")


def _means_torch(external: External) -> bool:
    return external.module.partition(".")[0] == "torch" and external.module != "torch.utils.tensorboard"


def _may_build(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(("setup", "build", "make", "install", "compile")) or "ext" in name


def _sorted(obstacles: Sequence[Obstacle]) -> list[Obstacle]:
    """Return obstacles, one for each thing, the surest way first, then the shortest."""
    best: dict[str, Obstacle] = {}
    for obstacle in obstacles:
        known = best.get(obstacle.what)
        if known is None or (obstacle.way.need, len(obstacle.way.steps)) < (known.way.need, len(known.way.steps)):
            best[obstacle.what] = obstacle
    return sorted(best.values(), key=lambda item: (item.way.need, len(item.way.steps), item.what))


def _node_of(file: PythonFile, place: Location) -> ast.AST | None:
    """Return the statement or expression at the place of a finding."""
    line = place.line
    if place.cell:
        return None
    starts = file.source.starts
    if not 0 < line <= len(starts):
        return None
    start = starts[line - 1] + place.column - 1
    end = starts[min(place.end_line, len(starts)) - 1] + place.end_column - 1
    return file.node_at(start, max(end, start))
