"""What a check found: its status, the cause, and the command that mends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from torchferry.core.messages import Bilingual, Message, say


class CheckStatus(str, Enum):
    """How a check ended, the worst first."""

    FAILURE = "failure"
    WARNING = "warning"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    OK = "ok"


class Missing(str, Enum):
    """What is not there, where several checks fail for want of the same thing."""

    CARD = "card"
    DRIVER = "driver"
    TOOLKIT = "toolkit"
    PLUGIN = "plugin"


@dataclass(frozen=True)
class Remedy:
    """A fix that is safe to apply: it only adds, and one line takes it back.

    Attributes:
        kind: `folder` makes a folder; `line` adds a line to the file that the user names.
        text: The folder, or the line.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Result:
    """One thing that a check found.

    Attributes:
        status: How it ended.
        what: What was found.
        cause: Why; every failure has one.
        commands: What mends it, to be typed; every failure has one.
        advice: What no command can say.
        source: Where a fact that decided comes from.
        evidence: Lines of a tool's output.
        remedy: What `--fix` may do.
        missing: What is not there, where other checks may fail by the same.
        code: The check's code; the engine fills it in.
    """

    status: CheckStatus
    what: Message
    cause: Message | Bilingual | None = None
    commands: tuple[str, ...] = ()
    advice: Message | Bilingual | None = None
    source: str = ""
    evidence: tuple[str, ...] = ()
    remedy: Remedy | None = None
    missing: Missing | None = None
    code: str = field(default="", compare=False)


def passed(what: Message, *, source: str = "") -> Result:
    """Return a result that is well."""
    return Result(CheckStatus.OK, what, source=source)


def failed(
    what: Message,
    cause: Message | Bilingual,
    *commands: str,
    advice: Message | Bilingual | None = None,
    source: str = "",
    evidence: tuple[str, ...] = (),
    remedy: Remedy | None = None,
    missing: Missing | None = None,
) -> Result:
    """Return a failure: with it, programs do not run on the card."""
    return Result(CheckStatus.FAILURE, what, cause, commands, advice, source, evidence, remedy, missing)


def warned(
    what: Message,
    cause: Message | Bilingual,
    *commands: str,
    advice: Message | Bilingual | None = None,
    source: str = "",
    evidence: tuple[str, ...] = (),
    remedy: Remedy | None = None,
    missing: Missing | None = None,
) -> Result:
    """Return a warning: programs may run, and something is likely to go wrong."""
    return Result(CheckStatus.WARNING, what, cause, commands, advice, source, evidence, remedy, missing)


def unknown(
    what: Message,
    *commands: str,
    advice: Message | Bilingual | None = None,
    source: str = "",
    evidence: tuple[str, ...] = (),
) -> Result:
    """Return what could not be judged; never taken for well."""
    return Result(CheckStatus.UNKNOWN, what, None, commands, advice, source, evidence)


def unverified(fact: Message) -> Result:
    """Return the result for a fact that nobody has verified."""
    return Result(CheckStatus.UNKNOWN, say("not judged: for this target nobody has verified {fact}", fact=fact))


def skipped(what: Message) -> Result:
    """Return a check that does not apply here, with the reason."""
    return Result(CheckStatus.SKIPPED, what)
