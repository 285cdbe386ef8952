"""The verdict of each program: what it comes to that the target does not have, what must change, what nobody knows."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from torchferry.backends.parts import divided
from torchferry.backends.target import Target
from torchferry.core.files import LARGEST_SETTINGS, read_regular
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.programs.around import around
from torchferry.programs.commands import StartingCommands
from torchferry.programs.conditions import Conditions
from torchferry.programs.discovery import ASIDE, programs_of
from torchferry.programs.instantiated import SettingsFiles
from torchferry.programs.live import Live
from torchferry.programs.model import Form, Judged, Need, Obstacle, Program, Step, Verdict, Way
from torchferry.programs.modules import Edge, Modules
from torchferry.programs.reach import Reach, supposed
from torchferry.programs.sources import Sources, current, import_at
from torchferry.programs.starting import StartedPrograms
from torchferry.programs.switches import Settings, Switchboard, Switches, said
from torchferry.programs.uses import Uses
from torchferry.rules.analysis import Analysis
from torchferry.rules.examined import Failure
from torchferry.rules.needed import builds_without_cuda
from torchferry.source.kinds import Kind
from torchferry.source.names import Names, bound_name
from torchferry.source.outline import Import, Outline, outline
from torchferry.source.project import Project, absolute_module, extension_names
from torchferry.source.python import PythonFile

MOST_PROGRAMS = 400
"""Programs that are judged; a folder of examples may hold thousands, and further ones are left out."""

PLUGIN_IMPORT = "IMP101"
"""The rule that adds the import of the target's plugin."""

_BESIDE = ("torch.utils.tensorboard", "torch.utils.data")
"""Modules of torch that programs of other frameworks use too."""

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
    when: str = ""


