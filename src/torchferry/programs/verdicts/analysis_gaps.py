"""What a program reaches of which nothing is known: files not read, other frameworks, packages nobody verified."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from torchferry.backends.target import Target
from torchferry.core.files import read_regular
from torchferry.core.finding import Grade
from torchferry.core.messages import Message, say, say_plural
from torchferry.core.record import NamedTuple
from torchferry.programs.call_paths.path_search import CallPathSearch
from torchferry.programs.imports.missing_sources import MissingSources, Submodule
from torchferry.programs.imports.module_graph import External, Modules
from torchferry.programs.imports.sources import LONGEST, Sources, import_at
from torchferry.programs.model import Reachability, Unread, Unverified
from torchferry.programs.verdicts.missing_features import MissingFeatures
from torchferry.programs.verdicts.unread_code import computes_with, loaded_code
from torchferry.rules.family import Subject
from torchferry.rules.file_result import FileResult
from torchferry.rules.registry import rule_facts
from torchferry.source.parsing import parse_fault

_BESIDE = ("torch.utils.tensorboard", "torch.utils.data")
"""Modules of torch that programs of other frameworks use too."""

_MODULE = re.compile(r"nn\.Module")
_MODEL = re.compile(
    r"\bnn\b|\.backward\(|\b(?:torch|jit|hub)\.load\(|from_pretrained\(|torchvision\.models|\btimm\b|\.cuda\(|device\("
)
"""Where torch has its own model, or a card, by its text."""

_OF_PYTHON_2 = frozenset({
    "BaseHTTPServer", "ConfigParser", "Cookie", "HTMLParser", "Queue", "SimpleHTTPServer", "SocketServer", "StringIO",
    "Tkinter", "__builtin__", "cPickle", "cStringIO", "commands", "cookielib", "copy_reg", "exceptions", "httplib",
    "md5", "sets", "sha", "thread", "urllib2", "urlparse", "xmlrpclib",
})  # fmt: skip
"""Modules that the standard library of Python 2 had."""


Answer = TypeVar("Answer")


class _Frameworks(NamedTuple):
    """What a file computes with: another framework than torch, torch, or both."""

    other: Unread | None
    is_torch: bool


class _Package(NamedTuple):
    """A package of others that a file imports: its module, its name where nobody verified it, and the first import."""

    top: str
    name: str
    place: str


class _OfImports(Generic[Answer]):
    """What the imports of each file say, asked again when more of them are known: computed ones are met late."""

    def __init__(self, modules: Modules, ask: Callable[[str, Sequence[External]], Answer]) -> None:
        self._modules = modules
        self._ask = ask
        self._answers: dict[str, tuple[int, Answer]] = {}

    def __call__(self, path: str) -> Answer:
        externals = self._modules.externals.get(path, ())
        answers = self._answers.get(path)
        if answers is None or answers[0] != len(externals):
            answers = self._answers[path] = (len(externals), self._ask(path, externals))
        return answers[1]


class AnalysisGaps:
    """Answers what of a program's files and packages nobody knows.

    Args:
        sources: The project's files.
        modules: Their imports.
        target: Where it is to run.
        features: The known facts about compiled modules and installed packages.
        absent: What belongs to the project and is not there.
        examined: What was found in each file.
        largest: Bytes above which a file was not examined; 0 for no limit.
    """

    def __init__(
        self,
        sources: Sources,
        modules: Modules,
        target: Target,
        features: MissingFeatures,
        absent: MissingSources,
        examined: Mapping[str, FileResult],
        largest: int,
    ) -> None:
        self._sources = sources
        self._root = sources.project.root
        self._modules = modules
        self._target = target
        self._features = features
        self._absent = absent
        self._examined = examined
        self._largest = largest
        self._faults: dict[str, Message | None] = {}
        self._reasons: dict[External, Message | None] = {}
        self._added: dict[str, Submodule | None] = {}
        self._carried: dict[tuple[str, str], bool] = {}
        self._loading: dict[str, bool] = {}
        self._astray = _OfImports(modules, self._found_astrays)
        self._engines = _OfImports(modules, self._found_engines)
        self._frameworks = _OfImports(modules, self._found_frameworks)
        self._packages = _OfImports(modules, self._found_packages)

    def of(self, reach: CallPathSearch, running: Sequence[str]) -> Iterator[Unread]:
        """Yield what a program reaches and was not read, or is not known here, with the way to it."""
        other = self._engine(reach, running) or self._other_framework(running)
        if other is not None:
            yield other
        for start in reach.program.own_starts:
            own = self._modules.find(start.module, reach.program.path) if start.module else None
            for why in self._absent.packages_around(start.module, own).values():
                if why is not None:
                    yield Unread(start.place, why)
        for path in running:
            why = self._why_unread(path)
            if why is not None:
                call_path = reach.call_path_to_file(path)
                yield Unread(path, why, call_path.steps if call_path is not None else ())
            yield from self._absent_imports(reach, path)

    def _why_unread(self, path: str) -> Message | None:
        """Return why a file was not read, or None where it was."""
        item = self._examined.get(path)
        if item is None:
            return None
        if item.failure is not None:
            return say("torchferry failed on it")
        broken = [f for f in item.findings if f.grade is Grade.MANUAL and rule_facts(f.code).about is Subject.FILE]
        if broken:
            return broken[0].message
        if path not in self._faults:
            is_read = item.findings or (item.parsed and len(self._sources.text(path)) <= LONGEST)
            # What holds a word that a rule asks for was parsed; other files were only searched for such words.
            self._faults[path] = None if is_read or self._sources.is_parsed(path) else self._fault(path)
        return self._faults[path]

    def _fault(self, path: str) -> Message | None:
        if path in self._sources.notebooks:
            return None if self._sources.file(path) is not None else say("its cells could not be read")
        try:
            size = len(read_regular(self._root / path))
        except OSError as error:
            return say("cannot be read: {error}", error=error.strerror)
        if self._largest and size > self._largest:
            return say_plural(
                "{count} byte is above the limit of {limit}",
                "{count} bytes are above the limit of {limit}",
                count=size,
                limit=self._largest,
            )
        source = self._sources.project.text(path)
        if source is None:
            return say("is not text that Python can read")
        if len(source.text) > LONGEST:
            return say("is too long to follow how programs pass through it")
        fault = parse_fault(source.text)
        return say("does not parse: line {line}: {error}", line=fault[0], error=fault[1]) if fault is not None else None

    def _absent_imports(self, reach: CallPathSearch, path: str) -> Iterator[Unread]:
        """Yield the imports of a file that lead to what belongs to the project and was not read."""
        astray = self._astray(path) or self._added_by(reach.program.path, path)
        for external, why in (*self._absent.imports(path, self._modules), *astray):
            statement = self._sources.statement(path, external.line) if not self._is_known(external.module) else None
            if statement is None:
                continue
            call_path = reach.call_path(path, statement)
            if call_path is not None and call_path.may_be_taken:
                yield Unread(f"{path}:{external.line}", why, call_path.steps[:-1])

    def _found_astrays(self, _: str, externals: Sequence[External]) -> tuple[tuple[External, Message], ...]:
        """Return the imports of a file that no table knows and that may mean what belongs to the project."""
        reasons = ((external, self._why_astray(external)) for external in externals)
        return tuple((external, why) for external, why in reasons if why)

    def _added_by(self, program: str, path: str) -> Iterator[tuple[External, Message]]:
        """Yield the imports of a file that may mean what the program adds to Python's path before it comes there."""
        submodule = self._submodule_added_by(program)
        for external in self._modules.externals.get(path, ()) if submodule is not None else ():
            if submodule is not None and self._is_foreign(external):
                why = self._absent.why_astray_after(external, program, submodule)
                if why is not None:
                    yield external, why

    def _submodule_added_by(self, program: str) -> Submodule | None:
        """Return the submodule that is not there and that a program adds to Python's path, or None."""
        if program not in self._added:
            self._added[program] = self._absent.added_in(self._sources.text(program))
        return self._added[program]

    def _is_foreign(self, external: External) -> bool:
        """Whether an import is of a package of which no table, no environment and no part of the project speaks."""
        return not (
            external.module.startswith(".")
            or self._target.package_of_module(external.module) is not None
            or self._absent.why(external) is not None
            or self._features.installed.is_there(external.module)
        )

    def _why_astray(self, external: External) -> Message | None:
        if external not in self._reasons:
            self._reasons[external] = self._found_astray(external)
        return self._reasons[external]

    def _found_astray(self, external: External) -> Message | None:
        if not self._is_foreign(external):
            return None
        return self._absent.why_astray(external, self._modules, self._sources.text(external.importer))

    def _is_known(self, module: str) -> bool:
        """Whether a table of the target or the environment answers for a module."""
        package = None if module.startswith(".") else self._target.package_of_module(module)
        return (package is not None and package[1].status != "unknown") or self._features.installed.is_there(module)

    def _engine(self, reach: CallPathSearch, running: Sequence[str]) -> Unread | None:
        """Return where a program reaches a framework that nobody imports but to compute, also beside torch."""
        for path in running:
            for line, name in self._engines(path):
                call_path = reach.call_path_to_file(path)
                if call_path is not None and call_path.may_be_taken:
                    reason = say("computes with {name}, which is not torch", name=name)
                    return Unread(f"{path}:{line}", reason, call_path.steps)
        return None

    def _found_engines(self, _: str, externals: Sequence[External]) -> tuple[tuple[int, str], ...]:
        """Return the lines on which a file surely imports such a framework, with its name."""
        engines = []
        for external in externals:
            package = self._target.package_of_module(external.module) if not external.indented else None
            if package is not None and package[0].kind == "engine":
                engines.append((external.line, package[0].name))
        return tuple(engines)

    def _other_framework(self, running: Sequence[str]) -> Unread | None:
        """Return where a program computes with another framework than torch, of which nothing is known here.

        It does where nothing that it reaches imports torch, or where its own file imports the other one, and no model
        of torch's is in what it reaches: torch then only loads data, draws curves, or calculates with the results.
        """
        imported = [(path, self._frameworks(path)) for path in running]
        other = next((frameworks.other for _, frameworks in imported if frameworks.other is not None), None)
        with_torch = [path for path, frameworks in imported if frameworks.is_torch]
        if other is None or not with_torch:
            return other
        if not other.place.startswith(f"{running[0]}:"):
            return None
        model = _MODEL if running[0] in with_torch else _MODULE  # torch may calculate with what the other one gave
        return None if any(model.search(self._sources.text(path)) for path in with_torch) else other

    def may_use_torch(self, paths: Iterable[str]) -> bool:
        """Whether anything that some files import is torch, or a package that may need it."""
        return any(map(self._imports_torch, paths))

    def _imports_torch(self, path: str) -> bool:
        """Whether anything that a file imports is torch, or may need it."""
        for external in self._modules.externals.get(path, ()):
            top = external.module.partition(".")[0]
            if top and not _is_pythons(top):
                package = self._target.package_of_module(external.module)
                if package is None or package[0].kind != "host":
                    return True
        return False

    def _found_frameworks(self, path: str, externals: Sequence[External]) -> _Frameworks:
        """Return whether a file imports torch, and the first other framework that it surely imports."""
        other: Unread | None = None
        is_torch = False
        for external in externals:
            if external.module.partition(".")[0] == "torch" and not external.module.startswith(_BESIDE):
                is_torch = True
            package = self._target.package_of_module(external.module) if other is None else None
            if package is not None and package[0].kind == "other" and not external.indented:
                place = f"{path}:{external.line}"
                other = Unread(place, say("computes with {name}, which is not torch", name=package[0].name))
        return _Frameworks(other, is_torch)

    def unverified(self, reach: CallPathSearch, running: Sequence[str]) -> Iterator[Unverified]:
        """Yield the packages that nobody has verified on the target, in the order in which they are imported."""
        importing: dict[str, list[str]] = {}
        first: dict[str, _Package] = {}
        is_whole = not running or self._submodule_added_by(running[0]) is None
        for path in running:
            for package in self._packages(path):
                first.setdefault(package.top, package)
                importing.setdefault(package.top, []).append(path)
        for top, package in first.items():
            if package.name and (is_whole or self._target.package_of_module(top) is not None):
                carries = any(
                    self._computes_with(path, top) and self._surely_imports(reach, path, top) for path in importing[top]
                )
                yield Unverified(package.name, package.place, carries)
        yield from self._loaded_code(reach, running)

    def _loaded_code(self, reach: CallPathSearch, running: Iterable[str]) -> Iterator[Unverified]:
        """Yield the code that a program loads with a model, which nobody has read here."""
        seen: set[str] = set()
        for path in running:
            loaded = self._sources.file(path) if self._may_load_code(path) else None
            for code in loaded_code(*loaded) if loaded is not None else ():
                call_path = reach.call_path(path, code.call, code.when)
                if call_path is not None and call_path.may_be_taken and code.name not in seen:
                    seen.add(code.name)
                    yield Unverified(
                        code.name,
                        f"{path}:{code.call.lineno}",
                        call_path.reachability is Reachability.ALWAYS or code.when is not None,
                    )

    def _may_load_code(self, path: str) -> bool:
        if path not in self._loading:
            text = self._sources.text(path)
            self._loading[path] = "hub.load" in text or "trust_remote_code" in text
        return self._loading[path]

    def _surely_imports(self, reach: CallPathSearch, path: str, top: str) -> bool:
        """Whether a program reaches an import of a package as it is started, whatever the code cannot tell."""
        loaded = self._sources.file(path)
        for external in self._modules.externals.get(path, ()) if loaded is not None else ():
            statement = import_at(loaded[0], external.line) if external.module.partition(".")[0] == top else None  # type: ignore[index]
            call_path = reach.call_path(path, statement, worst=Reachability.ALWAYS) if statement is not None else None
            if call_path is not None and call_path.reachability is Reachability.ALWAYS:
                return True
        return False

    def _computes_with(self, path: str, top: str) -> bool:
        """Whether a file makes or runs a model with a package."""
        if (path, top) not in self._carried:
            loaded = self._sources.file(path)
            self._carried[path, top] = loaded is not None and computes_with(*loaded, top)
        return self._carried[path, top]

    def _found_packages(self, path: str, externals: Sequence[External]) -> tuple[_Package, ...]:
        """Return the packages of others that a file imports, each with its first import."""
        packages: dict[str, _Package] = {}
        for external in externals:
            top = external.module.partition(".")[0]
            if top and top not in packages and not _is_pythons(top) and top not in self._features.compiled:
                packages[top] = _Package(top, self._unverified_name(top, external), f"{path}:{external.line}")
        return tuple(packages.values())

    def _unverified_name(self, top: str, external: External) -> str:
        """Return the name of a package that nobody has verified on the target; empty for any other."""
        backend = self._target.backend
        if top in self._features.built or top in (backend.PLUGIN, backend.IMPORT_NAMESPACE.partition(".")[0]):
            return ""
        if self._features.installed.is_quiet(external.module) or self._features.installed.needs(external.module):
            return ""
        if self._absent.why(external) is not None or self._why_astray(external) is not None:  # the project's
            return ""
        package = self._target.package_of_module(external.module)
        if package is not None and package[1].status != "unknown":
            return ""
        return package[0].name if package is not None else top


def _is_pythons(top: str) -> bool:
    """Whether a module is one of the standard library's."""
    return top in sys.stdlib_module_names or top in _OF_PYTHON_2
