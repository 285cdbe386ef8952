"""What a check is: the function that looks, and what a report says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from torchferry.core.messages import Message, say_in
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result

Side = Literal["host", "container", "python", "probe"]

SIDES: dict[Side, Message] = {
    "host": say_in("side", "Host"),
    "container": say_in("side", "Container"),
    "python": say_in("side", "Python"),
    "probe": say_in("side", "Live probe"),
}
"""Where a check looks, in the order of the report."""

Run = Callable[[CheckContext], Iterator[Result]]


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        code: Family and name: `driver.module`.
        rank: Its place in the family: what others rest on comes first.
        side: Where it looks.
        title: What is looked at, in a few words.
        run: The function that looks and yields results.
        needs_card: Whether it says nothing without a card or driver of its own, as in a rehearsal.
    """

    code: str
    rank: int
    side: Side
    title: Message
    run: Run
    needs_card: bool = False


def check(code: str, *, rank: int, side: Side, title: Message, needs_card: bool = False) -> Callable[[Run], Check]:
    """Make a check of the function below; see `Check` for the arguments."""

    def make(run: Run) -> Check:
        return Check(code, rank, side, title, run, needs_card)

    return make
