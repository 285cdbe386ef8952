"""Running the checks over a patient."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.core.progress import counted, doing
from torchferry.doctor.check import Check
from torchferry.doctor.context import CheckContext
from torchferry.doctor.registry import all_checks
from torchferry.doctor.result import CheckStatus, Result, skipped, unknown


@dataclass(frozen=True)
class Diagnosis:
    """What was found on a machine.

    Attributes:
        context: The machine and the target.
        results: In the order of the checks.
    """

    context: CheckContext
    results: tuple[Result, ...]

    def count(self, status: CheckStatus) -> int:
        """Return how many results have a status."""
        return sum(result.status is status for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return self.count(CheckStatus.FAILURE) == 0


def choose(select: Iterable[str]) -> tuple[Check, ...]:
    """Return the checks that are named by code or family; all when none is named.

    Raises:
        UsageError: a name is neither.
    """
    wanted = tuple(select)
    for name in wanted:
        if not any(_named(check, name) for check in all_checks()):
            raise _unknown(name)
    return tuple(check for check in all_checks() if not wanted or any(_named(check, name) for name in wanted))


def _unknown(name: str) -> UsageError:
    names = {part for check in all_checks() for part in (check.code, check.code.partition(".")[0], check.side)}
    near = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
    near += sorted(code for code in names if name and name in code and code not in near)[: 3 - len(near)]
    return UsageError(
        say("there is no check or family `{name}`", name=name),
        say("did you mean {names}? `torchferry doctor --list` lists them all", names=", ".join(near))
        if near
        else say("`torchferry doctor --list` lists them"),
    )


def _named(check: Check, name: str) -> bool:
    return name in (check.code, check.side) or check.code.startswith(f"{name}.")


def examine(context: CheckContext, checks: Iterable[Check]) -> Diagnosis:
    """Run the checks. A check that breaks is reported as unknown, and the others go on."""
    with doing(say("asking Python and the driver")):
        context.prefetch()
    results: list[Result] = []
    for check in counted(say("examining the machine"), tuple(checks)):
        if check.side == "probe" and context.probe is None:
            continue
        results += [replace(result, code=check.code) for result in _results(context, check)]
    return Diagnosis(context, tuple(results))


def _results(context: CheckContext, check: Check) -> list[Result]:
    if check.needs_card and context.rehearsed:
        return [skipped(say("a rehearsal has no card and no driver"))]
    try:
        return list(check.run(context))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return [unknown(say("this check could not run: {error}", error=f"{type(error).__name__}: {error}"))]
