"""The uses of functions from the point of view of one program: reachability, options, choices, and arguments.

Many paths of a program lead through one function, with different conditions on each: its uses are computed once.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from torchferry.programs.call_paths.place_contexts import PlaceContexts
from torchferry.programs.call_paths.search_state import PendingCondition
from torchferry.programs.evaluation.object_calls import calls_of_object
from torchferry.programs.imports.sources import Sources
from torchferry.programs.model import Program, Reachability
from torchferry.programs.options.switches import need_of
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.parameters import BoundArgument, Parameter
from torchferry.programs.syntax.place_context import FunctionNode
from torchferry.programs.syntax.use_syntax import Place, Use
from torchferry.source.names import Names
from torchferry.source.python import PythonFile


class ProgramReference:
    """A place that may call a function of a program.

    Attributes:
        place: The place.
        reachability: How surely the place means the function.
        option: The option that this requires; empty for none.
        choice: The choice that this requires; empty for none.
        tests: The conditions that this requires.
    """

    __slots__ = ("_given", "_known", "choice", "option", "place", "reachability", "tests")

    def __init__(
        self, place: Place, reachability: Reachability, option: str, choice: str, tests: tuple[PendingCondition, ...]
    ) -> None:
        self.place = place
        self.reachability = reachability
        self.option = option
        self.choice = choice
        self.tests = tests
        self._given: tuple[tuple[Parameter, BoundArgument], ...] = ()
        self._known = -1


class ProgramReferences:
    """Finds the uses of functions for one program.

    Args:
        program: The program.
        sources: The project's files.
        closure: The files that the program reaches by imports.
        contexts: The contexts of places.
        uses: The uses of functions, for every program.
        settings: The settings files that the program is started with, or names itself, where they are known.
    """

    def __init__(
        self,
        program: Program,
        sources: Sources,
        closure: Mapping[str, object],
        contexts: PlaceContexts,
        uses: Uses,
        settings: Collection[str],
    ) -> None:
        self._program = program
        self._sources = sources
        self._closure = closure
        self._contexts = contexts
        self._uses = uses
        self._settings = settings
        self._meant: dict[tuple[str, int, int, bool], list[ProgramReference]] = {}
        self._called_as_object: set[Place] = set()
        """Places where objects of torch modules are called, which gives the call to `forward`."""

    def of(self, file: PythonFile, names: Names, unit: FunctionNode, *, as_called: bool) -> list[ProgramReference]:
        """Return the places where the program may call a function.

        Args:
            file: The file of the function.
            names: Its names.
            unit: The function.
            as_called: Whether it is `forward`, whose arguments are those of the calls that Python passes on to it.
        """
        key = (file.path, unit.lineno, unit.col_offset, as_called)
        if key not in self._meant:
            # a class that many files mention is called at the same places: a search looks at the first of those alone
            references: dict[object, ProgramReference] = {}
            for use in self._uses.of(file, names, unit):
                for use_of in self._calls_of_made(file, unit, use) if as_called else (use,):
                    if self._counts(use_of):
                        meant = self._as_meant(use_of)
                        references.setdefault((meant.place, meant.reachability, meant.tests), meant)
            self._meant[key] = [*references.values()]
        return self._meant[key]

    def _counts(self, use: Use) -> bool:
        """Whether a use is in the program, and its settings may select it."""
        closure, makers, settings = self._closure, use.makers, use.settings
        if use.place.path not in closure or (makers and not any(path in closure for path in makers)):
            return False
        return not settings or not self._settings or settings in self._settings

    def _as_meant(self, use: Use) -> ProgramReference:
        place, reachability, choice, option, asked, others, _, also, settings = use
        under_command = need_of(option, others, reachability, self._program) if option else reachability
        if settings and asked is None and settings in self._settings:
            under_command, choice = Reachability.ALWAYS, ""
        tests = () if asked is None else (PendingCondition(place.path, asked, True),)
        tests = (*tests, *(PendingCondition(*each) for each in also)) if also else tests
        needed = option if option and under_command is Reachability.OPTION else ""
        return ProgramReference(
            place,
            under_command,
            needed,
            choice or (option if option and under_command is Reachability.CHOSEN else ""),
            tests,
        )

    def _calls_of_made(self, file: PythonFile, unit: FunctionNode, use: Use) -> Iterator[Use]:
        """Yield the calls of the object that is made where a class is used, if they are known, or else the use."""
        owner = file.parents.get(unit)
        is_own = isinstance(owner, ast.ClassDef) and use.place.through is None
        calls = calls_of_object(self._uses, use.place, file, owner) if is_own else None  # type: ignore[arg-type]
        self._called_as_object.update(calls or ())
        yield from (use,) if calls is None else (use._replace(place=place) for place in calls)

    def given_at(
        self, use: ProgramReference, file: PythonFile, unit: FunctionNode
    ) -> tuple[tuple[Parameter, BoundArgument], ...]:
        """Return the arguments that a use passes to the function, as `PlaceContexts.given_at` does."""
        if use._known != len(self._called_as_object):  # it may have become a place where an object is called
            use._given, use._known = tuple(self._given_at(use.place, file, unit)), len(self._called_as_object)
        return use._given

    def _given_at(
        self, place: Place, file: PythonFile, unit: FunctionNode
    ) -> Iterator[tuple[Parameter, BoundArgument]]:
        if place not in self._called_as_object:
            yield from self._contexts.given_at(place.path, place.node, file, unit)
            return
        loaded = self._sources.file(place.path)
        call = loaded[0].parents.get(place.node) if loaded is not None and place.node is not None else None
        if isinstance(call, ast.Call):
            yield from self._contexts.given(file.path, unit, call, place.path, bound=True)
