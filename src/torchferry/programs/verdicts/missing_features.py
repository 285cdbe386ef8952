"""What a file of a project needs that the target does not have: packages, compiled modules, libraries of CUDA."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from torchferry.backends import cuda
from torchferry.backends.build_facts import extension_class
from torchferry.backends.cuda import Package
from torchferry.backends.kernel_table import kernel_table
from torchferry.backends.parts import divided
from torchferry.backends.tables import Row
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import Message, say
from torchferry.programs.imports.module_graph import External, Modules
from torchferry.programs.imports.sources import Sources, import_at
from torchferry.programs.model import MissingFeature, Source
from torchferry.programs.syntax.place_context import place_context
from torchferry.programs.verdicts.package_requirements import PackageRequirement, PackageRequirements
from torchferry.rules.attention.attention_package import ATTENTION_PACKAGES
from torchferry.rules.extension.extension_build import ExtensionBuild
from torchferry.rules.family import Subject
from torchferry.rules.guarded import MISSING
from torchferry.rules.library.cuda_package import CudaPackage, advice
from torchferry.rules.loaded_libraries import LOADERS, library_loads
from torchferry.rules.registry import rule_facts
from torchferry.source.compiled import BuiltForm, is_cmake, library_name
from torchferry.source.exports import absolute_module
from torchferry.source.flow.syntax import last_name, string_value
from torchferry.source.import_calls import IMPORTING_NAMES, import_of
from torchferry.source.names import Names, assigned_value, bound_name
from torchferry.source.nodes import nodes_in
from torchferry.source.outline import Import
from torchferry.source.project import Project, extension_names
from torchferry.source.python import PythonFile

_BUILDERS = ("CUDAExtension", "CppExtension", "cpp_extension", "create_extension")
_SOURCES = (".cu'", '.cu"')
_CUDA_BUILD = ("CUDAExtension", *_SOURCES, "nvcc", "create_extension")
_LOADS = re.compile(r"\bcpp_extension\.load\(|\bcpp_extension import (?:\w+, )*load\b")
_BY_PATH = ("spec_from_file_location", "ExtensionFileLoader", "load_dynamic")
_BY_NAME = ("import_module", "__import__", *_BY_PATH)
_LOADERS = (*LOADERS, "RawModule", *_BY_NAME)
"""What loads a compiled library by its path, or a module by its name."""

_STARTERS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})
"""Functions of subprocess and os that start a program."""


def is_lacking(package: Package, row: Row) -> bool:
    """Whether the target lacks a package that programs compute with, and has nothing of its name in its place."""
    lacking = row.status == "missing" or bool(row.extra.get("rewrite"))
    if package.name in ATTENTION_PACKAGES:  # what takes their place has other names
        lacking = row.status != "same"
    return lacking and package.kind in cuda.NEEDING_KINDS and package.name not in divided()


def raised_by(feature: MissingFeature, node: ast.AST | None) -> str:
    """Return the exception that is raised where something is lacking; empty where that is not known.

    What imports a package that is not there raises one error alone. A compiled module, or a package that is installed,
    fails in other ways too.
    """
    package = cuda.packages().get(feature.what) if feature.source is Source.TABLE else None
    if package is not None and package.error:
        return package.error
    is_package = feature.source is Source.TABLE and rule_facts(feature.code).about is not Subject.COMPILED
    is_import = isinstance(node, (ast.Import, ast.ImportFrom)) or (
        isinstance(node, ast.Call) and last_name(node.func) in IMPORTING_NAMES
    )
    return MISSING if is_package and is_import else ""


class MissingFeatures:
    """What each file of a project needs that the target does not have.

    Args:
        project: The project's Python files.
        sources: The same, to be read.
        modules: Their imports.
        target: Where it is to run.
        installed: What packages show as they are installed.
        kernels: The CUDA sources of the project.
        findings: What was found in a file.
    """

    def __init__(
        self,
        project: Project,
        sources: Sources,
        modules: Modules,
        target: Target,
        installed: PackageRequirements,
        kernels: Iterable[str],
        findings: Callable[[str], Sequence[Finding]],
    ) -> None:
        self.project = project
        self.sources = sources
        self.modules = modules
        self.target = target
        self.installed = installed
        self.kernels = {library_name(path): path for path in kernels}
        self._findings = findings
        self.compiled = self._compiled_modules()
        self.built: set[str] = set()
        """Modules that are compiled from CUDA when a program runs, as far as files were asked for what they need."""
        self._found: dict[str, list[MissingFeature]] = {}
        self._lines: dict[str, frozenset[int]] = {}
        self._doubts: dict[str, list[MissingFeature]] = {}
        self._builders: frozenset[str] | None = None

    @property
    def builders(self) -> frozenset[str]:
        """The files with a function that others have compile CUDA, whatever their own text names."""
        if self._builders is None:
            self._builders = frozenset(builder for path in self.sources.words.holding("sources")
                                       for _, _, builder in self._built_by_others(path) if builder != path)  # fmt: skip
        return self._builders

    def of(self, path: str) -> list[MissingFeature]:
        """Return what a file needs."""
        if path not in self._found:
            features = [
                MissingFeature(
                    finding.lacks,
                    finding.code,
                    finding.location,
                    finding.message,
                    finding.grade is Grade.NOTE,
                    finding.when,
                )
                for finding in self._findings(path)
                if finding.lacks
            ]
            features += self._compiled_imports(path)
            features += self._loaded_libraries(path)
            features += self._built_when_run(path)
            features += self._computed_imports(
                path, {feature.place.line for feature in features if feature.source is Source.CODE}
            )
            features += self._of_packages(path, surely=True)
            self._found[path] = features
        return self._found[path]

    def doubts(self, path: str) -> list[MissingFeature]:
        """Return what the packages need that a file imports, where a person must look."""
        if path not in self._doubts:
            self._doubts[path] = [*self._of_packages(path, surely=False)] if self.installed else []
        return self._doubts[path]

    def lines(self, path: str) -> frozenset[int]:
        """Return the lines of a file where something is imported that the target does not have."""
        if path not in self._lines:
            self._lines[path] = frozenset(feature.place.line for feature in self.of(path))
        return self._lines[path]

    def is_settled(self, finding: Finding) -> bool:
        """Whether what a finding asks is told otherwise: by the environment, or by who has what compiled.

        A function that compiles what it is given asks nothing by itself: each of its callers has its own line.
        """
        if finding.code == ExtensionBuild.CODE:
            return finding.location.path in self.builders
        if not self.installed or finding.code != CudaPackage.CODE:
            return False
        place = finding.location
        return any(
            external.line == place.line and self.installed.is_quiet(external.module)
            for external in self.modules.externals.get(place.path, ())
        )

    def _compiled_modules(self) -> dict[str, list[str]]:
        """Return the compiled modules that need CUDA, by their last name, with the scripts that build one."""
        modules: dict[str, list[str]] = {}
        for path in sorted(self.project.paths):
            text = self.sources.text(path) if _may_build(path) else ""
            if any(word in text for word in _BUILDERS) and any(word in text for word in _CUDA_BUILD):
                names = frozenset() if self._builds_for_target(text) else self._built_by(path, text)
            else:  # distutils' own, with a compiler of the project's choice
                parts = text.split("Extension(")[1:] if any(source in text for source in _SOURCES) else ()
                cuda = [part for part in parts if any(source in part for source in _SOURCES)]
                names = frozenset().union(*(extension_names(f"Extension({part}") for part in cuda))
            for name in names:
                modules.setdefault(name, []).append(path)
        for name, script in self._built_by_cmake() if self.kernels or self.project.compiled.has_cuda_in_cmake() else ():
            modules.setdefault(name, []).append(script)
        return modules

    def _script(self, name: str, path: str) -> str:
        """Return the script that builds a compiled module for a file: of several the nearest in or above its folder."""
        scripts = self.compiled[name]
        above = [each for each in scripts if path.startswith(each[: each.rfind("/") + 1])]
        return max(above, key=lambda each: each.count("/")) if above else scripts[0]

    def _built_by_cmake(self) -> Iterator[tuple[str, str]]:
        """Yield the modules that CMake builds from CUDA, each with the file that says so."""
        compiled = self.project.compiled
        for name, code in compiled.from_cuda(BuiltForm.MODULE):
            yield name, code.path
        libraries = {name: code.path for name, code in compiled.from_cuda(BuiltForm.LIBRARY) if is_cmake(code.path)}
        for name, script in libraries.items():  # a library that is imported is a module, whatever it is declared as
            if name in self._absent:
                yield name, script
        scripts = [*(code.path for _, code in compiled.from_cuda(BuiltForm.MODULE)), *libraries.values()]
        for path in sorted(self.project.paths) if scripts else ():
            text = self.sources.text(path) if _may_build(path) else ""
            for name in extension_names(text) if "CMakeExtension(" in text else ():
                if compiled.built(name) is None:  # CMake gives it that name, whatever it calls it itself
                    yield name, scripts[0]

    def _built_by(self, path: str, text: str) -> frozenset[str]:
        """Return the modules that a build script makes: those it names as such, and those nobody has that it speaks of.

        `CUDAExtension(f"{name}._C")`, `make("_ext", "net")` and a loop over names tell them no other way.
        """
        loaded = self.sources.file(path)
        return extension_names(text) | (
            self._absent.intersection(_texts_of(loaded[0])) if loaded is not None else set()
        )

    @cached_property
    def _absent(self) -> frozenset[str]:
        """The last names of the modules that files import, and of which neither the tree nor a table knows."""
        absent: set[str] = set()
        for path, imports in self.modules.imports.items():
            for imported in imports:
                module = absolute_module(imported.module, path)
                own = self.modules.find(module, path)
                if own is None and module.strip(".") and module.partition(".")[0] not in sys.stdlib_module_names:
                    if self.target.package_of_module(module) is None:
                        absent.add(module.rpartition(".")[2])
                elif own is not None and own.endswith("/__init__.py"):
                    inner = (name for name in imported.names if self.modules.find(f"{module}.{name}", path) is None)
                    absent.update(name for name in inner if not self.modules.may_bind(own, name, path))
        return frozenset(absent)

    def _builds_for_target(self, text: str) -> bool:
        """Whether a build script names the target's own class of extension."""
        builder = extension_class(self.target)
        return bool(builder) and builder in text

    def _compiled_imports(self, path: str) -> Iterator[MissingFeature]:
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
            places: list[ast.AST] = [statement]
            guarded = place_context(loaded[0], statement).copes
            # one that is built for the host is there, and fails when it is called
            if not guarded and self._is_built_for_the_host(self._script(name, path)):
                places = _calls_below(*loaded, statement, name)
            for node in places:
                yield self._compiled_lack(name, loaded[0], node)

    def _compiled_lack(self, name: str, file: PythonFile, node: ast.AST) -> MissingFeature:
        message = say(
            "`{name}` is compiled from CUDA by {script}: {target} cannot run its kernels; {advice}, or use "
            "equivalent torch operators",
            name=name,
            script=self._script(name, file.path),
            target=self.target.title,
            advice=self._advice(),
        )
        return MissingFeature(name, ExtensionBuild.CODE, file.location(*file.span(node)), message, source=Source.CODE)

    def _advice(self) -> Message:
        """Say what is done about kernels of CUDA for the target."""
        table = kernel_table(self.target.backend)
        if table is None:
            return say("rewrite them")
        if table.takes_cuda_syntax:
            return say("port them with `torchferry port`")
        return say("rewrite them in {language} (`torchferry port` says what each has to do)", language=table.language)

    def _is_built_for_the_host(self, script: str) -> bool:
        """Whether a build script builds the module for the CPU where there is no CUDA."""
        loaded = self.sources.file(script)
        return loaded is not None and "CppExtension" in loaded[0].source.text and builds_without_cuda(loaded[0])

    def _computed_imports(self, path: str, known_lines: set[int]) -> Iterator[MissingFeature]:
        """Yield what a file imports by names which it computes, where the target lacks it.

        Args:
            path: The file.
            known_lines: Where it is told already that a compiled module is imported.
        """
        externals = (*self.modules.externals.get(path, ()), *self.modules.missing.get(path, ()))
        for external in (each for each in externals if each.computed):
            known_package = self.target.package_of_module(external.module)
            name = external.module.rpartition(".")[2]
            is_compiled = known_package is None and name in self.compiled and external.line not in known_lines
            loaded = self.sources.file(path) if is_compiled or known_package is not None else None
            node = self.sources.statement(path, external.line) if loaded is not None else None
            if loaded is None or node is None:
                continue
            when = f"== {external.module!r}" if _imports_parameter(*loaded, node) else ""
            if known_package is None:
                yield self._compiled_lack(name, loaded[0], node)._replace(when=when)
            elif is_lacking(*known_package):
                package, row = known_package
                message = advice(self.target.title, package.name, row)
                place = loaded[0].location(*loaded[0].span(node))
                yield MissingFeature(package.name, CudaPackage.CODE, place, message, when=when)

    # --- what packages show as they are installed ---

    def _of_packages(self, path: str, *, surely: bool) -> Iterator[MissingFeature]:
        """Yield what the packages need that a file imports: what stops the import, or what a person must look at."""
        for external in self.modules.externals.get(path, ()) if self.installed else ():
            for need in self.installed.needs(external.module):
                if need.stops is surely:
                    yield self._of_package(need, external)

    def _of_package(self, need: PackageRequirement, external: External) -> MissingFeature:
        loaded = self.sources.file(external.importer)
        statement = import_at(loaded[0], external.line) if loaded is not None else None
        place = (
            loaded[0].location(*loaded[0].span(statement))
            if loaded is not None and statement is not None
            else Location(external.importer, external.line, 1, external.line, 2)
        )
        return MissingFeature(need.what, CudaPackage.CODE, place, need.message, source=need.source, beyond=need.steps)

    def _loaded_libraries(self, path: str) -> Iterator[MissingFeature]:
        """Yield where a file loads by a path or a name what the project compiles from CUDA, or calls its operators."""
        text = self.sources.text(path) if self.kernels or self.compiled or self.project.compiled.is_any else ""
        loads = path in self.modules.takers or any(loader in text for loader in _LOADERS)
        starts = "subprocess" in text or "os.system" in text or "popen" in text.lower()
        loaded = self.sources.file(path) if loads or starts or "torch.ops" in text else None
        if loaded is None:
            return
        file, names = loaded
        imported = [imported_by.call for imported_by in names.import_calls()] if loads else []
        renamed = [each for each in imported if isinstance(each, ast.Call) and last_name(each.func) not in _LOADERS]
        for load in library_loads(file, names, _LOADERS, renamed) if loads else ():
            is_import = last_name(load.call.func) in _BY_NAME or load.call in renamed
            if is_import and any(self.modules.find(absolute_module(each, path), path) for each in load.texts):
                continue  # a module of Python, whatever else is called so
            is_alone = bool(load.name) and last_name(load.call.func) not in _BY_PATH
            stems = {library_name(each) for each in ((load.name,) if is_alone else load.texts)}
            modules = stems.union(text.rpartition(".")[2] for text in load.texts)
            compiled = next((name for name in sorted(modules) if name in self.compiled), None)
            if compiled is not None:
                yield self._compiled_lack(compiled, file, load.call)
                continue
            source = next((self.kernels[stem] for stem in sorted(stems & self.kernels.keys())), None)
            built = None if source is not None or is_import else self._library_from_cuda(stems)
            if source is not None:
                yield self._library_lack(library_name(source), source, file, load.call)
            elif built is not None:
                yield self._library_lack(*built, file, load.call)
            elif last_name(load.call.func) in LOADERS and not load.name:
                yield from self._any_library(file, load.call)
        yield from self._operators(file, names)
        yield from self._started_programs(file) if starts else ()

    def _library_from_cuda(self, stems: set[str]) -> tuple[str, str] | None:
        """Return which of some names is that of a library that the project builds from CUDA, with what says so."""
        for stem in sorted(stems - {""}):
            code = self.project.compiled.built(stem)
            if code is not None and code.from_cuda and code.form is not BuiltForm.PROGRAM:
                return stem, code.path
        return None

    def _library_lack(self, name: str, source: str, file: PythonFile, node: ast.AST) -> MissingFeature:
        message = say(
            "the library that is loaded here is compiled from {source}: {target} cannot run its kernels",
            source=source,
            target=self.target.title,
        )
        place = file.location(*file.span(node))
        return MissingFeature(name, ExtensionBuild.CODE, place, message, source=Source.CODE)

    def _any_library(self, file: PythonFile, call: ast.Call) -> Iterator[MissingFeature]:
        """Yield what the project compiles from CUDA, where a call loads one library and nobody can tell which."""
        for name, source in sorted(self.kernels.items()):
            yield self._library_lack(name, source, file, call)._replace(unsure=file.text(call))

    def _operators(self, file: PythonFile, names: Names) -> Iterator[MissingFeature]:
        """Yield the operators of `torch.ops` that the project compiles from CUDA."""
        for reference in names.references("torch"):
            parts = reference.name.split(".")
            if reference.is_import or len(parts) < 4 or parts[1] != "ops":
                continue
            code = self.project.compiled.operators(parts[2])
            if code is not None and code.from_cuda:
                yield self._library_lack(parts[2], code.path, file, reference.node)

    def _started_programs(self, file: PythonFile) -> Iterator[MissingFeature]:
        """Yield where a file starts a program that the project compiles from CUDA."""
        programs = dict(self.project.compiled.from_cuda(BuiltForm.PROGRAM))
        for node in file.strings if programs else ():
            words = node.value.split() if isinstance(node.value, str) else ()
            name = words[0].rpartition("/")[2] if words else ""
            if name in programs and _is_started(file, node):
                message = say(
                    "`{name}` is compiled from CUDA by {script}: {target} cannot run its kernels",
                    name=name,
                    script=programs[name].path,
                    target=self.target.title,
                )
                place = file.location(*file.span(node))
                yield MissingFeature(name, ExtensionBuild.CODE, place, message, source=Source.CODE)

    def _built_when_run(self, path: str) -> Iterator[MissingFeature]:
        """Yield the calls by which a file has CUDA compiled that a function of the project builds and loads."""
        for call, name, builder in self._built_by_others(path):
            message = say(
                "`{name}` is compiled from CUDA by {script}: {target} cannot run its kernels; port "
                "them, or use equivalent torch operators",
                name=name,
                script=builder,
                target=self.target.title,
            )
            self.built.add(name)
            yield MissingFeature(name, ExtensionBuild.CODE, call, message, source=Source.CODE)

    def _built_by_others(self, path: str) -> Iterator[tuple[Location, str, str]]:
        """Yield the places of such calls, with the name of the module and the file of the function."""
        text = self.sources.text(path)
        loaded = self.sources.file(path) if self.kernels and any(source in text for source in _SOURCES) else None
        for keyword in loaded[0].keywords.get("sources", ()) if loaded is not None else ():
            call = loaded[0].parents.get(keyword) if loaded is not None else None
            if loaded is None or not isinstance(call, ast.Call):
                continue
            named = [*call.args[:1], *(other.value for other in call.keywords if other.arg in ("name", "module_name"))]
            name = next((value for value in map(string_value, named) if value), None)
            builder = self._builder(*loaded, call) if name is not None else None
            if name is not None and builder is not None:
                yield loaded[0].location(*loaded[0].span(call)), name, builder

    def _builder(self, file: PythonFile, names: Names, call: ast.Call) -> str | None:
        """Return the file of the function of the project that a call has compile something; None where it is none."""
        qualified = names.qualified(call.func)
        if qualified is None or qualified.startswith("torch."):
            return None
        defined = self.project.definition(qualified, file.path)
        own = defined[0] if defined is not None else None
        return own.path if own is not None and _LOADS.search(own.source.text) is not None else None

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
        return loaded is not None and any(
            not self._loads_itself(*loaded, binding, name) for binding in loaded[1].module_bindings(name)
        )

    def _loads_itself(self, file: PythonFile, names: Names, binding: ast.AST, name: str) -> bool:
        """Whether a package binds a name to the compiled module itself, or to nothing where that is absent.

        `from . import _C` in its `__init__`, `_C = import_module("package._C")`, `_C = None` in a handler.
        """
        statement = file.parents.get(binding)
        if isinstance(statement, ast.Import):
            return any(alias.name.rpartition(".")[2] == name for alias in statement.names)
        if isinstance(statement, ast.ImportFrom):
            module = names.imported_module(statement)
            return self.modules.find(module, file.path) == file.path and getattr(binding, "name", "") == name
        value = assigned_value(file, binding)
        if isinstance(value, ast.Call):
            return last_name(value.func) in _LOADERS
        return isinstance(value, ast.Constant)


