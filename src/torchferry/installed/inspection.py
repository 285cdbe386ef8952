"""What the packages that programs reach need, one after the other, and the packages that these run in turn.

A package is opened only when a program, or a module that a program runs, imports it. What its files hold is kept in the
user's cache; what a program runs of it is worked out anew each time, since programs import different parts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator

from torchferry.backends.target import Target
from torchferry.core.messages import say
from torchferry.installed.cache import Cache
from torchferry.installed.distributions import Index, Located
from torchferry.installed.environment import Environment
from torchferry.installed.facts import DistributionFacts, Reader
from torchferry.installed.model import CHOOSING, Evidence, ImportStep, Inspected, PlaceNeed, State, module_of

_MOST_PACKAGES = 20_000
"""Packages that are opened; more than any environment has."""

_MOST_MODULES = 200_000
"""Modules that are followed from import to import."""

_SHARE = 0.25
"""Part of a package's modules with torch that must import its kernels for it to be about them."""

_WEIGHT = 5
"""How many places that choose CUDA a package that knows the target may have for each place that names the target."""

_TORCH = frozenset({"torch", "functorch", "torchgen"})
"""Modules of torch itself, which the target's plugin serves."""

_TRITON = "triton"
"""The package that kernels in Triton are written in, and compiled with."""

_ORDER = (
    PlaceNeed.COMPILED,
    PlaceNeed.IMPORT,
    PlaceNeed.TRITON,
    PlaceNeed.SOURCE,
    *CHOOSING[1:],
    PlaceNeed.GENERATORS,
    PlaceNeed.TARGET,
)


