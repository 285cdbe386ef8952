"""The verdict of each program: what it comes to that the target does not have, what must change, what nobody knows."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from torchferry.backends.target import Target
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.installed.inspection import Inspected
from torchferry.programs.absent import Absent
from torchferry.programs.conditions import Conditions
from torchferry.programs.discovery import ASIDE, programs_of
from torchferry.programs.installed_needs import InstalledNeeds, PackageNeed
from torchferry.programs.instantiated import SettingsFiles
from torchferry.programs.model import Judged, Need, Obstacle, Program, Source, Step, Unread, Verdict, Way
from torchferry.programs.modules import Edge, External, Modules
from torchferry.programs.reach import Reach
from torchferry.programs.sources import LONGEST, Sources, import_at
from torchferry.programs.switches import Switchboard, Switches, said, settings_of
from torchferry.programs.uses import Uses
from torchferry.rules.analysis import Analysis
from torchferry.rules.examined import Failure
from torchferry.source.flow.syntax import string_value
from torchferry.source.kinds import Kind
from torchferry.source.outline import Import, Outline, outline
from torchferry.source.parsing import parse_fault
from torchferry.source.project import Project, absolute_module, extension_names
from torchferry.source.python import PythonFile

MOST_PROGRAMS = 400
"""Programs that are judged; a folder of examples may hold thousands, and further ones are left out."""

_MOST_DECISIONS = 80
"""Findings of one program whose way is looked for; the rest counts as reached."""

_BUILDERS = ("CUDAExtension", "CppExtension", "cpp_extension", "create_extension")
_SOURCES = (".cu'", '.cu"')
_CUDA_BUILD = ("CUDAExtension", *_SOURCES, "nvcc", "create_extension")
_LIBRARY_LOADERS = ("CDLL", "LoadLibrary", "load_library", "RawModule")
"""What loads a compiled library by its path."""


class _Lack(NamedTuple):
    """Something that the target does not have, where a file needs it; `noted` where its rule saw a guard."""

    what: str
    code: str
    place: Location
    message: Message
    noted: bool = False
    source: Source = Source.TABLE
    beyond: tuple[Step, ...] = ()


class Judgement(NamedTuple):
    """The programs of a project and the verdict of each, and how many more there are that were not judged."""

    programs: tuple[Judged, ...] = ()
    left: int = 0


def judge(analysis: Analysis, target: Target, named: Iterable[str] = ()) -> tuple[Judged, ...]:
    """Return the programs of a project and the verdict of each; see `judgement`."""
    return judgement(analysis, target, named).programs


def judgement(
    analysis: Analysis,
    target: Target,
    named: Iterable[str] = (),
    only: Collection[str] = (),
    packages: Iterable[Inspected] = (),
) -> Judgement:
    """Return the programs of a project and the verdict of each, those that documents start first.

    Args:
        analysis: The whole project, examined with every rule.
        target: Where it is to run.
        named: Files that the user says are programs.
        only: Files and folders whose programs are asked for; a file is one then. Empty for all.
        packages: What an environment shows of the packages that the project imports.
    """
    assert analysis.project is not None
    return _Judge(analysis, analysis.project, target, packages).judged(named, only)


class _Judge:
    def __init__(
        self, analysis: Analysis, project: Project, target: Target, packages: Iterable[Inspected] = ()
    ) -> None:
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
        self.switchboard = Switchboard(self.sources, lambda: settings_of(self._setting_texts()))
        self.kernels = {_stem(item.path): item.path for item in self.examined if item.kind is Kind.KERNEL}
        self.installed = InstalledNeeds(packages, target)
        built = frozenset(self.compiled) | project.extensions
        self.absent = Absent(project.root, project.paths | self.sources.notebooks, analysis.listing, built)
        self.largest = analysis.largest
        self._lacks: dict[str, list[_Lack]] = {}
        self._doubts: dict[str, list[_Lack]] = {}
        self._faults: dict[str, Message | None] = {}

    def _outlines(self) -> Iterator[Outline]:
        for number, item in enumerate(self.examined):
            if item.kind is Kind.NOTEBOOK:
                read = outline(item.path, self.sources.text(item.path).encode("utf-8", "replace"))
                self.examined[number] = item._replace(outline=read)
                yield read
            elif item.outline is not None:
                yield item.outline

    def judged(self, named: Iterable[str], only: Collection[str] = ()) -> Judgement:
        folders = tuple(f"{path}/" for path in only)
        programs = programs_of(self.sources, self.modules, self.examined, self.target, (*named, *only))
        if only:
            programs = [program for program in programs if program.path in only or program.path.startswith(folders)]
        return Judgement(tuple(map(self._judged, programs[:MOST_PROGRAMS])), max(len(programs) - MOST_PROGRAMS, 0))

    def _judged(self, program: Program) -> Judged:
        """Judge a program; a fault of torchferry's own is reported, and the run goes on."""
        try:
            return self._judge(program, self._closure(program))
        except Exception:
            number, item = next((n, item) for n, item in enumerate(self.examined) if item.path == program.path)
            failure = Failure(program.path, traceback.format_exc())
            self.examined[number] = self.by_path[program.path] = item._replace(failure=failure)
            return Judged(program, Verdict.NOT_JUDGED, unread=(Unread(program.path, say("torchferry failed on it")),))

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
        doubts = _sorted(list(self._package_doubts(reach, closure)))
        decisions = (*self._decisions(reach, closure), *(doubt.place for doubt in doubts))
        fixes = sum(
            finding.grade in (Grade.SAFE, Grade.UNSAFE)
            for path in closure
            for finding in (self.by_path[path].findings if path in self.by_path else ())
        )
        unread = tuple(self._unread(reach, closure))
        unfollowed = tuple(
            Unread(f"{inner.path}:{inner.line}", say("imports what cannot be told: {text}", text=inner.text))
            for path in closure
            for inner in self.modules.unfollowed.get(path, ())
        )
        if unfollowed:
            optional += self._behind_computed(closure, unfollowed[0].place)
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
            tuple(doubts),
            tuple(closure),
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
            found += self._loaded_libraries(path)
            found += self._of_packages(path, surely=True)
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
                names = extension_names(text)
            else:  # distutils' own, with a compiler of the project's choice
                parts = text.split("Extension(")[1:] if any(source in text for source in _SOURCES) else ()
                cuda = [part for part in parts if any(source in part for source in _SOURCES)]
                names = frozenset().union(*(extension_names(f"Extension({part}") for part in cuda))
            for name in names:
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
            yield _Lack(name, "EXT101", place, message, source=Source.CODE)

    # --- what packages show as they are installed ---

    def _of_packages(self, path: str, *, surely: bool) -> Iterator[_Lack]:
        """Yield what the packages need that a file imports: what stops the import, or what a person must look at."""
        for external in self.modules.externals.get(path, ()) if self.installed else ():
            for need in self.installed.needs(external.module):
                if need.stops is surely:
                    yield self._of_package(need, external)

    def _of_package(self, need: PackageNeed, external: External) -> _Lack:
        loaded = self.sources.file(external.importer)
        statement = import_at(loaded[0], external.line) if loaded is not None else None
        place = (
            loaded[0].location(*loaded[0].span(statement))
            if loaded is not None and statement is not None
            else Location(external.importer, external.line, 1, external.line, 2)
        )
        return _Lack(need.what, "LIB101", place, need.message, source=need.source, beyond=need.steps)

    def _package_doubts(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Obstacle]:
        for path in closure if self.installed else ():
            if path not in self._doubts:
                self._doubts[path] = [*self._of_packages(path, surely=False)]
            for lack in self._doubts[path]:
                obstacle = self._obstacle(reach, lack)
                if obstacle is not None and obstacle.way.need in (Need.ALWAYS, Need.CHOSEN):
                    yield obstacle

    def _loaded_libraries(self, path: str) -> Iterator[_Lack]:
        """Yield where a file loads a library by its path that is called as a CUDA source of the project."""
        text = self.sources.text(path) if self.kernels else ""
        loaded = self.sources.file(path) if any(loader in text for loader in _LIBRARY_LOADERS) else None
        if loaded is None:
            return
        file, _ = loaded
        for loader in _LIBRARY_LOADERS:
            for callee in (*file.attributes.get(loader, ()), *file.names.get(loader, ())):
                call = file.parents.get(callee)
                if not isinstance(call, ast.Call) or call.func is not callee:
                    continue
                texts = (string_value(part) for part in ast.walk(call) if isinstance(part, ast.expr))
                stems = {_stem(value) for value in texts if value}
                source = next((self.kernels[stem] for stem in sorted(stems & self.kernels.keys())), None)
                if source is not None:
                    message = say(
                        "the library that is loaded here is compiled from {source}: {target} cannot run its kernels",
                        source=source,
                        target=self.target.title,
                    )
                    place = file.location(*file.span(call))
                    yield _Lack(_stem(source), "EXT101", place, message, source=Source.CODE)

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
        if way is None:
            return None
        way = way._replace(steps=(*way.steps, *lack.beyond))
        return Obstacle(lack.what, lack.code, lack.place, lack.message, way, lack.source)

    def _behind_computed(self, closure: dict[str, Edge | None], place: str) -> Iterator[Obstacle]:
        """Yield what the rest of the project lacks: an import that cannot be told may come to it."""
        for item in self.examined:
            if item.path in closure or item.kind is not Kind.PYTHON or ASIDE.search(item.path):
                continue
            for lack in self._lacks_of(item.path):
                way = Way(Need.CHOSEN, (Step(lack.place.path, lack.place.line),), (f"import ({place})",))
                yield Obstacle(lack.what, lack.code, lack.place, lack.message, way, lack.source)

    # --- what a person must decide ---

    def _decisions(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Location]:
        looked = 0
        for path in closure:
            item = self.by_path.get(path)
            if item is None or item.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
                continue
            for finding in item.findings:
                if finding.grade is not Grade.MANUAL or finding.lacks or finding.code.startswith("FIL"):
                    continue
                if self._is_settled(finding):
                    continue
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
        way = reach.way(finding.location.path, node)
        return way is not None and way.need in (Need.ALWAYS, Need.CHOSEN)

    def _is_settled(self, finding: Finding) -> bool:
        """Whether a finding asks about a package of which the environment shows that it needs no CUDA."""
        if not self.installed or finding.code != "LIB101":
            return False
        place = finding.location
        return any(
            external.line == place.line and self.installed.is_quiet(external.module)
            for external in self.modules.externals.get(place.path, ())
        )

    # --- what nobody knows ---

    def _unread(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Unread]:
        other = self._other_framework(closure)
        if other is not None:
            yield other
        for path in closure:
            why = self._why_unread(path)
            if why is not None:
                way = reach.way_to_file(path)
                yield Unread(path, why, way.steps if way is not None else ())
            yield from self._absent_imports(reach, path)

    def _why_unread(self, path: str) -> Message | None:
        """Return why a file was not read, or None where it was."""
        item = self.by_path.get(path)
        if item is None:
            return None
        if item.failure is not None:
            return say("torchferry failed on it")
        broken = [f for f in item.findings if f.code.startswith("FIL") and f.grade is Grade.MANUAL]
        if broken:
            return broken[0].message
        if path not in self._faults:
            # What holds a word that a rule asks for was parsed; other files were only searched for such words.
            self._faults[path] = None if item.findings or self.sources.is_parsed(path) else self._fault(path)
        return self._faults[path]

    def _fault(self, path: str) -> Message | None:
        if path in self.sources.notebooks:
            return None if self.sources.file(path) is not None else say("its cells could not be read")
        try:
            size = len(read_regular(self.project.root / path))
        except OSError as error:
            return say("cannot be read: {error}", error=error.strerror)
        if self.largest and size > self.largest:
            return say("{size} bytes are above the limit of {limit}", size=size, limit=self.largest)
        source = self.project.text(path)
        if source is None:
            return say("is no text that Python reads")
        if len(source.text) > LONGEST:
            return say("is so long that no way is followed through it")
        fault = parse_fault(source.text)
        return say("does not parse: line {line}: {error}", line=fault[0], error=fault[1]) if fault is not None else None

    def _absent_imports(self, reach: Reach, path: str) -> Iterator[Unread]:
        """Yield the imports of a file that lead to what belongs to the project and was not read."""
        for external, why in self.absent.imports(path, self.modules):
            loaded = self.sources.file(path) if not self._is_known(external.module) else None
            statement = import_at(loaded[0], external.line) if loaded is not None else None
            if statement is None:
                continue
            way = reach.way(path, statement)
            if way is not None and way.need in (Need.ALWAYS, Need.CHOSEN):
                yield Unread(f"{path}:{external.line}", why, way.steps[:-1])

    def _is_known(self, module: str) -> bool:
        """Whether a table of the target or the environment answers for a module."""
        known = None if module.startswith(".") else self.target.package_of_module(module)
        return (known is not None and known[1].status != "unknown") or self.installed.is_there(module)

    def _other_framework(self, closure: dict[str, Edge | None]) -> Unread | None:
        """Return where a program without torch imports another framework, of which nothing is known here."""
        found: Unread | None = None
        for path in closure:
            for external in self.modules.externals.get(path, ()):
                if external.module.partition(".")[0] == "torch" and external.module != "torch.utils.tensorboard":
                    return None
                known = self.target.package_of_module(external.module)
                if found is None and known is not None and known[0].kind == "other":
                    place = f"{path}:{external.line}"
                    found = Unread(place, say("computes with {name}, which is not torch", name=known[0].name))
        return found

    def _unverified(self, closure: dict[str, Edge | None]) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for path in closure:
            for external in self.modules.externals.get(path, ()):
                top = external.module.partition(".")[0]
                if not top or top in seen or top in sys.stdlib_module_names or top in self.compiled:
                    continue
                seen.add(top)
                known = self.target.package_of_module(external.module)
                if self.installed.is_quiet(external.module) or self.installed.needs(external.module):
                    continue
                if self.absent.why(external) is not None:  # it belongs to the project
                    continue
                if known is None or known[1].status == "unknown":
                    yield known[0].name if known is not None else top, f"{path}:{external.line}"

    def _setting_texts(self) -> Iterator[str]:
        for path in self.settings:
            try:
                data = read_regular(self.project.root / path, LARGEST_SETTINGS)
            except OSError:
                continue
            yield data.decode("utf-8", "replace")


def _stem(path: str) -> str:
    """Return what a source and its library are both called: `fast` for `libfast.so` and `cuda/fast.cu`."""
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[0].removeprefix("lib")


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
