"""Examine a whole project: each file by itself, then what only the whole can tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchferry.backends.target import Target
from torchferry.core.files import read_regular
from torchferry.core.finding import Edit, Finding, Location
from torchferry.core.messages import Message
from torchferry.core.record import NamedTuple
from torchferry.rules.base import Options, Rule
from torchferry.rules.engine import Engine
from torchferry.rules.file.link_out_of_project import LinkOutOfProject
from torchferry.rules.file_result import Afterwards, FileResult, InternalFailure, Selection
from torchferry.rules.imports.plugin_import import PluginImport
from torchferry.rules.imports.redirect_import import RedirectImport
from torchferry.rules.library.cuda_package import notes_framework
from torchferry.rules.parallel import examine_all
from torchferry.rules.pins import keeps_below
from torchferry.source.document import Document
from torchferry.source.import_graph import ImportGraph
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind
from torchferry.source.project import Project
from torchferry.source.roles import Role, Roles
from torchferry.source.text import UndecodableError
from torchferry.source.tree import Entry, Listing

if TYPE_CHECKING:
    from torchferry.rules.runtime.report import RuntimeReport


class Analysis(NamedTuple):
    """The known facts about a project.

    Attributes:
        examined: Its files, in order of their paths.
        skipped: Findings about what was not looked into.
        entry_points: Files that are started and use the device, which get the plugin's import, and the role of each:
            programs, and what tests or documents the project.
        run_remarks: What there is to know about the run whose report was merged with the findings.
        ignored: Files that a `.gitignore` hides in a tree that git does not know.
        project: Its Python files as modules, for further questions; None where nobody may ask.
        listing: What was examined and what was left out; None where nobody may ask.
        largest: Bytes of a file above which it was not looked into.
        roles: What its files are for; None where nobody may ask.
    """

    examined: list[FileResult]
    skipped: list[Finding]
    entry_points: dict[str, Role]
    run_remarks: tuple[Message, ...] = ()
    ignored: tuple[str, ...] = ()
    project: Project | None = None
    listing: Listing | None = None
    largest: int = 0
    roles: Roles | None = None

    @property
    def failures(self) -> list[InternalFailure]:
        """Faults of torchferry's own."""
        return [item.failure for item in self.examined if item.failure is not None]

    @property
    def findings(self) -> list[Finding]:
        """Everything found in the project as it was."""
        return [*self.skipped, *(finding for item in self.examined for finding in item.findings)]

    @property
    def remaining(self) -> list[Finding]:
        """Everything found in the project as it is to be written."""
        return [*self.skipped, *(finding for item in self.examined for finding in item.remaining)]


class Request(NamedTuple):
    """What to examine and how.

    Attributes:
        root: The project's folder.
        listing: Its files.
        target: Where it is to run.
        rules: The rules to apply.
        options: Settings that rules ask for.
        selection: Which findings are wanted and which fixes are applied.
        rewrite: Whether fixes are applied (in memory).
        entry_points: Files that the user says are started as programs.
        jobs: How many processes may read files.
        account: Whether words of CUDA that no finding speaks of are accounted for.
        seen: What a run of the program saw, or None.
        redirected: Whether programs begin the redirect and the rest of their code stays (`--style shim`).
        afterwards: What looks at the files again when they were examined, as the judging of programs does; or None.
    """

    root: Path
    listing: Listing
    target: Target
    rules: Sequence[Rule]
    options: Options = Options()
    selection: Selection = Selection()
    rewrite: bool = False
    entry_points: tuple[str, ...] = ()
    jobs: int = 1
    account: bool = False
    seen: RuntimeReport | None = None
    redirected: bool = False
    afterwards: Afterwards | None = None


def analyse(request: Request, meanwhile: Callable[[], None] | None = None) -> Analysis:
    """Examine a project.

    Args:
        request: What to examine and how.
        meanwhile: Called once other processes examine files, to do what is needed afterwards; never where none does.
    """
    python = [entry.path for entry in request.listing.entries if entry.kind is Kind.PYTHON]
    others = (entry.path for entry in request.listing.entries)
    project = Project(request.root, python, others, request.target.written_modules)
    if request.afterwards is not None:
        project.keep()
    engine = _engine(request, project, partial(_with_import_ready, request))
    examined = examine_all(engine, request.listing.entries, request.rewrite, request.jobs, meanwhile)
    graph = ImportGraph(project, (item.outline for item in examined if item.outline is not None))
    examined = _users_of_exports(engine, graph, examined, request.rewrite)
    roles = _roles(project, graph, examined)
    entries, examined = _plugin_imports(request, roles, examined)
    examined = _without_repeated_notes(examined)
    run_remarks: tuple[Message, ...] = ()
    if request.seen is not None:
        from torchferry.rules.runtime.merge import (
            merge_runtime_report,  # imported late: few are given the report of a run
        )

        every = Engine(request.root, request.target, request.rules, options=request.options, project=project)
        merged = merge_runtime_report(every, request.selection, examined, request.seen)
        examined, run_remarks = merged.examined, tuple(merged.remarks)
    skipped = [
        LinkOutOfProject.at(skip.path, skip.reason)
        for skip in (*request.listing.skipped, *request.listing.unasked)
        if request.selection.wants(LinkOutOfProject.CODE, skip.path)
    ]
    largest = request.options.max_file_size
    ignored = request.listing.ignored
    return Analysis(examined, skipped, entries, run_remarks, ignored, project, request.listing, largest, roles)


