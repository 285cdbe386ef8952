"""What a gate found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torchferry.core.messages import Message, say
from torchferry.core.record import NamedTuple

LEVELS = ("tokens", "preprocess", "compile")


class GateState(str, Enum):
    """How a gate ended, for one file or as a whole."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"
    """It could not say anything: there is no compiler, or the original does not compile on this machine either."""


@dataclass(frozen=True)
class GateRequest:
    """What is to be examined.

    Attributes:
        level: The last level that is run; those before it are run, too.
        only: Paths of the tree that are compiled; all files that a build would compile where it is empty.
        flags: Flags of the compiler, as for the original: `-DWITH_CUDA`, `-Iinclude`.
        timeout: Seconds by the clock for one call of the compiler.
        default_rules: Whether the target's rules were applied.
    """

    level: str
    only: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    timeout: float = 600.0
    default_rules: bool = True


class FileGate(NamedTuple):
    """What a gate says of one file.

    Attributes:
        path: Of the original, relative to the tree.
        state: How it ended.
        problems: Errors of the port that the original does not have, or why nothing can be said.
        seconds: Processor seconds of the compiler, the original's included.
    """

    path: str
    state: GateState
    problems: tuple[Message, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class GateResult:
    """What one level found.

    Attributes:
        level: One of `LEVELS`.
        state: `PASSED` only where each file passed, and there is one.
        files: Those that were looked at; those that passed the level of the tokens are counted alone.
        passed: How many files passed.
        reason: Why the gate as a whole did not run; None where it did.
        notes: What else is to be known: stand-ins that were used, and for what.
    """

    level: str
    state: GateState
    files: tuple[FileGate, ...]
    passed: int
    reason: Message | None = None
    notes: tuple[Message, ...] = ()


def result_of(level: str, files: tuple[FileGate, ...], passed: int, notes: tuple[Message, ...] = ()) -> GateResult:
    """Return the result of a level from those of its files."""
    states = {file.state for file in files}
    if GateState.FAILED in states:
        state = GateState.FAILED
    elif GateState.NOT_RUN in states or not passed:
        state = GateState.NOT_RUN
    else:
        state = GateState.PASSED
    reason = say("no file of the tree can be examined at this level") if not files and not passed else None
    return GateResult(level, state, files, passed, reason, notes)


def state_text(state: GateState) -> Message:
    """Return a state in the user's language."""
    return {
        GateState.PASSED: say("passed"),
        GateState.FAILED: say("failed"),
        GateState.NOT_RUN: say("nothing proven"),
    }[state]


def proves(level: str) -> Message:
    """What a passed level proves."""
    return {
        "tokens": say("only names and headers changed, each by a rule, and no name that a rule renames is left"),
        "preprocess": say("each header is found, and each macro is complete, as in the original"),
        "compile": say("names, types, templates and launches fit together as in the original"),
    }[level]


def does_not_prove(level: str) -> Message:
    """What a passed level does not prove."""
    return {
        "tokens": say("that the new names exist, and that the code compiles"),
        "preprocess": say("that the code compiles, and that the target has the headers"),
        "compile": say(
            "that the target has these functions with these types, that its compiler takes the code, and that a kernel "
            "computes the same"
        ),
    }[level]
