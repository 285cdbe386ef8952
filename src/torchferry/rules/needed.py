"""Which of the things that a target does not have the project really needs, judged by who imports them.

A file that is not there on the target stops whoever imports it. That is not the project where every importer copes
without it, where only a test or a notebook asks for it, or where the build script leaves it out by itself. What is
not needed in this sense does not block; it stays in the report, with the reason. This looks at imports alone, not at
what each program calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from torchferry.core.finding import Finding
from torchferry.core.lazy_regex import lazy_regex
from torchferry.core.messages import Message, say
from torchferry.rules.examined import Examined
from torchferry.rules.guarded import Guard, guard_of
from torchferry.source.flow.syntax import last_name
from torchferry.source.import_graph import ImportGraph
from torchferry.source.kinds import Kind
from torchferry.source.names import Names
from torchferry.source.project import Project, extension_names
from torchferry.source.python import PythonFile

_BUILDS = lazy_regex(r"\b(?:CUDAExtension|CppExtension|create_extension|cpp_extension)\b")
_SOURCE = lazy_regex(r"\.cu[\"']")
_LOADS_LIBRARY = lazy_regex(r"\b(?:CDLL|LoadLibrary|load_library|RawModule)\(")
"""What loads a compiled library by its path: which source it was compiled from cannot be told."""

_ASIDE = lazy_regex(r"(?:^|/)(?:tests?|testing|benchmarks?|docs?)/|(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py\Z")
"""Files beside the project's own programs."""


_DEPTH = 40
"""Files that are followed from importer to importer before what is imported is taken to be needed."""

_SOURCES = frozenset({"sources", "cuda_sources", "cpp_sources", "extra_cuda_cflags"})


class _Use(NamedTuple):
    """An import of a compiled module: the file, the line, and what stands around it."""

    path: str
    line: int
    guard: Guard


class _Site(NamedTuple):
    """A file that builds extensions: where, its text, and why it does not block; None when it does."""

    path: str
    text: str
    spared: Message | None


def without_needless_blockers(project: Project, graph: ImportGraph, examined: list[Examined]) -> list[Examined]:
    """Return the files with findings that block only what the project needs."""
    if not any(finding.blocker for item in examined for finding in item.findings):
        return examined
    judge = _Judge(project, graph, examined)
    return [
        item._replace(
            findings=tuple(judge.settled(item, item.findings)), remaining=tuple(judge.settled(item, item.remaining))
        )
        if any(finding.blocker for finding in (*item.findings, *item.remaining))
        else item
        for item in examined
    ]