def _engine(request: Request, project: Project, finish: Callable[[FileResult], FileResult] | None = None) -> Engine:
    """Return what examines the files of a project as it is requested."""
    return Engine(
        request.root,
        request.target,
        request.rules,
        options=request.options,
        selection=request.selection,
        project=project,
        account=request.account,
        redirected=request.redirected,
        afterwards=request.afterwards,
        finish=finish,
    )


class FileExaminer:
    """Examines single files of a project as an editor holds them, again and again.

    What the other files say is asked for as it is on the disk. What only the whole project can tell, its programs and
    what they reach, is left out; only whether a file is a program, which imports the plugin, is looked at.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._paths = [entry.path for entry in request.listing.entries if entry.kind is Kind.PYTHON]
        self._roles: Roles | None = None

    def examine(self, entry: Entry, data: bytes, *, rewrite: bool = False) -> FileResult:
        """Examine a file with these bytes.

        Args:
            entry: The file.
            data: Its bytes; `before` of the result has them.
            rewrite: Whether to apply the chosen fixes; `after` of the result is then what they make of it.
        """
        request = self._request._replace(rewrite=rewrite)
        others = (entry.path for entry in request.listing.entries)
        project = Project(request.root, self._paths, others, request.target.written_modules)
        item = _engine(request, project).examine(entry, rewrite=rewrite, data=data)._replace(before=data)
        if request.target.module or not item.needs_plugin or not _may_import(request, item):
            return item
        if not _is_imported_everywhere(request) and not self._is_entry(item, project):
            return item
        return _with_import(request, item, anyhow=False)

    def _is_entry(self, item: FileResult, project: Project) -> bool:
        """Whether a file is started; who imports whom on the disk is asked for when one may be."""
        if self._roles is None:
            self._roles = Roles.read(project)
        if item.outline is None:
            return False
        return _is_entry(item, self._roles.with_file(project, item.outline, item.works), self._request.entry_points)


def programs_of(request: Request, analysis: Analysis, before: Mapping[str, FileResult]) -> list[str]:
    """Return the programs that use the device, now or by what some files were before a migration.

    Args:
        request: What was examined and how.
        analysis: The known facts about the project.
        before: What was known of files that were migrated since.
    """
    roles = analysis.roles
    if not before or roles is None:
        return list(analysis.entry_points)
    reaching = roles.graph.reaching({path for path, item in before.items() if item.uses_device})
    earlier = [
        item.path
        for item in analysis.examined
        if item.path in reaching
        and _is_entry(
            item._replace(main_uses_device=before.get(item.path, item).main_uses_device), roles, request.entry_points
        )
    ]
    return sorted({*analysis.entry_points, *earlier})


def _users_of_exports(
    engine: Engine, graph: ImportGraph, examined: list[FileResult], rewrite: bool
) -> list[FileResult]:
    """Examine files that speak of CUDA only through names which other modules of the project re-export."""
    again: set[str] = set()
    for item in examined:
        exported = set(item.exports)
        if exported:
            again |= {
                importer
                for importer, names in graph.named.get(item.path, {}).items()
                if names & exported or ("*" in names and _may_say_one(engine.project, importer, exported))
            }
    return [
        engine.examine(Entry(item.path, item.kind), rewrite=rewrite, whole=True)
        if item.path in again and not item.findings and item.failure is None
        else item
        for item in examined
    ]


def _may_say_one(project: Project | None, path: str, names: set[str]) -> bool:
    """Whether one of some names is in the text of a Python file; of a notebook, whose text is JSON, it may."""
    if project is None or path not in project.paths:
        return True
    source = project.text(path)
    return source is not None and re.search(rf"\b(?:{'|'.join(sorted(names))})\b", source.text) is not None


def _plugin_imports(
    request: Request, roles: Roles, examined: list[FileResult]
) -> tuple[dict[str, Role], list[FileResult]]:
    """Add the plugin's import, or the redirect's, where it is needed; return the started files that use the device."""
    using = {item.path for item in examined if item.uses_device}
    reaching = roles.graph.reaching(using)
    entries = {
        item.path: _role_of_entry(item.path, roles)
        for item in examined
        if item.path in reaching and _is_entry(item, roles, request.entry_points)
    }
    if request.target.module:  # its names load the plugin when they are first asked for
        return entries, examined
    # who starts it is not known, and an older torch does not load the plugin by itself
    everywhere = _is_imported_everywhere(request) or (
        not entries and not request.redirected and older_torch(request.root)
    )
    needing = {item.path for item in examined if item.needs_plugin}
    if needing != using:
        reaching = roles.graph.reaching(needing)
    needing = (needing if everywhere else set()) | {path for path in entries if path in reaching}
    done: list[FileResult] = []
    for item in examined:
        ready = item.importing
        alone = item if ready is None else item._replace(importing=None)
        if item.path not in needing or not _may_import(request, item):
            done.append(alone)
            continue
        anyhow = everywhere and item.path in entries
        if ready is None or (anyhow and ready.findings == item.findings):
            ready = _with_import(request, alone, anyhow)
        done.append(ready)
    return entries, done


def _is_imported_everywhere(request: Request) -> bool:
    """Whether each module that uses the device imports the plugin, rather than the programs alone."""
    return request.target.autoloads() is not True and not request.redirected


def older_torch(root: Path) -> bool:
    """Whether a project keeps torch below 2.5, which is the first that loads plugins by itself."""
    return bool(keeps_below(root, "torch", "2.5"))


def _import_rule(request: Request) -> PluginImport | RedirectImport:
    return RedirectImport() if request.redirected else PluginImport()


def _may_import(request: Request, item: FileResult) -> bool:
    return item.failure is None and request.selection.wants(_import_rule(request).CODE, item.path)


def _with_import_ready(request: Request, item: FileResult) -> FileResult:
    """Add to a file what it is with the import, where it is likely to need it: while other files are examined."""
    if item.outline is None or not item.parsed or request.target.module or not _may_import(request, item):
        return item
    is_likely = (
        item.kind is Kind.NOTEBOOK
        or item.outline.is_program
        or item.works
        or (item.needs_plugin and _is_imported_everywhere(request))
    )
    return item._replace(importing=_with_import(request, item, anyhow=False)) if is_likely else item


def _without_repeated_notes(examined: list[FileResult]) -> list[FileResult]:
    """Leave out all but the first note that a framework is imported: each says the same of the whole project."""
    first: dict[Message, Finding] = {}
    for item in examined:
        for finding in (*item.findings, *item.remaining):
            if notes_framework(finding):
                first.setdefault(finding.message, finding)

    def first_of_each(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        return tuple(
            finding
            for finding in findings
            if finding.message not in first or finding.location.path == first[finding.message].location.path
        )

    return [
        item._replace(findings=first_of_each(item.findings), remaining=first_of_each(item.remaining))
        for item in examined
    ]


def _roles(project: Project, graph: ImportGraph, examined: Iterable[FileResult]) -> Roles:
    outlines, working = {}, {}
    for item in examined:
        if item.outline is not None:
            outlines[item.path] = item.outline
        if item.works is not None:
            working[item.path] = item.works
    return Roles(project, graph, outlines, working)


def _is_entry(item: FileResult, roles: Roles, named: tuple[str, ...]) -> bool:
    """Whether a file is started, and what runs then may use the device."""
    if item.outline is None:
        return False
    if item.path in named:
        return True
    return roles.is_started(item.path) and (item.main_uses_device or not roles.graph.is_imported(item.path))


def _role_of_entry(path: str, roles: Roles) -> Role:
    """Return the role of a file that is started; the user may name one that nobody else would start."""
    role = roles.of(path)
    return Role.SCRIPT if role is Role.MODULE else role


def _with_import(request: Request, item: FileResult, anyhow: bool) -> FileResult:
    """Return a file with the import added; the file itself where it has it, or has no place for it."""
    rule = _import_rule(request)
    try:
        data = item.before if item.before is not None else read_regular(request.root / item.path)
        document = Document.read(item.path, item.kind, data)
    except (OSError, UndecodableError, NotJsonError):
        return item  # reported already
    edit = rule.edit(document.source, request.target, anyhow)
    if edit is None:
        return item
    finding = rule.at(item.path, document.source, edit, request.target)
    finding = finding._replace(location=document.placed(finding.location))
    findings = tuple(sorted((*item.findings, finding), key=lambda reported: reported.location.order))
    if not request.rewrite:
        return item._replace(findings=findings, remaining=findings)
    current = Document.read(item.path, item.kind, item.after) if item.after is not None else document
    late = rule.edit(current.source, request.target, anyhow)
    if late is None:  # another fix imports the plugin already, and so fixes this too
        return item._replace(findings=findings, fixed=(*item.fixed, finding))
    after = current.edited([late]).data()
    remaining = tuple(_behind(item.remaining, current, late))
    return item._replace(findings=findings, fixed=(*item.fixed, finding), remaining=remaining, before=data, after=after)


def _behind(remaining: Iterable[Finding], document: Document, inserted: Edit) -> Iterator[Finding]:
    """Yield findings at the lines that they have once a text is inserted, with the places that they had."""
    line, column = document.source.position(inserted.start)
    place = document.placed(Location("", line, column, line, column))
    lines = inserted.text.count("\n")
    for finding in remaining:
        at = finding.location
        finding = finding if finding.origin is not None else finding._replace(origin=at)
        if at.cell == place.cell and (at.line, at.column) >= (place.line, place.column):
            finding = finding._replace(location=at._replace(line=at.line + lines, end_line=at.end_line + lines))
        yield finding
