"""The classes that a program never or perhaps never instantiates: each place that would is conditional."""

from __future__ import annotations

import ast
from collections.abc import Container

from torchferry.programs.call_paths.place_contexts import PlaceContexts
from torchferry.programs.evaluation.conditions import Conditions
from torchferry.programs.imports.sources import Sources, current
from torchferry.programs.options.answers import Answer, Truth
from torchferry.programs.references.uses import Uses
from torchferry.programs.syntax.use_syntax import Place
from torchferry.source.names import Names
from torchferry.source.python import PythonFile

_MOST_PLACES = 20
"""Places that may make objects of a class; where there are more, one of them is taken to be run."""


class UnmadeClasses:
    """Finds the condition that keeps a program from instantiating a class, or perhaps keeps it.

    Args:
        sources: The project's files.
        closure: The files that the program reaches by imports.
        conditions: Evaluates conditions for the program.
        contexts: The contexts of places.
        uses: The uses of classes.
    """

    def __init__(
        self,
        sources: Sources,
        closure: Container[str],
        conditions: Conditions,
        contexts: PlaceContexts,
        uses: Uses,
    ) -> None:
        self._sources = sources
        self._closure = closure
        self._conditions = conditions
        self._contexts = contexts
        self._uses = uses
        self._answers: dict[ast.ClassDef, Answer | None] = {}

    def answer(self, file: PythonFile, names: Names, owner: ast.ClassDef) -> Answer | None:
        """Return the answer by which no object of a class is made, an open one where a choice decides; else None."""
        if owner not in self._answers:
            self._answers[owner] = self._found(file, names, owner) if self._is_made_by_name(owner) else None
        return self._answers[owner]

    def _found(self, file: PythonFile, names: Names, owner: ast.ClassDef) -> Answer | None:
        places = [use.place for use in self._uses.of(file, names, owner) if use.place.path in self._closure]
        answers: list[Answer] = []
        for place in places if len(places) <= _MOST_PLACES else ():
            answer = self._passed_over(place)
            if answer is None:
                return None
            answers.append(answer)
        return min(answers, key=lambda each: (each.truth is not Truth.UNKNOWN, each.guard), default=None)

    def _is_made_by_name(self, owner: ast.ClassDef) -> bool:
        """Whether objects of a class are made by its name alone: it is not derived from, kept, or named in a text."""
        words, facts = self._sources.words, self._conditions.facts
        return not (
            owner.decorator_list
            or any(words.says(path, owner.name) for path in words.holding(owner.name))
            or any(facts.deriving(owner.name))
            or facts.config.files.names_class(owner.name)
        )

    def _passed_over(self, place: Place) -> Answer | None:
        """Return the answer by which a place is passed over, or may be: that of a condition around it; else None."""
        loaded = self._sources.file(place.path) if place.node is not None else None
        if loaded is None or place.node is None:
            return None
        undecided: Answer | None = None
        for test, wanted in self._contexts.of(loaded[0], current(loaded[0], place.node)).tests:
            answer, _ = self._conditions.evaluate(*loaded, test)
            if answer.truth is Truth.UNKNOWN:
                undecided = undecided or answer._replace(
                    option=self._contexts.condition(place.path, test, wanted=wanted)
                )
            elif (answer.truth is Truth.YES) != wanted:
                return answer
        return undecided
