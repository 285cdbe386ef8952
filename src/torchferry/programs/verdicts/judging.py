"""The verdict of each program: what it reaches that the target does not have, what must change, what nobody knows."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from torchferry.backends.target import Target
from torchferry.core import forks
from torchferry.core.finding import Finding, Grade
from torchferry.core.messages import say
from torchferry.core.progress import doing
from torchferry.core.record import NamedTuple
from torchferry.installed.model import Inspected
from torchferry.programs.call_paths.path_search import CallPathSearch
from torchferry.programs.call_paths.place_contexts import PlaceContexts
from torchferry.programs.entry_points.finder import StartedPrograms, programs_of
from torchferry.programs.entry_points.launch_commands import StartingCommands, packages_enabled_by_command
from torchferry.programs.evaluation.conditions import Conditions, assumed_condition
from torchferry.programs.evaluation.config_files import ConfigFiles
from torchferry.programs.evaluation.program_facts import ProgramFacts
from torchferry.programs.evaluation.shared_results import SharedAnswers, SharedResults
from torchferry.programs.imports.missing_sources import MissingSources
from torchferry.programs.imports.module_graph import Edge, Modules
from torchferry.programs.imports.settings_classes import SettingsFiles
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import (
    AcceptedPlace,
    CallPath,
    Form,
    JudgedProgram,
    MissingFeature,
    Obstacle,
    Program,
    Reachability,
    Start,
    Step,
    Unread,
    Verdict,
    location_of,
)
from torchferry.programs.options.switches import SwitchIndex
from torchferry.programs.references.reachable_code import ReachableCode, ReferenceGraph
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.place_context import outside_of_attempts
from torchferry.programs.syntax.use_syntax import derived_class
from torchferry.programs.verdicts.analysis_gaps import AnalysisGaps
from torchferry.programs.verdicts.file_facts import FileFacts
from torchferry.programs.verdicts.fixes import Fix, Fixes
from torchferry.programs.verdicts.missing_features import MissingFeatures
from torchferry.programs.verdicts.obstacles import LONGEST_NAME, Obstacles, sorted_obstacles
from torchferry.programs.verdicts.package_requirements import PackageRequirements
from torchferry.programs.verdicts.presence_checks import PresenceChecks
from torchferry.programs.verdicts.settings_requirements import SettingsRequirements
from torchferry.rules.analysis import Analysis
from torchferry.rules.device.is_cuda import IsCuda
from torchferry.rules.family import Subject
from torchferry.rules.file_result import InternalFailure
from torchferry.rules.registry import rule_facts
from torchferry.source.kinds import SETTINGS, Kind
from torchferry.source.outline import Outline, outline
from torchferry.source.project import Project
from torchferry.source.roles import ASIDE, Roles

MOST_PROGRAMS = 400
"""Programs that are judged; a folder of examples may hold thousands, and further ones are called not judged."""

_JUDGING = say("judging programs")

_MOST_DECISIONS = 80
"""Findings of one program whose way is looked for; the rest counts as reached."""


def judge(
    analysis: Analysis,
    target: Target,
    named: Iterable[str] = (),
    only: Collection[str] = (),
    packages: Iterable[Inspected] = (),
    starts: Mapping[str, Start] | None = None,
    jobs: int = 1,
) -> tuple[JudgedProgram, ...]:
    """Return the programs of a project and the verdict of each, those that documents start first.

    Of more than `MOST_PROGRAMS` the last ones are not judged, and say so.

    Args:
        analysis: The whole project, examined with every rule.
        target: Where it is to run.
        named: Files that the user says are programs.
        only: Files and folders whose programs are asked for; of a file that starts nothing, what others may call is
            judged. Empty for all.
        packages: What an environment shows of the packages that the project imports.
        starts: How the user starts some programs, by their file or the name of the console script.
        jobs: How many processes may work.
    """
    assert analysis.project is not None
    with doing(say("finding programs")):
        return _Judge(analysis, analysis.project, target, packages).judged(named, only, starts or {}, jobs)


def reached_files(
    analysis: Analysis, target: Target, programs: Iterable[Program] | None = None, named: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the files of the project that some programs reach, or all.

    Args:
        analysis: The project, examined.
        target: Where it is to run.
        programs: The programs; None for all of the project.
        named: Files that the user says are programs.
    """
    assert analysis.project is not None
    with doing(say("following imports")):
        return _Judge(analysis, analysis.project, target).reached(programs, named)