def inspect(
    environment: Environment,
    modules: Iterable[str],
    target: Target,
    *,
    cache: Cache | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> dict[str, Inspected]:
    """Look into the packages that programs import, and those that they run in turn.

    Args:
        environment: Where they lie.
        modules: What programs import, dotted as far as it is known, such as `transformers.models.llama`.
        target: Where the programs are to run.
        cache: Where results are kept; None for nowhere.
        progress: Called with each package when it is opened, and how many are known to wait.

    Returns:
        What was found, by the name of the package, in order. What is not of the environment is not in it: modules of
        the standard library, which come before packages of the same name, torch itself, and what is not installed.
    """
    collecting = gc.isenabled()
    gc.disable()  # trees of syntax are freed without it, and looking through them takes a third of the time
    try:
        return _Inspection(environment, target, cache, progress).all(modules)
    finally:
        if collecting:
            gc.enable()


class _Opened:
    """A package that was opened: what its files hold, and what of it runs."""

    def __init__(self, located: Located, reader: Reader, chain: tuple[ImportStep, ...]) -> None:
        self.located = located
        self.reader = reader
        self.chain = chain
        self.run: set[str] = set()
        self.cached = len(reader.facts.imports)


class _Inspection:
    def __init__(
        self,
        environment: Environment,
        target: Target,
        cache: Cache | None,
        progress: Callable[[str, int], None] | None,
    ) -> None:
        self.index = Index(environment)
        self.target = target
        self.cache = cache
        self.progress = progress
        self.opened: dict[str, _Opened] = {}
        self.unopened: dict[str, Inspected] = {}
        self._located: dict[str, Located | None] = {}
        self._elsewhere: dict[str, bool] = {}

    def all(self, modules: Iterable[str]) -> dict[str, Inspected]:
        todo: list[tuple[str, tuple[ImportStep, ...]]] = [(module, ()) for module in sorted(set(modules), reverse=True)]
        waiting = {module for module, _ in todo}
        followed = 0
        while todo and followed < _MOST_MODULES:
            module, chain = todo.pop()
            waiting.discard(module)
            opened = self.open(module, chain, len(todo))
            if opened is None:
                continue
            for name, path, line in self.running(opened, self.located(module)):
                followed += 1
                if name not in waiting:
                    waiting.add(name)
                    todo.insert(0, (name, (*opened.chain, ImportStep(path, line))))
        for module, chain in todo:
            self.leave(module, chain)
        for opened in self.opened.values():
            self.keep(opened)
        by_package = {package: self.inspected(opened) for package, opened in self.opened.items()}
        return dict(sorted((by_package | self.unopened).items()))

    def located(self, module: str) -> Located | None:
        if module not in self._located:
            self._located[module] = self.index.locate(module) if self.is_of_packages(module) else None
        return self._located[module]

    def is_of_packages(self, module: str) -> bool:
        """Whether a module may come from the environment's packages: Python looks in its own library first."""
        top = module.partition(".")[0]
        return top not in sys.stdlib_module_names and top not in _TORCH

    def is_elsewhere(self, module: str) -> bool:
        """Whether a module lies in another package of the environment, or in an archive of it."""
        elsewhere = self._elsewhere.get(module)
        if elsewhere is None:
            elsewhere = self.located(module) is not None or (
                self.is_of_packages(module) and self.index.archive(module) is not None
            )
            self._elsewhere[module] = elsewhere
        return elsewhere

    def open(self, module: str, chain: tuple[ImportStep, ...], waiting: int) -> _Opened | None:
        located = self.located(module)
        if located is None:
            archive = self.index.archive(module) if self.is_of_packages(module) else None
            if archive is not None:
                top = module.partition(".")[0]
                why = say("it is in the archive {path}, which is not opened", path=archive)
                self.unopened[top] = Inspected(top, top, "", State.UNREAD, chain=chain, problem=why)
            return None
        opened = self.opened.get(located.package)
        if opened is None:
            if len(self.opened) >= _MOST_PACKAGES:
                self.leave(module, chain)
                return None
            if self.progress is not None:
                self.progress(located.package, waiting)
            opened = self.opened[located.package] = _Opened(located, self.read(located), chain)
        return opened

    def leave(self, module: str, chain: tuple[ImportStep, ...]) -> None:
        """Say of a module's package that it was not looked into, since there are too many."""
        located = self.located(module)
        if located is not None and located.package not in self.opened:
            package, distribution = located.package, located.distribution
            why = say("it was not examined: there are too many packages")
            self.unopened[package] = Inspected(
                package, distribution.name, distribution.version, State.UNREAD, chain=chain, problem=why
            )

    def read(self, located: Located) -> Reader:
        reader = Reader(located.distribution, located.package, self.target.words)
        cached = self.cache.load(located.distribution, located.package, self.target) if self.cache else None
        if cached is not None:
            reader.facts = cached
        else:
            reader.read()
        return reader

    def keep(self, opened: _Opened) -> None:
        """Keep what was learned of a package: its files, and the imports that were looked at."""
        facts = opened.reader.facts
        if self.cache is not None and (not opened.cached or len(facts.imports) > opened.cached):
            self.cache.store(opened.located.distribution, opened.located.package, self.target, facts)

    # --- what runs ---

    def running(self, opened: _Opened, located: Located | None) -> Iterator[tuple[str, str, int]]:
        """Mark what runs when a module is imported, and yield what that imports from elsewhere, with the place."""
        assert located is not None
        package = opened.located.package
        modules = located.distribution.modules
        todo = [*_with_packages(located.module, package)]
        while todo:
            module = todo.pop()
            if module in opened.run or module not in modules:
                continue
            opened.run.add(module)
            for imported in opened.reader.imports(module):
                name = imported.module
                if name == package or name.startswith(f"{package}."):
                    todo += _with_packages(_deepest(name, modules), package)
                elif self.is_elsewhere(name):
                    yield name, modules[module], imported.line

    # --- what it means ---

    def inspected(self, opened: _Opened) -> Inspected:
        located, facts = opened.located, opened.reader.facts
        distribution = located.distribution
        central = self.is_about_kernels(opened)
        fails = self.import_fails(opened)
        state = self.state(facts, central)
        evidence = sorted(
            facts.evidence,
            key=lambda item: (_ORDER.index(item.need), module_of(item.path) not in opened.run, item.path, item.line),
        )
        return Inspected(
            package=located.package,
            distribution=distribution.name,
            version=distribution.version,
            state=state,
            evidence=tuple(evidence),
            counts=tuple(sorted(facts.counts.items(), key=lambda item: _ORDER.index(item[0]))),
            run=frozenset(opened.run),
            chain=opened.chain,
            import_fails=fails,
            optional_kernels=bool(_count(facts, PlaceNeed.TRITON, PlaceNeed.SOURCE)) and not central,
            python=facts.python,
            unread=tuple(facts.unread),
            unread_count=facts.unread_count,
            problem=distribution.problem,
            editable=distribution.editable,
        )

    def state(self, facts: DistributionFacts, central: bool) -> State:
        if facts.unread_count and not facts.python and not facts.evidence:
            return State.UNREAD
        if _count(facts, PlaceNeed.COMPILED) or central:
            return State.KERNELS
        choosing = _count(facts, *CHOOSING)
        if self.imports_plugin(facts) or _count(facts, PlaceNeed.TARGET) * _WEIGHT >= max(choosing, 1):
            return State.KNOWS
        if choosing:
            return State.CHOOSES
        if facts.unread_count * 10 > facts.python:
            return State.UNREAD
        return State.FOLLOWS if facts.torch else State.HOST

    def imports_plugin(self, facts: DistributionFacts) -> bool:
        """Whether the code names the target's plugin, which nobody does by the way."""
        plugin = self.target.backend.PLUGIN
        return any(item.need is PlaceNeed.TARGET and plugin in item.what for item in facts.evidence)

    def is_about_kernels(self, opened: _Opened) -> bool:
        """Whether kernels run when the package is imported, or most of what it does with torch imports them."""
        facts = opened.reader.facts
        if opened.located.package == _TRITON:
            return True
        sources = sum(item.need is PlaceNeed.SOURCE and not item.line for item in facts.evidence)
        if sources > _SHARE * (len(facts.torch) or facts.python) and not _count(facts, PlaceNeed.TARGET):
            return True
        package, modules = opened.located.package, opened.located.distribution.modules
        kernels = {
            module_of(item.path) for item in facts.evidence if item.need is PlaceNeed.TRITON and not item.optional
        }
        if not kernels or kernels & opened.run:
            return bool(kernels)
        importers: dict[str, list[str]] = {}
        for module in facts.torch:
            for imported in opened.reader.imports(module):
                if imported.module.startswith(f"{package}."):
                    importers.setdefault(_deepest(imported.module, modules), []).append(module)
        reached = set(kernels)
        todo = list(kernels)
        while todo:
            for module in importers.get(todo.pop(), ()):
                if module not in reached:
                    reached.add(module)
                    todo.append(module)
        return len(reached & set(facts.torch)) > _SHARE * len(facts.torch)

    def import_fails(self, opened: _Opened) -> Evidence | None:
        """Return the compiled module that the import of a package loads and that cannot be loaded without CUDA."""
        compiled = {
            item.where: item for item in opened.reader.facts.evidence if item.need is PlaceNeed.COMPILED and item.where
        }
        for module in sorted(opened.run):
            if module in compiled:
                return compiled[module]
            for imported in opened.reader.imports(module):
                if imported.module in compiled:
                    return compiled[imported.module]
        return None


def _count(facts: DistributionFacts, *needs: PlaceNeed) -> int:
    return sum(facts.counts.get(need, 0) for need in needs)


def _deepest(name: str, modules: dict[str, str]) -> str:
    """Return the module that a dotted name means: a name in a module is that module."""
    while name not in modules and "." in name:
        name = name.rpartition(".")[0]
    return name


def _with_packages(module: str, package: str) -> Iterator[str]:
    """Yield a module and the packages around it, which run before it."""
    while len(module) >= len(package):
        yield module
        module = module.rpartition(".")[0]