_NOT_BUILT = frozenset({"install_requires", "setup_requires", "tests_require", "extras_require", "classifiers",
                        "keywords", "packages", "package_data", "requires", "entry_points"})  # fmt: skip
"""Arguments of `setup` that name what it does not build."""


def _texts_of(file: PythonFile) -> Iterator[str]:
    """Yield the last names of the texts of a build script that may name a module which it builds."""
    for constant in file.strings:
        name = str(constant.value).rpartition(".")[2]
        if not name.isidentifier() or "/" in str(constant.value):
            continue
        parent = file.parents.get(constant)
        while parent is not None and not (isinstance(parent, ast.keyword) and parent.arg in _NOT_BUILT):
            parent = file.parents.get(parent)
        if parent is None:
            yield name


def _calls_below(file: PythonFile, names: Names, statement: ast.stmt, name: str) -> list[ast.AST]:
    """Return where something of a module that a statement imports is spoken of."""
    assert isinstance(statement, (ast.Import, ast.ImportFrom))
    return [
        use
        for alias in statement.names
        if alias.name != "*" and name in (alias.name.rpartition(".")[2], alias.asname, "*")
        for use in names.uses(bound_name(alias), file.scope(alias))
    ]


def _is_started(file: PythonFile, node: ast.AST) -> bool:
    """Whether a text is what a call starts, by itself or as the first word of a list."""
    parent = file.parents.get(node)
    if isinstance(parent, ast.List) and parent.elts[0] is node:
        node, parent = parent, file.parents.get(parent)
    return isinstance(parent, ast.Call) and node in parent.args[:1] and last_name(parent.func) in _STARTERS


