"""What a gate says: green, red, or not judged, with what was measured and what was wanted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torchferry.core.errors import TorchferryError
from torchferry.core.messages import Message, say, say_in

STAGES = (
    "environment",
    "migration",
    "syntax",
    "loads",
    "runs",
    "numbers",
    "outputs",
    "memory",
    "speed",
    "stability",
    "errors",
    "logs",
    "documents",
)
"""In the order in which they are run and shown."""

TITLES: dict[str, Message] = {
    "environment": say_in("stage", "environment"),
    "migration": say_in("stage", "migration"),
    "syntax": say_in("stage", "syntax"),
    "loads": say_in("stage", "loads"),
    "runs": say_in("stage", "runs to the end"),
    "numbers": say_in("stage", "numbers"),
    "outputs": say_in("stage", "outputs"),
    "memory": say_in("stage", "memory"),
    "speed": say_in("stage", "speed"),
    "stability": say_in("stage", "stability"),
    "errors": say_in("stage", "errors"),
    "logs": say_in("stage", "logs"),
    "documents": say_in("stage", "documents"),
}


class GateStatus(str, Enum):
    """How a gate stands."""

    GREEN = "green"
    RED = "red"
    NOT_JUDGED = "not-judged"


@dataclass(frozen=True)
class Gate:
    """One gate.

    Attributes:
        stage: One of `STAGES`.
        name: `<stage>` or `<stage>.<what>`.
        status: How it stands.
        measured: What was found.
        wanted: What was to be found.
        reason: Why it is red, or why it was not judged.
        value: The figure that decided, if one did.
        limit: What it was held against.
        run: The run that showed it; empty for none.
        needed: What it would take to judge it, where it was not judged.
    """

    stage: str
    name: str
    status: GateStatus
    measured: Message
    wanted: Message
    reason: Message | None = None
    value: float | None = None
    limit: float | None = None
    run: str = ""
    needed: Message | None = None


_NOTHING = say("-")


def reason_of(error: TorchferryError) -> Message:
    """Return what an error says as the reason of a gate: the message, and what to do."""
    if error.advice is None:
        return error.message
    return say("{problem}; {advice}", problem=error.message, advice=error.advice)


class GateMaker:
    """Makes the gates of one stage."""

    def __init__(self, stage: str, run: str = "") -> None:
        self.stage = stage
        self.run = run

    def green(
        self, part: str, measured: Message, wanted: Message, value: float | None = None, limit: float | None = None
    ) -> Gate:
        """Return a gate that is kept."""
        return Gate(self.stage, self._name(part), GateStatus.GREEN, measured, wanted, None, value, limit, self.run)

    def red(
        self,
        part: str,
        measured: Message,
        wanted: Message,
        reason: Message | None = None,
        value: float | None = None,
        limit: float | None = None,
    ) -> Gate:
        """Return a gate that is not kept."""
        return Gate(self.stage, self._name(part), GateStatus.RED, measured, wanted, reason, value, limit, self.run)

    def held(
        self,
        good: bool,
        part: str,
        measured: Message,
        wanted: Message,
        reason: Message | None = None,
        value: float | None = None,
        limit: float | None = None,
    ) -> Gate:
        """Return a gate that is green where `good`, else red for `reason`."""
        if good:
            return self.green(part, measured, wanted, value, limit)
        return self.red(part, measured, wanted, reason, value, limit)

    def unjudged(
        self, part: str, reason: Message, measured: Message | None = None, wanted: Message | None = None
    ) -> Gate:
        """Return a gate that was not judged."""
        return Gate(
            self.stage,
            self._name(part),
            GateStatus.NOT_JUDGED,
            measured or _NOTHING,
            wanted or _NOTHING,
            reason,
            run=self.run,
        )

    def _name(self, part: str) -> str:
        return f"{self.stage}.{part}" if part else self.stage
