"""Finding the checks: every module of `checks`, in the order of their codes' families."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from torchferry.core.messages import Message, say_in
from torchferry.doctor import checks
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result

SIDES = {
    "host": say_in("side", "Host"),
    "container": say_in("side", "Container"),
    "python": say_in("side", "Python"),
    "probe": say_in("side", "Live probe"),
}
"""Where a check looks, in the order of the report."""

_FAMILIES = (
    "driver",
    "node",
    "tool",
    "card",
    "sdk",
    "library",
    "environment",
    "system",
    "container",
    "python",
    "probe",
)


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        code: Family and name: `driver.module`.
        rank: Its place in the family: what others rest on comes first.
        side: One of `SIDES`.
        title: What is looked at, in a few words.
        card: Whether it says nothing without a card or driver of its own, as in a rehearsal.
        about: What is looked at and why.
        run: The check.
    """

    code: str
    rank: int
    side: str
    title: Message
    card: bool
    about: str
    run: Callable[[Patient], Iterator[Result]]


@lru_cache(maxsize=1)
def all_checks() -> tuple[Check, ...]:
    """Return all checks in the order of the report."""
    found = []
    for info in pkgutil.iter_modules(checks.__path__):
        module = importlib.import_module(f"{checks.__name__}.{info.name}")
        found.append(
            Check(
                module.CODE,
                module.RANK,
                module.SIDE,
                module.TITLE,
                getattr(module, "CARD", False),
                " ".join((module.__doc__ or "").split()),
                module.check,
            )
        )
    order = list(SIDES)
    return tuple(sorted(found, key=lambda check: (order.index(check.side), _family(check.code), check.rank)))


def _family(code: str) -> int:
    return _FAMILIES.index(code.partition(".")[0])