class _Judge:
    def __init__(self, project: Project, graph: ImportGraph, examined: list[Examined]) -> None:
        self.project = project
        self.graph = graph
        self.python = [item for item in examined if item.kind is Kind.PYTHON]
        self.notebooks = sum(item.kind is Kind.NOTEBOOK for item in examined)
        self.own = any(not _ASIDE.search(item.path) for item in self.python)
        self.on_device = any(item.uses_device for item in self.python)
        self._spared: dict[str, Message | None] = {}
        self._sites: list[_Site] | None = None

    def settled(self, item: Examined, findings: Iterable[Finding]) -> Iterator[Finding]:
        for finding in findings:
            reason = self._reason(item, finding) if finding.blocker else None
            if reason is None:
                yield finding
            else:
                message = say("{message} ({reason})", message=finding.message, reason=reason)
                yield finding._replace(blocker=False, message=message)

    def _reason(self, item: Examined, finding: Finding) -> Message | None:
        """Return why a finding does not block the project, or None when it does."""
        if item.kind is Kind.NOTEBOOK:
            alone = self.notebooks == 1 and not self.python
            return None if alone else say("only this notebook needs it")
        if item.kind is Kind.KERNEL:
            return self._kernel(item.path)
        if item.kind is not Kind.PYTHON:
            return None
        if finding.code.startswith("EXT"):
            site = next((site for site in self.sites if site.path == item.path), None)
            return site.spared if site is not None else self.spared(item.path)
        return self.spared(item.path)

    def spared(self, path: str, seen: frozenset[str] = frozenset()) -> Message | None:
        """Return why the project does without a file that cannot be imported, or None when it does not."""
        if path in self._spared:
            return self._spared[path]
        if len(seen) > _DEPTH:
            return None
        reason = self._spared_by_importers(path, seen | {path})
        self._spared[path] = reason
        return reason

    def _spared_by_importers(self, path: str, seen: frozenset[str]) -> Message | None:
        if _ASIDE.search(path):
            return say("only tests or benchmarks need it") if self.own else None
        importers = sorted(importer for importer in self.graph.importers(path) - seen if not _ASIDE.search(importer))
        reason: Message | None = None
        for importer in importers:
            loaded = self.project.file(importer)
            if loaded is None:
                return None
            file, names = loaded
            statements = [statement for statement in file.imports if path in self._imported(statement, names)]
            found: Message | None
            if not statements or any(guard_of(file, statement) is Guard.NONE for statement in statements):
                found = self.spared(importer, seen)
            else:
                found = _behind_guard(importer, statements[0].lineno)
            if found is None:
                return None
            reason = reason or found
        return reason

    def _imported(self, statement: ast.Import | ast.ImportFrom, names: Names) -> Iterator[str | None]:
        """Yield the files of the project that an import statement imports."""
        importer = names.file.path
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield self.project.module_path(alias.name, importer)
            return
        module = names.imported_module(statement)
        yield self.project.module_path(module, importer)
        for alias in statement.names:
            yield self.project.module_path(f"{module}.{alias.name}", importer)

    # --- compiled modules ---

    @property
    def sites(self) -> list[_Site]:
        """The files that build extensions."""
        if self._sites is None:
            self._sites = [
                _Site(item.path, source.text, self._spared_build(item.path, source.text))
                for item in self.python
                for source in [self.project.text(item.path)]
                if source is not None
                and (_BUILDS.search(source.text) or (_SOURCE.search(source.text) and extension_names(source.text)))
            ]
        return self._sites

    def _spared_build(self, path: str, text: str) -> Message | None:
        """Return why the project does without what a file builds, or None when it does not."""
        loaded = self.project.file(path)
        if loaded is None:
            return None
        file, _ = loaded
        builders = [call for call in ast.walk(file.tree) if isinstance(call, ast.Call) and _loads(call)]
        if builders and "Extension(" not in text:  # built when it is used
            if all(guard_of(file, call) is not Guard.NONE for call in builders):
                return say("it is built only where a function or a condition asks for it")
            return self.spared(path)
        reasons = [
            self.spared(use.path) if use.guard is Guard.NONE else _behind_guard(use.path, use.line)
            for use in self._uses(extension_names(text))
        ]
        if reasons and None not in reasons:
            return reasons[0]
        if "CUDAExtension" in text and builds_without_cuda(file):
            return say("its build script leaves the CUDA sources out where there is no CUDA")
        return None

    def _uses(self, wanted: frozenset[str]) -> Iterator[_Use]:
        """Yield the imports of compiled modules by their names."""
        for item in self.python:
            if item.outline is None or _ASIDE.search(item.path):
                continue
            if not any(
                name.rpartition(".")[2] in wanted
                for imported in item.outline.imports
                for name in (imported.module, *imported.names)
            ):
                continue
            loaded = self.project.file(item.path)
            if loaded is None:
                continue
            file, names_of_file = loaded
            for statement in file.imports:
                module = names_of_file.imported_module(statement) if isinstance(statement, ast.ImportFrom) else ""
                modules = [module, *(f"{module}.{alias.name}" if module else alias.name for alias in statement.names)]
                if any(
                    name.rpartition(".")[2] in wanted and self.project.module_path(name, item.path) is None
                    for name in modules
                ):
                    yield _Use(item.path, statement.lineno, guard_of(file, statement))

    def _kernel(self, path: str) -> Message | None:
        """Return why a CUDA source does not block: by what builds it, the nearest that names it first."""
        folder, _, name = path.rpartition("/")
        around = [site for site in self.sites if f"{folder}/".startswith(_folder(site.path))]
        nearest = max((len(_folder(site.path)) for site in around), default=0)
        sites = [site for site in around if name in site.text] or [
            site for site in around if len(_folder(site.path)) == nearest
        ]
        if sites:
            reasons = [site.spared for site in sites]
            return None if None in reasons else reasons[0]
        if not self.on_device or any(_LOADS_LIBRARY.search(text) for text in self._texts()):
            return None
        return say("nothing in the project's Python builds it")

    def _texts(self) -> Iterator[str]:
        for item in self.python:
            source = None if _ASIDE.search(item.path) else self.project.text(item.path)
            if source is not None:
                yield source.text


def _behind_guard(path: str, line: int) -> Message:
    return say("{place} imports it only behind a guard", place=f"{path}:{line}")


def _folder(path: str) -> str:
    folder = path.rpartition("/")[0]
    return f"{folder}/" if folder else ""


def _loads(call: ast.Call) -> bool:
    """Whether a call builds an extension when it runs: `cpp_extension.load(...)`, `load_inline(...)`."""
    if last_name(call.func) not in ("load", "load_inline"):
        return False
    return any(keyword.arg in _SOURCES for keyword in call.keywords) or any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith((".cu", ".cpp"))
        for argument in call.args
        for node in ast.walk(argument)
    )


def builds_without_cuda(file: PythonFile) -> bool:
    """Whether every `CUDAExtension` of a build script stands under a condition beside which nothing raises."""
    found = [
        node
        for node in ast.walk(file.tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == "CUDAExtension"
    ]
    return bool(found) and all(_under_condition(file, node) for node in found)


def _under_condition(file: PythonFile, node: ast.AST) -> bool:
    child, parent = node, file.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.IfExp) and child is not parent.test:
            return True
        if isinstance(parent, ast.If) and child is not parent.test:
            beside = parent.orelse if child in parent.body else parent.body
            return not any(isinstance(statement, ast.Raise) for statement in beside)
        child, parent = parent, file.parents.get(parent)
    return False