def _may_build(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(("setup", "build", "make", "install", "compile")) or "ext" in name


def builds_without_cuda(file: PythonFile) -> bool:
    """Whether every `CUDAExtension` of a build script is under a condition beside which nothing raises."""
    builds = [
        node
        for node in nodes_in(file.tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == "CUDAExtension"
    ]
    return bool(builds) and all(_under_condition(file, node) for node in builds)


def _under_condition(file: PythonFile, node: ast.AST) -> bool:
    child, parent = node, file.parents.get(node)
    while parent is not None:
        if isinstance(parent, ast.IfExp) and child is not parent.test:
            return True
        if isinstance(parent, ast.If) and child is not parent.test:
            other_branch = parent.orelse if child in parent.body else parent.body
            return not any(isinstance(statement, ast.Raise) for statement in other_branch)
        child, parent = parent, file.parents.get(parent)
    return False


def _imports_parameter(file: PythonFile, names: Names, statement: ast.AST) -> bool:
    """Whether a statement imports what its function is given the name of."""
    calls = (import_of(names, each) for each in nodes_in(statement) if isinstance(each, ast.Call))
    given = [call.asked for call in calls if call is not None and call.asked is not None]
    bindings = names.reaching_bindings(given[0]) if len(given) == 1 and isinstance(given[0], ast.Name) else []
    return len(bindings) == 1 and isinstance(bindings[0], ast.arg)
