"""What a search for the way from a program to a place holds: where it stands, what it passed, what must still hold."""

from __future__ import annotations

import ast
from collections.abc import Callable

from torchferry.core.record import NamedTuple
from torchferry.programs.model import Need, Step, Way
from torchferry.programs.parameters import Given, Parameter
from torchferry.programs.use_kinds import Place

Unit = tuple[str, int, int, str]
"""A function: its file and place, and the error that is asked for there; a file as a whole has the line 0."""


class Test(NamedTuple):
    """A condition on the way that could not be told yet: it asks for parameters that a call further on gives."""

    path: str
    expression: ast.expr
    wanted: bool


class Passed(NamedTuple):
    """A function or file on a way, passed with no condition left to be told.

    Attributes:
        unit: The function or file.
        steps: How many steps lie between it and the place that is looked for.
        is_free: Whether nothing had to hold so far.
        last: The one that was passed before it; None where there is none.
    """

    unit: Unit
    steps: int
    is_free: bool
    last: Passed | None


class Search:
    """What one search has come to.

    Attributes:
        worst: The least sure way that is asked for.
        error: The exception that the place raises; empty where that is not known.
        is_told: Whether all steps of the way are told: not where it is enough that it may be taken.
        seen: What was asked already.
        passed: The functions and files from which was searched with no condition left to be told.
        waiting: What is still to be looked at, the surest and nearest first.
        is_cut: Whether it ended before everything was looked at.
        last: How sure the way to the last place was that it looked at.
    """

    def __init__(self, worst: Need, error: str) -> None:
        self.worst = worst
        self.error = error
        self.is_told = worst is not Need.CHOSEN
        self.waiting: list[tuple[Need, int, int, Arrival | Way, Passed | None]] = []
        self.is_cut = False
        self.last = Need.ALWAYS
        self.seen: set[object] = set()
        self.passed: set[Unit] = set()
        self._steps: dict[object, dict[object, int]] = {}

    def is_nearer(self, key: object, steps: int) -> bool:
        """Whether something was not met with as few steps before."""
        nearest = self.nearest(None)
        known = nearest.get(key)
        if known is not None and known <= steps:
            return False
        nearest[key] = steps
        return True

    def nearest(self, of: object) -> dict[object, int]:
        """Return with how few steps was met what leads to something, with None what is met whatever it leads to."""
        nearest = self._steps.get(of)
        if nearest is None:
            nearest = self._steps[of] = {}
        return nearest


class Arrival(NamedTuple):
    """Where a search stands, with what lies between that and the place which is looked for.

    Attributes:
        place: Where it stands.
        need: How sure the way is so far.
        steps: The places on it.
        options: What must be said on the command line.
        choices: What must be chosen, and nobody can tell.
        tests: Conditions that a call further on decides.
        given: What the calls on it give to parameters.
        passed: The functions and files on it.
    """

    place: Place
    need: Need = Need.ALWAYS
    steps: tuple[Step, ...] = ()
    options: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    given: tuple[tuple[Parameter, Given], ...] = ()
    passed: Passed | None = None

    @property
    def is_free(self) -> bool:
        """Whether nothing has to hold so far."""
        return self.need is Need.ALWAYS and not (self.tests or self.options or self.choices)

    @property
    def state(self) -> object:
        """All on which it depends what leads here: of two that agree in it, the first one that is met is the better."""
        return (self.place, self.need, self.tests, self.given) if self.tests else (self.place, self.need)

    # much is met on a search, and `_replace` takes several times as long as a new one

    def at(self, place: Place) -> Arrival:
        """Return the arrival at another place."""
        _, need, steps, options, choices, tests, given, passed = self
        return Arrival(place, need, steps, options, choices, tests, given, passed)

    def led_by(self, step: Step) -> Arrival:
        """Return the arrival with one more step."""
        place, need, steps, options, choices, tests, given, passed = self
        return Arrival(place, need, (step, *steps), options, choices, tests, given, passed)

    def passing(self, unit: Unit) -> Arrival:
        """Return the arrival with a function or file that it passes."""
        return Arrival(*self[:-1], passed=Passed(unit, len(self.steps), self.is_free, self.passed))

    def behind(self, before: Way) -> Way:
        """Return the way whose first part is known."""
        return Way(
            max(self.need, before.need),
            (*before.steps, *self.steps),
            tuple(dict.fromkeys((*before.conditions, *self.choices))),
            tuple(dict.fromkeys((*before.options, *self.options))),
        )

    def way(self, texts: Callable[[Test], str]) -> Way:
        """Return the way that is complete here: what could not be told on it depends on a choice."""
        need = max(self.need, Need.CHOSEN) if self.tests else self.need
        conditions = dict.fromkeys((*self.choices, *map(texts, self.tests)))
        return Way(need, self.steps, tuple(conditions), self.options)
