"""Where functions are used, as one program means it: how surely, what must be said for it, and what is given there.

Many ways of a program lead through one function, with other conditions on each: what it is used by is told once.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from torchferry.programs.around import FunctionNode
from torchferry.programs.arrivals import Test
from torchferry.programs.model import Need, Program
from torchferry.programs.object_calls import calls_of_object
from torchferry.programs.parameters import Given, Parameter
from torchferry.programs.sources import Sources
from torchferry.programs.subcommands import need_of
from torchferry.programs.surroundings import Surroundings
from torchferry.programs.use_kinds import Place, Use
from torchferry.programs.uses import Uses
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


class MeantUse:
    """A place that may call a function, as a program means it.

    Attributes:
        place: The place.
        need: How surely the function is meant there.
        option: What must be said for that; empty for nothing.
        choice: What must be chosen for it; empty for nothing.
        tests: What must hold for it.
    """

    __slots__ = ("_given", "_known", "choice", "need", "option", "place", "tests")

    def __init__(self, place: Place, need: Need, option: str, choice: str, tests: tuple[Test, ...]) -> None:
        self.place = place
        self.need = need
        self.option = option
        self.choice = choice
        self.tests = tests
        self._given: tuple[tuple[Parameter, Given], ...] = ()
        self._known = -1


class MeantUses:
    """Tells for one program where functions are used.

    Args:
        program: The program.
        sources: The project's files.
        closure: The files that the program reaches by imports.
        surroundings: What stands around places.
        uses: Where functions are used, whichever program asks.
        settings: The settings files that the program is started with, or names itself, where that is known.
    """

    def __init__(
        self,
        program: Program,
        sources: Sources,
        closure: Mapping[str, object],
        surroundings: Surroundings,
        uses: Uses,
        settings: Collection[str],
    ) -> None:
        self._program = program
        self._sources = sources
        self._closure = closure
        self._surroundings = surroundings
        self._uses = uses
        self._settings = settings
        self._meant: dict[tuple[str, int, int, bool], list[MeantUse]] = {}
        self._called_as_object: set[Place] = set()
        """Places where objects of torch modules are called, which gives the call to `forward`."""

    def of(self, file: PythonFile, names: Names, unit: FunctionNode, *, as_called: bool) -> list[MeantUse]:
        """Return where the program may call a function.

        Args:
            file: The file of the function.
            names: Its names.
            unit: The function.
            as_called: Whether it is `forward`, of which is asked what the calls give that Python hands on to it.
        """
        key = (file.path, unit.lineno, unit.col_offset, as_called)
        if key not in self._meant:
            found: list[MeantUse] = []
            for use in self._uses.of(file, names, unit):
                each = self._calls_of_made(file, unit, use) if as_called else (use,)
                found += (self._as_meant(one) for one in each if self._counts(one))
            self._meant[key] = found
        return self._meant[key]

    def _counts(self, use: Use) -> bool:
        """Whether a use is in the program, and its settings may ask for it."""
        closure, made, settings = self._closure, use.made, use.settings
        if use.place.path not in closure or (made and not any(path in closure for path in made)):
            return False
        return not settings or not self._settings or settings in self._settings

    def _as_meant(self, use: Use) -> MeantUse:
        place, need, choice, option, asked, others, _, beside, settings = use
        said = need_of(option, others, need, self._program) if option else need
        if settings and asked is None and settings in self._settings:
            said, choice = Need.ALWAYS, ""
        tests = () if asked is None else (Test(place.path, asked, True),)
        tests = (*tests, *(Test(*each) for each in beside)) if beside else tests
        needed = option if option and said is Need.OPTION else ""
        return MeantUse(place, said, needed, choice or (option if option and said is Need.CHOSEN else ""), tests)

    def _calls_of_made(self, file: PythonFile, unit: FunctionNode, use: Use) -> Iterator[Use]:
        """Yield the calls of the object that is made where a class is used, if they are known, or else the use."""
        owner = file.parents.get(unit)
        is_own = isinstance(owner, ast.ClassDef) and use.place.through is None
        calls = calls_of_object(self._uses, use.place, file, owner) if is_own else None  # type: ignore[arg-type]
        self._called_as_object.update(calls or ())
        yield from (use,) if calls is None else (use._replace(place=place) for place in calls)

    def given_at(self, use: MeantUse, file: PythonFile, unit: FunctionNode) -> tuple[tuple[Parameter, Given], ...]:
        """Return what is given at a use to the parameters of the function, as `Surroundings.given_at` does."""
        if use._known != len(self._called_as_object):  # it may have become a place where an object is called
            use._given, use._known = tuple(self._given_at(use.place, file, unit)), len(self._called_as_object)
        return use._given

    def _given_at(self, place: Place, file: PythonFile, unit: FunctionNode) -> Iterator[tuple[Parameter, Given]]:
        if place not in self._called_as_object:
            yield from self._surroundings.given_at(place.path, place.node, file, unit)
            return
        loaded = self._sources.file(place.path)
        call = loaded[0].parents.get(place.node) if loaded is not None and place.node is not None else None
        if isinstance(call, ast.Call):
            yield from self._surroundings.given(file.path, unit, call, place.path, bound=True)