def judge(analysis: Analysis, target: Target, named: Iterable[str] = ()) -> tuple[Judged, ...]:
    """Return the programs of a project and the verdict of each, those that documents start first.

    Args:
        analysis: The project, examined.
        target: Where it is to run.
        named: Files that the user says are programs.
    """
    assert analysis.project is not None
    return _Judge(analysis, analysis.project, target).judged(named)


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
        self.started = StartedPrograms(self.sources, StartingCommands(project.root, self.modules, target))
        self._lacks: dict[str, list[_Lack]] = {}
        self._inner: dict[tuple[str, tuple[str, ...]], Judged | None] = {}
        self._fixed: dict[Program, frozenset[tuple[str, Location]]] = {}

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
        closure = self.modules.closure(program.path, also, self._settings_of(program))
        if program.form is Form.LIBRARY and len(closure) == 1 and program.path.endswith("/__init__.py"):
            return self.modules.closure(program.path, self._public_modules(program.path))
        return closure

    def _public_modules(self, path: str) -> Iterator[str]:
        """Yield the modules that people import from a package whose own file imports none of them."""
        folder = path.removesuffix("__init__.py")
        for inner in sorted(self.project.paths):
            rest = inner.removeprefix(folder)
            parts = rest.removesuffix(".py").removesuffix("/__init__").split("/")
            if inner.startswith(folder) and not any(part.startswith("_") for part in parts) and not ASIDE.search(inner):
                yield inner

    def _settings_of(self, program: Program) -> tuple[str, ...]:
        """Return the settings files that a program is started with, or names itself."""
        text = self.sources.text(program.path)
        return self.modules.settings.of_program(program.path, text, program.arguments)

    def _judge(self, program: Program, closure: dict[str, Edge | None]) -> Judged:
        switches = Switches(self.switchboard, closure, self.target)
        conditions = Conditions(self.sources, tuple(closure), switches, said(program.arguments))
        reach = Reach(program, self.sources, self.modules, closure, conditions, self._lacking_lines, self.uses)
        blockers: list[Obstacle] = []
        optional: list[Obstacle] = []
        for path in closure:
            for lack in self._lacks_of(path):
                obstacle = self._obstacle(reach, lack)
                if obstacle is not None:
                    (blockers if obstacle.way.need is Need.ALWAYS else optional).append(obstacle)
        builds = tuple(_sorted([*self._builds(reach, closure)]))
        decisions = (*self._decisions(reach, closure), *(build.place for build in builds))
        live = Live(program, self.sources, self.modules, closure, self.uses, reach.statement)
        running = [path for path in closure if live.runs(path)]
        fixes = self._fixes(live, closure)
        unread = tuple(self._unread(running))
        unfollowed = tuple(
            (f"{inner.path}:{inner.line}", say("imports what cannot be told: {text}", text=inner.text))
            for path in running
            for inner in self.modules.unfollowed.get(path, ())
        )
        if unfollowed:
            optional += self._behind_computed(closure, unfollowed[0][0])
        with_settings = self._settings_of(program)
        for finding in (finding for path in with_settings for finding in self._findings(path)):
            if finding.grade is Grade.MANUAL and not finding.code.startswith("FIL"):
                decisions = (*decisions, finding.location)
            elif finding.grade in (Grade.SAFE, Grade.UNSAFE):
                fixes |= {(finding.code, finding.location)}
        for way, inner in self._started_by(reach, running):
            for obstacle in (*inner.blockers, *inner.optional):
                behind = obstacle._replace(way=_joined(way, obstacle.way))
                (blockers if behind.way.need is Need.ALWAYS else optional).append(behind)
            fixes |= self._fixed[inner.program]
            if way.need in (Need.ALWAYS, Need.CHOSEN):
                decisions = tuple(dict.fromkeys((*decisions, *inner.decisions)))
                unread += inner.unread if inner.verdict is Verdict.NOT_JUDGED else ()
        self._fixed[program] = fixes
        blockers, optional = _sorted(blockers), _sorted(optional)
        optional = [item for item in optional if item.what not in {blocker.what for blocker in blockers}]
        alternatives = tuple(self._alternatives(program, with_settings))
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
            (*optional, *alternatives),
            len(fixes),
            decisions,
            tuple(self._unverified(running)),
            (*unread, *unfollowed),
            len(running),
            builds,
        )

    def _findings(self, path: str) -> Sequence[Finding]:
        return self.by_path[path].findings if path in self.by_path else ()

    def _alternatives(self, program: Program, taken: Sequence[str]) -> Iterator[Obstacle]:
        """Yield what a person must decide in settings that another word of the command would choose."""
        for path, option in self.modules.settings.alternatives(program.path, self.sources.text(program.path)):
            for finding in self._findings(path) if path not in taken else ():
                if finding.grade is Grade.MANUAL and not finding.code.startswith("FIL"):
                    place = finding.location
                    steps = (Step(program.path, 1), Step(place.path, place.line))
                    way = Way(Need.OPTION, steps, (), (option,))
                    what = " ".join(self.modules.settings.text(path).split("\n")[place.line - 1].split()) or option
                    yield Obstacle(what, finding.code, place, finding.message, way)

    def _started_by(self, reach: Reach, running: Sequence[str]) -> Iterator[tuple[Way, Judged]]:
        """Yield the programs that a program starts, judged as it starts them, each with the way to the call."""
        for path in running:
            for starting in self.started.of(path):
                loaded = self.sources.file(path)
                way = reach.way(path, current(loaded[0], starting.call)) if loaded is not None else None
                key = (starting.program.path, starting.program.arguments)
                if way is None:
                    continue
                if key not in self._inner:
                    self._inner[key] = None  # a program that is started again by what it starts
                    self._inner[key] = self._judge(starting.program, self._closure(starting.program))
                judged = self._inner[key]
                if judged is not None:
                    yield way, judged

    # --- what the target does not have ---

    def _lacks_of(self, path: str) -> list[_Lack]:
        if path not in self._lacks:
            item = self.by_path.get(path)
            found = [
                _Lack(
                    finding.lacks,
                    finding.code,
                    finding.location,
                    finding.message,
                    finding.grade is Grade.NOTE,
                    finding.when,
                )
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
            message = say(
                "`{name}` is compiled from CUDA by {script}: {target} cannot run its kernels; port them, or use "
                "what computes the same in torch",
                name=name,
                script=self.compiled[name],
                target=self.target.title,
            )
            places: list[ast.AST] = [statement]
            guarded = around(loaded[0], statement).copes
            if not guarded and self._is_built_for_the_host(self.compiled[name]):  # it is there, and fails when called
                places = _calls_below(*loaded, statement, name)
            for node in places:
                yield _Lack(name, "EXT101", loaded[0].location(*loaded[0].span(node)), message)

    def _is_built_for_the_host(self, script: str) -> bool:
        """Whether a build script builds the module for the CPU where there is no CUDA."""
        loaded = self.sources.file(script)
        return loaded is not None and "CppExtension" in loaded[0].source.text and builds_without_cuda(loaded[0])

    def _is_written(self, imported: Import, name: str, path: str) -> bool:
        """Whether a name that is imported is a file of Python all the same, or is torch's."""
        module = absolute_module(imported.module, path)
        if module.partition(".")[0] == "torch":
            return True
        foreign = self.target.package_of_module(module) if self.modules.find(module, path) is None else None
        if foreign is not None and foreign[0].name in divided():
            return True
        whole = module if module.rpartition(".")[2] == name else f"{module}.{name}"
        if self.modules.find(whole, path) is not None:
            return True
        own = self.modules.find(module, path) if whole != module else None
        loaded = self.sources.file(own) if own is not None else None
        return loaded is not None and bool(loaded[1].module_bindings(name))

    def _obstacle(self, reach: Reach, lack: _Lack) -> Obstacle | None:
        """Return what the target lacks with the way to it, or None where the program does not come there."""
        loaded = self.sources.file(lack.place.path)
        node = _node_of(loaded[0], lack.place) if loaded is not None else None
        if node is not None:
            way = reach.way(lack.place.path, node, supposed(node, lack.when))
        else:  # the cells of a notebook run from the first to the last
            need = Need.GUARDED if lack.noted else Need.CHOSEN if lack.when else Need.ALWAYS
            way = Way(need, (Step(lack.place.path, lack.place.line),))
        return None if way is None else Obstacle(lack.what, lack.code, lack.place, lack.message, way)

    def _behind_computed(self, closure: dict[str, Edge | None], place: str) -> Iterator[Obstacle]:
        """Yield what the rest of the project lacks: an import that cannot be told may come to it."""
        for item in self.examined:
            if item.path in closure or item.kind is not Kind.PYTHON or ASIDE.search(item.path):
                continue
            for lack in self._lacks_of(item.path):
                way = Way(Need.CHOSEN, (Step(lack.place.path, lack.place.line),), (f"import ({place})",))
                yield Obstacle(lack.what, lack.code, lack.place, lack.message, way)

    # --- what a person must decide ---

    def _builds(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Obstacle]:
        """Yield the packages of which another build, by the same name, must be installed, with the way to each."""
        for path in closure:
            item = self.by_path.get(path)
            for finding in item.findings if item is not None else ():
                if finding.installs:
                    lack = _Lack(finding.installs, finding.code, finding.location, finding.message, when=finding.when)
                    build = self._obstacle(reach, lack)
                    if build is not None and build.way.need in (Need.ALWAYS, Need.CHOSEN):
                        yield build

    def _decisions(self, reach: Reach, closure: dict[str, Edge | None]) -> Iterator[Location]:
        looked = 0
        for path in closure:
            item = self.by_path.get(path)
            if item is None or item.kind not in (Kind.PYTHON, Kind.NOTEBOOK):
                continue
            for finding in item.findings:
                if finding.grade is not Grade.MANUAL or finding.lacks or finding.code.startswith("FIL"):
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
        return reach.comes_to(finding.location.path, node, supposed(node, finding.when))

    # --- what torchferry changes ---

    def _fixes(self, live: Live, closure: Iterable[str]) -> frozenset[tuple[str, Location]]:
        """Return what a migration changes in the code that a program comes to, also behind an option."""
        places = [
            finding
            for path in closure
            for finding in self._findings(path)
            if finding.grade in (Grade.SAFE, Grade.UNSAFE)
        ]
        imports = [finding for finding in places if finding.code == PLUGIN_IMPORT]
        reached = [f for f in places if f.code != PLUGIN_IMPORT and self._is_live(live, f)]
        if reached or len(imports) == len(places):  # the plugin is imported for the sake of what uses the device
            reached += [finding for finding in imports if live.runs(finding.location.path)]
        return frozenset((finding.code, finding.location) for finding in reached)

    def _is_live(self, live: Live, finding: Finding) -> bool:
        """Whether a program comes to the place of a finding; to what is no Python it does."""
        path = finding.location.path
        loaded = self.sources.file(path)
        node = _node_of(loaded[0], finding.location) if loaded is not None else None
        return live.runs(path) and (node is None or live.comes_to(path, node))

    # --- what nobody knows ---

    def _unread(self, running: Sequence[str]) -> Iterator[tuple[str, Message]]:
        other = self._other_framework(running)
        if other is not None:
            yield other
        for path in running:
            item = self.by_path.get(path)
            if item is None:
                continue
            if item.failure is not None:
                yield path, say("torchferry failed on it")
            for finding in item.findings:
                if finding.code.startswith("FIL") and finding.grade is Grade.MANUAL:
                    yield path, finding.message

    def _other_framework(self, running: Sequence[str]) -> tuple[str, Message] | None:
        """Return where a program computes with another framework than torch, of which nothing is known here.

        It does where nothing that it reaches imports torch, or where its own file imports the other one and not torch,
        and no model of torch's is in what it reaches: torch then only loads data, or draws curves.
        """
        found: tuple[str, Message] | None = None
        with_torch = []
        for path in running:
            for external in self.modules.externals.get(path, ()):
                if external.module.partition(".")[0] == "torch" and not external.module.startswith(_BESIDE):
                    with_torch.append(path)
                known = self.target.package_of_module(external.module)
                if found is None and known is not None and known[0].kind == "other" and not external.indented:
                    place = f"{path}:{external.line}"
                    found = place, say("computes with {name}, which is not torch", name=known[0].name)
        if found is None or not with_torch:
            return found
        is_first = found[0].startswith(f"{running[0]}:") and running[0] not in with_torch
        return found if is_first and not any("nn.Module" in self.sources.text(path) for path in with_torch) else None

    def _unverified(self, running: Sequence[str]) -> Iterator[tuple[str, str]]:
        seen: set[str] = set()
        for path in running:
            for external in self.modules.externals.get(path, ()):
                top = external.module.partition(".")[0]
                if not top or top in seen or top in sys.stdlib_module_names or top in self.compiled:
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


def _calls_below(file: PythonFile, names: Names, statement: ast.stmt, name: str) -> list[ast.AST]:
    """Return where something of a module that a statement imports is spoken of."""
    assert isinstance(statement, (ast.Import, ast.ImportFrom))
    return [
        use
        for alias in statement.names
        if alias.name != "*" and name in (alias.name.rpartition(".")[2], alias.asname, "*")
        for use in names.uses(bound_name(alias), file.scope(alias))
    ]


def _joined(first: Way, then: Way) -> Way:
    """Return the way that goes on with another where it ends."""
    return Way(
        max(first.need, then.need),
        (*first.steps, *then.steps),
        tuple(dict.fromkeys((*first.conditions, *then.conditions))),
        tuple(dict.fromkeys((*first.options, *then.options))),
    )


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