class _Findings(NamedTuple):
    """What was found in a file, as programs are judged by it.

    Attributes:
        asking: What a person must decide in code, or has accepted there, and no environment settles.
        fixes: What a migration changes.
        installs: What says that another build of a package must be installed.
    """

    asking: tuple[Finding, ...]
    fixes: tuple[Fix, ...]
    installs: tuple[Finding, ...]


_Reached = tuple[Program, dict[str, Edge | None] | None]
"""A program with the files that it reaches; None where torchferry fails on it."""


class _Judge:
    def __init__(
        self,
        analysis: Analysis,
        project: Project,
        target: Target,
        packages: Iterable[Inspected] = (),
    ) -> None:
        self.examined = analysis.examined
        self.target = target
        self.project = project
        self.roles = analysis.roles if analysis.roles is not None else Roles.read(project)
        self.noted = {item.path: item.noted for item in self.examined if isinstance(item.noted, FileFacts)}
        notebooks = [item.path for item in self.examined if item.kind is Kind.NOTEBOOK]
        texts = {path: noted.text for path, noted in self.noted.items() if noted.text is not None}
        names = {path: noted.names for path, noted in self.noted.items() if noted.names is not None}
        self.sources = Sources(project, notebooks, texts, names)
        self.settings = [item.path for item in self.examined if item.kind in SETTINGS and not ASIDE.search(item.path)]
        self.modules = Modules(project, self._outlines(), SettingsFiles(project.root, self.settings), self.sources.file)
        lookup_facts = {path: noted.uses for path, noted in self.noted.items() if noted.uses is not None}
        self.uses = Uses(self.sources, self.modules, lookup_facts)
        self.references = ReferenceGraph(self.sources, self.modules, self.uses)
        self.by_path = {item.path: item for item in self.examined}
        self.unresolved = {
            finding.location
            for item in self.examined
            for finding in item.findings
            if rule_facts(finding.code).unresolved
        }
        self.staying = frozenset(
            (item.path, finding.location.line)
            for item in self.examined
            for finding in item.findings
            if finding.code == IsCuda.CODE and finding.stays is not None
        )
        switches = {path: noted.switches for path, noted in self.noted.items() if noted.switches is not None}
        self.switch_index = SwitchIndex(self.sources, switches)
        self.config_files = ConfigFiles(self.modules.settings, self.uses.settings.names)
        self.answers = SharedAnswers()
        self.results = SharedResults(self.sources)
        self.commands = StartingCommands(project.root, self.modules, target)
        calls = {path: noted.start_calls for path, noted in self.noted.items() if noted.start_calls is not None}
        self.started = StartedPrograms(self.sources, self.commands, calls)
        installed = PackageRequirements(packages, target)
        kernels = [item.path for item in self.examined if item.kind is Kind.KERNEL]
        self.features = MissingFeatures(project, self.sources, self.modules, target, installed, kernels, self._findings)
        self.obstacles = Obstacles(
            self.sources, self.features, PresenceChecks(self.sources, self.modules, self.features, target)
        )
        self.settings_needs = SettingsRequirements(self.uses, self._findings)
        self.contexts = PlaceContexts(self.sources, self.modules, self.features.lines)
        self.fixes = Fixes(self.sources, self.references, self.contexts)
        built = frozenset(self.features.compiled) | project.extensions
        absent = MissingSources(
            project.root, project.paths | self.sources.notebooks, analysis.listing, built, self.roles
        )
        self.unknown = AnalysisGaps(
            self.sources, self.modules, target, self.features, absent, self.by_path, analysis.largest
        )
        self._inner: dict[tuple[str, tuple[str, ...], tuple[str, ...]], JudgedProgram | None] = {}
        self._fixed: dict[Program, frozenset[int]] = {}
        self._grouped: dict[str, _Findings] = {}
        self._lacking: list[str] | None = None
        self._settings_files: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    def _outlines(self) -> Iterator[Outline]:
        for number, item in enumerate(self.examined):
            if item.kind is Kind.NOTEBOOK:
                noted = self.noted.get(item.path)
                read = noted.outline if noted is not None else None
                if read is None:
                    read = outline(item.path, self.sources.text(item.path).encode("utf-8", "replace"))
                self.examined[number] = item._replace(outline=read)
                yield read
            elif item.outline is not None:
                yield item.outline

    def judged(
        self, named: Iterable[str], only: Collection[str], starts: Mapping[str, Start], jobs: int
    ) -> tuple[JudgedProgram, ...]:
        folders = tuple(f"{path}/" for path in only)
        programs = self._programs((*named, *starts), only)
        if only:
            programs = [program for program in programs if program.path in only or program.path.startswith(folders)]
        if starts:
            programs = [_started(program, starts) for program in programs]
            programs.sort(key=lambda program: starts.keys().isdisjoint((program.path, program.name)))
        closures = {program: self._attempted(program) for program in programs[:MOST_PROGRAMS]}
        reached = {path for closure in closures.values() for path in closure or ()}
        begun = (Program(path) for path in self.started.begun_by(reached) - reached)
        self.uses.reached = frozenset(reached.union(*(self._attempted(program) or () for program in begun)))
        pairs = [*closures.items()]
        judged = forks.alone_at_first(
            [len(closure or ()) for closure in closures.values()],
            lambda number: self._judged(*pairs[number]),
            lambda first: self._judged_by_several(pairs[first:], jobs) if jobs > 1 else [],
            _JUDGING,
        )
        too_many = say(
            "more than {most} programs were found, and only the first {most} were judged", most=MOST_PROGRAMS
        )
        left = programs[MOST_PROGRAMS:]
        judged += [JudgedProgram(each, Verdict.NOT_JUDGED, unread=(Unread(each.path, too_many),)) for each in left]
        return tuple(judged)

    def _judged_by_several(self, pairs: Sequence[_Reached], jobs: int) -> list[JudgedProgram]:
        """Judge programs in several processes; nothing where something failed, and one process must judge them.

        Those that start others are judged by this process, in their order: what one finds of these the next one takes.
        """
        own = [number for number, (_, closure) in enumerate(pairs) if any(map(self.started.others, closure or ()))]
        shared = [number for number in range(len(pairs)) if number not in {*own}]
        inner, fixed = {**self._inner}, {**self._fixed}

        def judged(number: int) -> JudgedProgram | None:
            program, closure = pairs[number]
            try:
                return self._judge(program, self._closure(program) if closure is None else closure)
            except Exception:
                return None

        done = forks.shared_out(judged, own, shared, min(jobs, len(pairs)), _JUDGING)
        results = [each for each in map(done.get, range(len(pairs))) if each is not None]
        if len(results) < len(pairs):
            self._inner, self._fixed = inner, fixed
            return []
        return results

    def reached(self, programs: Iterable[Program] | None, named: Iterable[str]) -> tuple[str, ...]:
        if programs is None:
            programs = self._programs(named)
        return tuple(dict.fromkeys(path for program in programs for path in self._closure(program)))

    def _programs(self, named: Iterable[str], asked: Iterable[str] = ()) -> list[Program]:
        written = {path: noted.commands for path, noted in self.noted.items() if noted.commands is not None}
        commands = tuple(self.commands.started(self.examined, written))
        self.started.take_cells(commands)
        return programs_of(self.sources, self.modules, self.examined, self.roles, commands, named, asked)

    def _attempted(self, program: Program) -> dict[str, Edge | None] | None:
        """Return what a program reaches, or None where torchferry fails on it: that is reported in its turn."""
        try:
            return self._closure(program)
        except Exception:
            return None

    def _judged(self, program: Program, closure: dict[str, Edge | None] | None) -> JudgedProgram:
        """Judge a program; a fault of torchferry's own is reported, and the run goes on."""
        try:
            return self._judge(program, self._closure(program) if closure is None else closure)
        except Exception:
            number, item = next((n, item) for n, item in enumerate(self.examined) if item.path == program.path)
            failure = InternalFailure(program.path, traceback.format_exc())
            self.examined[number] = self.by_path[program.path] = item._replace(failure=failure)
            return JudgedProgram(
                program, Verdict.NOT_JUDGED, unread=(Unread(program.path, say("torchferry failed on it")),)
            )

    def _closure(self, program: Program) -> dict[str, Edge | None]:
        named = (argument.removeprefix("./") for argument in program.arguments)
        also = [path for path in named if path.endswith(".py") and path in self.project.paths]
        for files in ([*self.modules.files_of(module, program.path)] for module in program.modules):
            also += files if program.path in files else ()
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
        key = (program.path, program.arguments)
        if key not in self._settings_files:
            text = self.sources.text(program.path)
            self._settings_files[key] = self.modules.settings.of_program(program.path, text, program.arguments)
        return self._settings_files[key]

    def _judge(self, program: Program, closure: dict[str, Edge | None]) -> JudgedProgram:
        facts = ProgramFacts(program, self.sources, closure, self.switch_index, self.config_files, self.results)
        conditions = Conditions(facts, self.target, self.answers, self.staying)
        reach = CallPathSearch(program, self.sources, self.modules, closure, conditions, self.contexts, self.uses)
        blockers: list[Obstacle] = []
        optional: list[Obstacle] = []
        enabled = packages_enabled_by_command(program, closure, self.modules, self.sources, self.target)
        by_command = (each for each in (self.obstacles.of(reach, feature) for feature in enabled) if each is not None)
        for obstacle in (*self.obstacles.within(reach), *by_command):
            (blockers if obstacle.call_path.reachability is Reachability.ALWAYS else optional).append(obstacle)
        needs = [*self.settings_needs.of(reach)]
        placed = {need.finding.location for need in needs}
        named = [(need.finding, need.obstacle) for need in needs if need.obstacle is not None]
        for obstacle in (obstacle for finding, obstacle in named if finding.lacks):
            (blockers if obstacle.call_path.reachability is Reachability.ALWAYS else optional).append(obstacle)
        installs = [*self._builds(reach, closure), *(obstacle for finding, obstacle in named if not finding.lacks)]
        builds = tuple(sorted_obstacles([build for build in installs if build.call_path.may_be_taken]))
        doubts = sorted_obstacles([*self._package_doubts(reach, closure)])
        spared: list[Finding] = []
        without_torch = not self.unknown.may_use_torch(closure)
        own = [*self._decisions(reach, closure, without_torch, spared)]
        accepted = [AcceptedPlace(finding.location, finding.decided_by) for finding in own if finding.is_accepted]
        asking = (finding.location for finding in own if not finding.is_accepted)
        decisions = (*asking, *(obstacle.place for obstacle in (*builds, *doubts)))
        live = ReachableCode(program, closure, self.references, reach.imported_plainly())
        running = [path for path in closure if live.runs(path)]
        fixes = self.fixes.reached(live, closure, lambda path: self._grouped_findings(path).fixes, without_torch)
        unread = tuple(self.unknown.of(reach, running))
        open_ones = [inner for path in running for inner in self.modules.unfollowed.get(path, ())]
        unfollowed = tuple(Unread(f"{inner.path}:{inner.line}", inner.message) for inner in open_ones)
        unread += tuple(
            Unread(f"{path}:{place.line}", say("more programs are started from here; they were not judged"))
            for path in running
            if (place := self.started.beyond(path)) is not None
        )
        computed = next((each.place for each, of in zip(unfollowed, open_ones, strict=True) if not of.of_others), None)
        behind = tuple(self._behind_computed(closure, computed)) if computed is not None else ()
        # what may be imported there is no decision of a person: it is told beside whichever verdict there is
        open_imports = tuple(location_of(item.place) for item in unfollowed)
        with_settings = self._settings_of(program)
        if not with_settings:
            with_settings = self.modules.settings_that_may_be_read(closure)
        in_lines = self.modules.settings.in_lines(self.sources.text(program.path), program.arguments)
        for finding in (finding for path in (*with_settings, *in_lines) for finding in self._findings(path)):
            if _asks_a_person(finding):
                decisions = decisions if finding.location in placed else (*decisions, finding.location)
            elif _is_fix(finding):
                fixes |= {self.fixes.of(finding).number}
        for call_path, inner in self._started_by(reach, running):
            for obstacle in (*inner.blockers, *inner.optional):
                joined = obstacle._replace(call_path=call_path.joined(obstacle.call_path))
                (blockers if joined.call_path.reachability is Reachability.ALWAYS else optional).append(joined)
            fixes |= self._fixed[inner.program]
            if call_path.may_be_taken:
                imports = [place for place in inner.unresolved if place not in self.unresolved]
                open_imports = tuple(dict.fromkeys((*open_imports, *imports)))
                asked = (place for place in inner.decisions if place not in imports)
                decisions = tuple(dict.fromkeys((*decisions, *asked)))
                accepted += inner.accepted
                if inner.verdict is Verdict.NOT_JUDGED:
                    unread += tuple(item._replace(chain=(*call_path.steps, *item.chain)) for item in inner.unread)
        self._fixed[program] = fixes
        blockers, optional = sorted_obstacles(blockers), sorted_obstacles(optional)
        optional = [item for item in optional if item.what not in {blocker.what for blocker in blockers}]
        alternatives = [
            *(build for build in sorted_obstacles(installs) if build.call_path.reachability is Reachability.OPTION),
            *self._behind_options(reach, spared),
            *self._alternatives(program, with_settings),
            *sorted_obstacles(behind),
        ]
        if blockers:
            verdict = Verdict.BLOCKED
        elif unread:
            verdict = Verdict.NOT_JUDGED
        elif _is_undecided(optional):
            verdict = Verdict.MAY_NEED
        elif decisions:
            verdict = Verdict.DECISIONS
        elif optional:
            verdict = Verdict.WITHOUT
        else:
            verdict = Verdict.FIXES if fixes else Verdict.READY
        return JudgedProgram(
            program,
            verdict,
            tuple(blockers),
            tuple(optional),
            len(fixes),
            (*decisions, *open_imports),
            tuple(self.unknown.unverified(reach, running)),
            (*unread, *unfollowed),
            len(running),
            builds,
            tuple(doubts),
            tuple(closure),
            alternatives=tuple(alternatives),
            unresolved=(*(place for place in decisions if place in self.unresolved), *open_imports),
            accepted=tuple(dict.fromkeys(accepted)),
        )

    def _findings(self, path: str) -> Sequence[Finding]:
        return self.by_path[path].findings if path in self.by_path else ()

    def _grouped_findings(self, path: str) -> _Findings:
        """Return what was found in a file by what it means to the programs that reach it."""
        if path not in self._grouped:
            item, findings = self.by_path.get(path), self._findings(path)
            is_code = item is not None and item.kind in (Kind.PYTHON, Kind.NOTEBOOK)
            self._grouped[path] = _Findings(
                tuple(
                    finding
                    for finding in (findings if is_code else ())
                    if (_asks_a_person(finding) or finding.is_accepted)
                    and not finding.lacks
                    and not self.features.is_settled(finding)
                ),
                tuple(map(self.fixes.of, filter(_is_fix, findings))),
                tuple(finding for finding in findings if finding.installs),
            )
        return self._grouped[path]

    def _alternatives(self, program: Program, taken: Sequence[str]) -> Iterator[Obstacle]:
        """Yield what a person must decide in settings that another word of the command would choose."""
        for path, option in self.modules.settings.alternatives(program.path, self.sources.text(program.path)):
            for finding in self._findings(path) if path not in taken else ():
                if _asks_a_person(finding):
                    place = finding.location
                    steps = (Step(program.path, 1), Step(place.path, place.line))
                    call_path = CallPath(Reachability.OPTION, steps, (), (option,))
                    text = " ".join(self.modules.settings.text(path).split("\n")[place.line - 1].split()) or option
                    yield Obstacle(text, finding.code, place, finding.message, call_path)

    def _started_by(self, reach: CallPathSearch, running: Sequence[str]) -> Iterator[tuple[CallPath, JudgedProgram]]:
        """Yield the programs that a program starts, judged as it starts them, each with the way to the call."""
        for path in running:
            for starting in self.started.of(path):
                call = self.sources.node(starting.place)
                call_path = reach.call_path(path, call) if call is not None else None
                judged = self._judged_inside(starting.program) if call_path is not None else None
                if call_path is not None and judged is not None:
                    yield call_path, judged
        for program in self.started.of_cells(running[0]) if running else ():  # they run from the first to the last
            judged = self._judged_inside(program)
            if judged is not None:
                cell, _, line = program.starts[0].place.rpartition(":")
                yield CallPath(Reachability.ALWAYS, (Step(cell, int(line)),)), judged

    def _judged_inside(self, program: Program) -> JudgedProgram | None:
        """Return the verdict of a program that another one starts; None where that is this one again."""
        key = (program.path, program.arguments, program.modules)
        if key not in self._inner:
            self._inner[key] = None
            self._inner[key] = self._judge(program, self._closure(program))
        return self._inner[key]

    # --- what the target does not have ---

    def _behind_computed(self, closure: dict[str, Edge | None], place: str) -> Iterator[Obstacle]:
        """Yield what the rest of the project lacks: an import that cannot be told may reach it."""
        if self._lacking is None:
            python = (item.path for item in self.examined if item.kind is Kind.PYTHON)
            self._lacking = [path for path in python if self.features.of(path) and not ASIDE.search(path)]
        for path in self._lacking:
            for feature in self.features.of(path) if path not in closure else ():
                call_path = CallPath(
                    Reachability.CHOSEN, (Step(feature.place.path, feature.place.line),), (f"import ({place})",)
                )
                yield Obstacle(feature.what, feature.code, feature.place, feature.message, call_path, feature.source)

    # --- what a person must decide ---

    def _builds(self, reach: CallPathSearch, closure: dict[str, Edge | None]) -> Iterator[Obstacle]:
        """Yield the packages of which another build, by the same name, must be installed, with the way to each.

        Those that only an option asks for are among them.
        """
        sure: set[str] = set()  # the nearest files come first, and one way that is surely taken is enough
        for path in closure:
            for finding in self._grouped_findings(path).installs:
                if finding.installs not in sure:
                    feature = MissingFeature(
                        finding.installs, finding.code, finding.location, finding.message, when=finding.when
                    )
                    build = self.obstacles.of(reach, feature, Reachability.OPTION)
                    if build is not None and build.call_path.reachability is not Reachability.GUARDED:
                        yield build
                        if build.call_path.reachability is Reachability.ALWAYS:
                            sure.add(finding.installs)

    def _package_doubts(self, reach: CallPathSearch, closure: dict[str, Edge | None]) -> Iterator[Obstacle]:
        """Yield what packages of the environment need, where a person must look, with the way to each."""
        for path in closure:
            for feature in self.features.doubts(path):
                obstacle = self.obstacles.of(reach, feature)
                if obstacle is not None and obstacle.call_path.may_be_taken:
                    yield obstacle

    def _decisions(
        self, reach: CallPathSearch, closure: dict[str, Edge | None], without_torch: bool, spared: list[Finding]
    ) -> Iterator[Finding]:
        """Yield what a person must decide, or has accepted, where the program reaches it.

        Args:
            reach: Finds the ways.
            closure: The files that the program reaches by imports.
            without_torch: Whether the program uses no torch, and so keeps the versions that it has.
            spared: Takes what the program does not come to as it is started.
        """
        looked = 0
        met: set[str] = set()
        for path in closure:
            for finding in self._grouped_findings(path).asking:
                if without_torch and rule_facts(finding.code).only_with_torch:
                    continue
                looked += 1
                if looked > _MOST_DECISIONS or self._comes_to(reach, finding):
                    if not finding.is_accepted:
                        met.add(finding.code)
                    yield finding
                elif not finding.is_accepted:
                    spared.append(finding)
        spared[:] = [finding for finding in spared if finding.code not in met]  # what changes the verdict is told

    def _behind_options(self, reach: CallPathSearch, spared: Iterable[Finding]) -> Iterator[Obstacle]:
        """Yield what a person must decide where the program is started with an option that is off."""
        for finding in spared:
            place = finding.location
            loaded, node = self.sources.file(place.path), self.obstacles.node(place)
            when = assumed_condition(node, finding.when) if node is not None else None
            call_path = reach.call_path(place.path, node, when, worst=Reachability.OPTION) if node is not None else None
            if (
                loaded is not None
                and node is not None
                and call_path is not None
                and call_path.reachability is Reachability.OPTION
            ):
                text = " ".join(loaded[0].text(node).split())[:LONGEST_NAME]
                yield Obstacle(text, finding.code, place, finding.message, call_path)

    def _comes_to(self, reach: CallPathSearch, finding: Finding) -> bool:
        place = finding.location
        loaded, node = self.sources.file(place.path), self.sources.node(place)
        if loaded is None or node is None:
            return True
        derived = derived_class(loaded[0], node)
        if derived is None:
            outside = outside_of_attempts(loaded[0], node, finding)
            return reach.comes_to(place.path, node, assumed_condition(node, finding.when)) or (
                outside is not node and reach.comes_to(place.path, outside)
            )
        # what a base does is done where objects of the class are made, not where the class is defined
        if reach.program.offers(loaded[0].path, derived.name):
            return True
        return any(
            use.reachability <= Reachability.CHOSEN
            and use.place.node is not None
            and reach.comes_to(use.place.path, use.place.node)
            for use in self.uses.of(*loaded, derived)
        )


def _asks_a_person(finding: Finding) -> bool:
    """Whether a person must decide; files that could not be read are told apart."""
    return finding.grade is Grade.MANUAL and rule_facts(finding.code).about is not Subject.FILE


def _is_undecided(optional: Iterable[Obstacle]) -> bool:
    """Whether the code does not say if the program comes to something that the target does not have."""
    return any(obstacle.call_path.reachability is Reachability.CHOSEN for obstacle in optional)


def _is_fix(finding: Finding) -> bool:
    return finding.grade in (Grade.SAFE, Grade.UNSAFE)


def _started(program: Program, starts: Mapping[str, Start]) -> Program:
    """Return a program with the command that the user gives in front of those that were found."""
    own = starts.get(program.name if program.form is Form.CONSOLE else program.path)
    return program if own is None else program._replace(starts=(own, *program.starts))
