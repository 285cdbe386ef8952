"""What the packages of an environment need, for the programs that import them.

A table speaks of a package on the target, and comes first where it knows it: a build for CUDA is what one expects where
a program runs on CUDA today. Of what no table knows, the package itself says what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchferry.backends.cuda import NEEDING_KINDS
from torchferry.backends.target import Target
from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple
from torchferry.installed.describing import evidence_message
from torchferry.installed.model import CHOOSING, Evidence, Inspected, State, module_of
from torchferry.programs.model import Source, Step

_QUIET = frozenset({State.HOST, State.FOLLOWS, State.KNOWS})
"""What needs no look: it has nothing to do with CUDA, takes the device that it is given, or knows the target."""


class PackageRequirement(NamedTuple):
    """What the import of a package reaches that the target does not have, or may not have.

    Attributes:
        what: The package that needs it.
        stops: Whether the import fails without it; otherwise a person must look.
        message: What it is.
        steps: From the import to the place, in packages.
        source: Where it is known from.
    """

    what: str
    stops: bool
    message: Message
    steps: tuple[Step, ...]
    source: Source


class PackageRequirements:
    """Answers for the packages of an environment.

    Args:
        packages: What was found in those that the project reaches.
        target: Where it is to run.
    """

    def __init__(self, packages: Iterable[Inspected], target: Target) -> None:
        self.target = target
        self._by_name = {package.package: package for package in packages}
        self._beyond: dict[str, list[Inspected]] = {}
        self._needs: dict[str, tuple[PackageRequirement, ...]] = {}
        for package in self._by_name.values():
            first = self._of(module_of(package.chain[0].path)) if package.chain else None
            if first is not None:
                self._beyond.setdefault(first.package, []).append(package)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def is_there(self, module: str) -> bool:
        """Whether the environment has the package of a module, and it could be read."""
        package = self._of(module)
        return package is not None and package.state is not State.UNREAD

    def is_quiet(self, module: str) -> bool:
        """Whether the environment shows that a package needs no look, and neither do those that it imports."""
        package = self._of(module)
        return package is not None and package.state in _QUIET and not self.needs(module)

    def needs(self, module: str) -> tuple[PackageRequirement, ...]:
        """Return what the import of a module comes to, where no table answers for its package."""
        package = self._of(module)
        if package is None or self._is_known(module):
            return ()
        if package.package not in self._needs:
            self._needs[package.package] = tuple(self._needed(package))
        return self._needs[package.package]

    def _of(self, module: str) -> Inspected | None:
        while module:
            if module in self._by_name:
                return self._by_name[module]
            module = module.rpartition(".")[0]
        return None

    def _is_known(self, module: str) -> bool:
        package = self.target.package_of_module(module)
        return package is not None and package[1].status != "unknown"

    def _needed(self, package: Inspected) -> Iterator[PackageRequirement]:
        own = self._own(package)
        if own is not None:
            yield own
        for inner in self._beyond.get(package.package, ()):
            steps = tuple(Step(step.path, step.line) for step in inner.chain)
            known_package = self.target.package_of_module(inner.package)
            if known_package is None or known_package[1].status == "unknown":
                need = self._own(inner, indirect=True)
                if need is not None:
                    yield need._replace(steps=(*steps, *need.steps))
            elif (
                known_package[1].status == "missing"
                and known_package[0].kind in NEEDING_KINDS
                and known_package[0].names is None
            ):
                message = say("`{package}` imports `{name}`", package=package.package, name=known_package[0].name)
                yield PackageRequirement(known_package[0].name, True, message, steps, Source.TABLE)

    def _own(self, package: Inspected, *, indirect: bool = False) -> PackageRequirement | None:
        """Return what a package needs by itself; of one that another imports, only what is about kernels."""
        if package.import_fails is not None:
            return _need(package, package.import_fails, stops=True)
        if package.state is State.KERNELS and package.evidence:
            return _need(package, package.evidence[0], stops=False)
        if package.state is State.CHOOSES and not indirect:
            ran = (place for place in package.evidence if place.need in CHOOSING and package.runs(place))
            place = next(ran, None)
            return _need(package, place, stops=False) if place is not None else None
        return None


def _need(package: Inspected, place: Evidence, *, stops: bool) -> PackageRequirement:
    name = f"{package.package} {package.version}".rstrip()
    message = say("`{name}`, as it is installed: {reason}", name=name, reason=evidence_message(place))
    return PackageRequirement(package.package, stops, message, (Step(place.path, place.line),), Source.ENVIRONMENT)
