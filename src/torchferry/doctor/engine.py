"""Running the checks over a patient."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from torchferry.core.errors import UsageError
from torchferry.core.messages import say
from torchferry.doctor.context import Patient
from torchferry.doctor.registry import Check, all_checks
from torchferry.doctor.result import Result, Status, skipped, unknown


@dataclass(frozen=True)
class Diagnosis:
    """What was found on a machine.

    Attributes:
        patient: The machine and the target.
        results: In the order of the checks.
    """

    patient: Patient
    results: tuple[Result, ...]

    def count(self, status: Status) -> int:
        """Return how many results have a status."""
        return sum(result.status is status for result in self.results)

    @property
    def well(self) -> bool:
        """Whether nothing failed."""
        return self.count(Status.FAILURE) == 0


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


def examine(patient: Patient, checks: Iterable[Check]) -> Diagnosis:
    """Run the checks. A check that breaks is reported as unknown, and the others go on."""
    patient.ask()
    results: list[Result] = []
    for check in checks:
        if check.side == "probe" and patient.probe is None:
            continue
        results += [replace(result, code=check.code) for result in _results(patient, check)]
    return Diagnosis(patient, tuple(results))


def _results(patient: Patient, check: Check) -> list[Result]:
    if check.card and patient.rehearsed:
        return [skipped(say("a rehearsal has no card and no driver"))]
    try:
        return list(check.run(patient))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return [unknown(say("this check could not be made: {error}", error=f"{type(error).__name__}: {error}"))]
