"""From what was not finite in a step to where it came from.

Kinds are ordered: finite, infinite, NaN. A call is an *origin* when its result is worse than all that it was given.
An origin *matters* when something that is not finite reaches the end of the step from it: an infinity that a mask or
an exponential makes finite again does not.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from torchferry.numerics.framework.attribution import Where
from torchferry.numerics.framework.kinds import Kind
from torchferry.numerics.framework.operators import Operator
from torchferry.numerics.framework.statistics import FINITE, NAN


class Result(NamedTuple):
    """One result of a call.

    Attributes:
        operator: What was called.
        where: Where the call belongs.
        parents: Numbers of the results that it was given, by number of the argument; -1 for what no call made.
    """

    operator: Operator
    where: Where
    parents: tuple[int, ...]


def origins(results: Sequence[Result], kinds: Sequence[int], ends: Set[int] | None = None) -> list[int]:
    """Return the numbers of the origins that matter, in the order of the calls.

    Args:
        results: All results of a step, in order.
        kinds: FINITE, INFINITE or NAN for each.
        ends: Results that the step is for, such as gradients; without them, those that nothing took.
    """
    bad = {number for number, kind in enumerate(kinds) if kind != FINITE}
    if not bad:
        return []
    reached: set[int] = set()
    waiting = list(bad & (untaken(results) if ends is None else ends))
    while waiting:
        number = waiting.pop()
        if number in reached:
            continue
        reached.add(number)
        waiting += [parent for parent in results[number].parents if parent >= 0 and kinds[parent] != FINITE]
    return [number for number in sorted(reached) if _is_origin(results[number], kinds[number], kinds)]


def untaken(results: Sequence[Result]) -> set[int]:
    """Return the numbers of the results that no call took."""
    left = set(range(len(results)))
    for result in results:
        left.difference_update(result.parents)
    return left


def _is_origin(result: Result, kind: int, kinds: Sequence[int]) -> bool:
    given = max((kinds[parent] for parent in result.parents if parent >= 0), default=FINITE)
    if kind <= given:
        return False
    if result.operator.kind is Kind.CONSTANT:
        return kind == NAN  # an infinity is what the program puts there
    if result.operator.kind is Kind.MOVE:  # what it moved came from elsewhere, such as another rank; or it was rounded
        return kind != NAN and any(parent >= 0 for parent in result.parents)
    return True
