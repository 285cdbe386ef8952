"""The budget of steps for one file: what is counted, not timed, so every machine ends at the same place.

Linear readers need none. Where the work for one place of a file depends on how much else the file holds (a variable's
bindings, the keys that lead to a value), a file can be written that never ends. Such work is spent from the budget, and
a file that spends all of it is reported as not examined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torchferry.core.messages import Message, say

STEPS = 5_000_000
"""Steps that one file may take; the largest of public projects take some hundred thousand."""

DEEPEST = 500
"""Levels of nesting that are read; no document that a person or a tool makes has as many."""


class TooCostlyError(Exception):
    """A file is not examined to its end: it would take more than its budget; `message` says of what."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.render("en"))
        self.message = message


class _Budget:
    __slots__ = ("left", "paid")

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.paid: set[KeptWork] = set()


_current: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget_for_file(steps: int = STEPS) -> Iterator[None]:
    """Count the steps within: more of them end in `TooCostlyError`."""
    token = _current.set(_Budget(steps))
    try:
        yield
    finally:
        _current.reset(token)


def spend(steps: int = 1) -> None:
    """Spend steps of the file that is examined.

    Raises:
        TooCostlyError: the file has spent its budget.
    """
    budget = _current.get()
    if budget is not None:
        budget.left -= steps
        if budget.left < 0:
            raise TooCostlyError(
                say("too costly, not examined: the limit of steps for a file is {limit}; split the file", limit=STEPS)
            )


class KeptWork:
    """The steps of work whose result is kept: each file that asks for it spends them once, whichever asked first."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0

    def spend(self, steps: int) -> None:
        """Spend steps of the file that has the work done.

        Raises:
            TooCostlyError: the file has spent its budget.
        """
        self.steps += steps
        budget = _current.get()
        if budget is not None:
            budget.paid.add(self)
        spend(steps)

    def ask(self) -> None:
        """Spend all steps, if the file that is examined has not spent them yet.

        Raises:
            TooCostlyError: the file has spent its budget.
        """
        budget = _current.get()
        if budget is not None and self not in budget.paid:
            budget.paid.add(self)
            spend(self.steps)


def refuse_nesting() -> None:
    """Refuse the file that is examined, as it is nested more deeply than is read; do nothing where none is.

    Raises:
        TooCostlyError: a file is examined.
    """
    if _current.get() is not None:
        raise TooCostlyError(say("too costly, not examined: the limit of nested levels is {limit}", limit=DEEPEST))
