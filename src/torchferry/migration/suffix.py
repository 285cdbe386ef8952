"""A migration beside the originals: `train.py` stays, `train_npu.py` is written, and the new files import each other.

A file that does not change itself but imports one that does gets a new version too, or the new program would still run
the old module. Packages keep their names, so a package's `__init__.py` cannot be given a suffix; where one would have
to change, the migration is refused with the way to do it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from torchferry.backends.tables import normalised
from torchferry.backends.target import Target
from torchferry.core.errors import TorchferryError
from torchferry.core.files import read_regular, read_text
from torchferry.core.finding import Edit, Finding
from torchferry.core.messages import say
from torchferry.migration.journal import suffixed
from torchferry.migration.transaction import Write
from torchferry.rules.analysis import Analysis
from torchferry.rules.dependencies.cuda_requirement import CudaRequirement
from torchferry.rules.family import Subject
from torchferry.rules.registry import rule_facts
from torchferry.source.document import Document
from torchferry.source.import_graph import ImportGraph
from torchferry.source.jsontext import NotJsonError
from torchferry.source.kinds import Kind, kind_of
from torchferry.source.names import Names
from torchferry.source.project import Project
from torchferry.source.python import PythonFile, UnparsableError
from torchferry.source.requirements import in_lines
from torchferry.source.text import SourceText, UndecodableError

_SUFFIX = re.compile(r"[A-Za-z0-9_]+\Z")


_CUDA_BUILD = re.compile(r"(torch(?:vision|audio)?[ \t]*==[ \t]*[\d.]+)\+cu\d+")

_CUDA_INDEX = re.compile(r"https?://download\.pytorch\.org/whl/(?:nightly/)?cu\d+")

_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

_SHELL = (".sh", ".bash", ".slurm", ".sbatch")


def plan_suffix(
    root: Path,
    analysis: Analysis,
    writes: list[Write],
    suffix: str,
    target: Target,
    lists: Mapping[str, str] | None = None,
) -> list[Write]:
    """Return the new files to write beside the originals; one that is there already is written as it is.

    Args:
        root: The project's folder.
        analysis: What was examined.
        writes: The writes in place.
        suffix: What the names of the new files end with.
        target: The target.
        lists: Lists of requirements that somebody else writes, each with its new name. Scripts that install these, or
            start new files, get a new version too. None where nobody writes lists.

    Raises:
        TorchferryError: the suffix is not one for module names, a new file exists already, or a package's
            `__init__.py` would have to change.
    """
    if not _SUFFIX.match(suffix):
        raise TorchferryError(
            say("suffix `{suffix}` cannot be part of a module's name", suffix=suffix),
            say("use letters, digits and `_`, such as `_npu`"),
        )
    added = [write for write in writes if write.before is None]  # new already, and no original's
    changed = {write.path: write for write in writes if write.before is not None and write.path not in (lists or ())}
    python = [item.path for item in analysis.examined if item.outline is not None]
    project = Project(root, python)
    graph = ImportGraph(project, (item.outline for item in analysis.examined if item.outline is not None))
    moving = graph.reaching(path for path in changed if path.endswith(".py"))
    packages = sorted(path for path in moving if path == "__init__.py" or path.endswith("/__init__.py"))
    if any(path in changed for path in packages):
        raise TorchferryError(
            say("`{path}` would change, and a package cannot be given a suffix", path=packages[0]),
            say("use `--out DIR` to write a migrated copy of the whole tree"),
        )
    moving -= set(packages)
    for package in packages:
        _refuse_shared_names(project, graph, frozenset(moving), package)
    adjuster = _Adjuster(project, frozenset(moving), suffix, lists or {})
    result = []
    scripts = adjuster.scripts(root, analysis) if lists is not None else set()
    for path in sorted(moving | set(changed) | scripts):
        new = suffixed(path, suffix)
        data = changed[path].after if path in changed else read_regular(root / path)
        kind = kind_of(path)
        if kind in (Kind.PYTHON, Kind.NOTEBOOK):
            data = adjuster.python(path, kind, data)
        elif path.endswith(_SHELL):
            data = adjuster.shell(path, data)
        is_there = (root / new).exists() or (root / new).is_symlink()
        if is_there and not _holds(root / new, data):
            raise TorchferryError(say("`{path}` exists already", path=new), say("remove it or choose another suffix"))
        mode = (root / path).stat().st_mode & 0o7777
        result.append(Write(new, data if is_there else None, data, mode))
    if not target.module and lists is None:  # code for every device keeps the requirements of each machine apart
        result += _requirements(root, analysis, set(changed), suffix, target)
    return sorted([*result, *added], key=lambda write: write.path)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return not path.is_symlink() and read_regular(path) == data
    except OSError:
        return False


def _requirements(root: Path, analysis: Analysis, changed: set[str], suffix: str, target: Target) -> Iterable[Write]:
    """Yield lists of requirements for the target, in which what no fix may change is a comment."""
    for item in analysis.examined:
        new = suffixed(item.path, suffix)
        if item.kind is not Kind.REQUIREMENTS or item.path in changed or (root / new).exists():
            continue
        try:
            text = read_text(root / item.path)
        except (OSError, UnicodeDecodeError):
            continue
        wanted = requirements_for(item.path, text, analysis.findings, target)
        if wanted is not None:
            yield Write(new, None, wanted.encode(), (root / item.path).stat().st_mode & 0o7777)


def _refuse_shared_names(project: Project, graph: ImportGraph, moving: frozenset[str], package: str) -> None:
    """Refuse when a new file would take from a package's `__init__.py` something that runs an old module.

    Raises:
        TorchferryError: it would.
    """
    loaded = project.file(package)
    if loaded is None:
        return
    for importer, names in graph.named.get(package, {}).items():
        for name in sorted(names) if importer in moving else ():
            if _reaches(project, loaded[1], name, moving, set()):
                raise TorchferryError(
                    say(
                        "`{importer}` takes `{name}` from `{package}`, which runs a module that changes; a package "
                        "cannot be given a suffix",
                        importer=importer,
                        name=name,
                        package=package,
                    ),
                    say("use `--out DIR` to write a migrated copy of the whole tree"),
                )


def _reaches(project: Project, names: Names, name: str, moving: frozenset[str], seen: set[str]) -> bool:
    """Whether a name of a module is taken from a module that moves, or is code that uses one."""
    if name in seen:
        return False
    seen.add(name)
    file = names.file
    for binding in names.module_bindings(name):
        if isinstance(binding, ast.alias):
            return _imports_moving(project, names, file.parents[binding], moving)
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for node in ast.walk(binding):
                if isinstance(node, (ast.Import, ast.ImportFrom)) and _imports_moving(project, names, node, moving):
                    return True
                if isinstance(node, ast.Name) and _reaches(project, names, node.id, moving, seen):
                    return True
    return False


def _imports_moving(project: Project, names: Names, statement: ast.AST, moving: frozenset[str]) -> bool:
    path = names.file.path
    if isinstance(statement, ast.Import):
        return any(project.module_path(alias.name, path) in moving for alias in statement.names)
    assert isinstance(statement, ast.ImportFrom)
    module = names.imported_module(statement)
    modules = [module, *(f"{module}.{alias.name}" for alias in statement.names)]
    return any(project.module_path(name, path) in moving for name in modules)


class _Adjuster:
    """Makes the new files import, and start, the new versions of each other."""

    def __init__(
        self, project: Project, moving: frozenset[str], suffix: str, lists: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.project = project
        self.moving = moving
        self.suffix = suffix
        self.named = {**{path: suffixed(path, suffix) for path in moving}, **lists}

    def scripts(self, root: Path, analysis: Analysis) -> set[str]:
        """Return the scripts that start a file with a new version, or install a list with one."""
        paths = set()
        for item in analysis.examined:
            stem = item.path.rpartition(".")[0]
            if item.path.endswith(_SHELL) and not stem.endswith(self.suffix):
                try:
                    data = read_regular(root / item.path)
                except OSError:
                    continue
                if self.shell(item.path, data) != data:
                    paths.add(item.path)
        return paths

    def python(self, path: str, kind: Kind, data: bytes) -> bytes:
        """Import the new versions, in a module or in the cells of a notebook."""
        try:
            document = Document.read(path, kind, data)
            file = PythonFile(path, document.source)
        except (UndecodableError, UnparsableError, NotJsonError):
            return data
        names = Names(file)
        edits: list[Edit] = []
        for statement in file.imports:
            if isinstance(statement, ast.ImportFrom):
                edits += self._from_import(file, names, statement)
            else:
                edits += self._import(file, names, statement)
        return document.edited(dict.fromkeys(edits)).data()

    def _moved(self, module: str, importer: str) -> bool:
        return self.project.module_path(module, importer) in self.moving

    def _from_import(self, file: PythonFile, names: Names, statement: ast.ImportFrom) -> Iterable[Edit]:
        module = names.imported_module(statement)
        start, _ = file.span(statement)
        if statement.module and self._moved(module, file.path):
            match = re.compile(r"from[ \t]*\.*[ \t]*" + re.escape(statement.module)).match(file.source.text, start)
            if match is not None:
                yield Edit(match.end(), match.end(), self.suffix)
            return
        for alias in statement.names:
            if self._moved(f"{module}.{alias.name}", file.path):
                at, _ = file.span(alias)
                end = at + len(alias.name)
                keep = "" if alias.asname else f" as {alias.name}"
                yield Edit(end, end, self.suffix + keep)

    def _import(self, file: PythonFile, names: Names, statement: ast.Import) -> Iterable[Edit]:
        for alias in statement.names:
            if not self._moved(alias.name, file.path):
                continue
            at, _ = file.span(alias)
            end = at + len(alias.name)
            if alias.asname or "." not in alias.name:
                yield Edit(end, end, self.suffix + ("" if alias.asname else f" as {alias.name}"))
                continue
            yield Edit(end, end, self.suffix)  # import package.module: its uses are `package.module.name`
            for reference in names.references(alias.name.partition(".")[0]):
                if isinstance(reference.node, ast.Attribute) and reference.name.startswith(alias.name):
                    yield from self._use(file, reference.node, alias.name)

    def _use(self, file: PythonFile, node: ast.expr, module: str) -> Iterable[Edit]:
        while isinstance(node, ast.Attribute):
            if ast.unparse(node) == module:
                _, end = file.span(node)
                yield Edit(end, end, self.suffix)
                return
            node = node.value

    def shell(self, path: str, data: bytes) -> bytes:
        """Start the new versions: `python train.py` becomes `python train_npu.py`."""
        try:
            source = SourceText(data.decode("utf-8"))
        except UnicodeDecodeError:
            return data
        text = source.text
        for moved in sorted(self.named, key=len, reverse=True):
            pattern = re.compile(rf"(?<![\w./-])((?:\./)?){re.escape(moved)}(?![\w.-])")
            text = pattern.sub(rf"\g<1>{self.named[moved]}", text)
        return text.encode()


def requirements_for(path: str, text: str, findings: Iterable[Finding], target: Target) -> str | None:
    """Return the list for the target; None where every requirement of the original holds there too.

    Args:
        path: The original's path.
        text: Its text.
        findings: What was found in the project.
        target: The target.
    """
    by_line: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.location.path == path and rule_facts(finding.code).about is Subject.REQUIREMENT:
            by_line.setdefault(finding.location.line, []).append(finding)
    if not by_line:
        return None
    lines = text.splitlines()
    newline = "\r\n" if "\r\n" in text else "\n"
    plugin, versions = (
        target.backend.PLUGIN,
        {requirement.name: requirement.specifier for requirement in in_lines(text)},
    )
    written = [
        f"# For {target.title.en}, from {path.rpartition('/')[2]}: lines that begin with `#` had no counterpart."
    ]
    if _CUDA_BUILD.search(text) and not _CUDA_INDEX.search(text):
        written.append(f"--extra-index-url {_CPU_INDEX}")
    for number, line in enumerate(lines, 1):
        changed = _CUDA_INDEX.sub(_CPU_INDEX, _CUDA_BUILD.sub(r"\1", line))
        names = {requirement.name for requirement in in_lines(line)}
        if changed == line and any(finding.code == CudaRequirement.CODE for finding in by_line.get(number, ())):
            reasons = "; ".join(finding.message.render("en") for finding in by_line[number])
            written += [f"# {reasons}".replace("\n", " "), f"# {line}"]
            continue
        written.append(changed)
        if "torch" in names and normalised(plugin) not in versions:
            version = versions["torch"].lstrip("= ").partition("+")[0]
            row = target.row("versions", f"torch=={version}")
            written.append(row.use or f"# {target.install.en}")
    return newline.join(written) + newline
