"""What the tools of the server answer: the SDK makes each of these a schema that the client can check."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class ProgramVerdict(BaseModel):
    """One program of a project."""

    name: str
    verdict: str = Field(description="ready, fixes, decisions, without, blocked or unjudged")
    summary: str
    reasons: list[str] = Field(description="What stands in the way, each with the chain of places that leads to it")


class FoundPlace(BaseModel):
    """One place that a rule found."""

    place: str = Field(description="path:line:column")
    code: str = Field(description="The rule; explain_rule says more")
    grade: str = Field(description="safe or unsafe: a fix exists; manual: a person decides; note: stays on purpose")
    blocks: bool = Field(description="The project cannot run on the target before this is settled")
    message: str


class ScanAnswer(BaseModel):
    """What a project needs to run on a target."""

    verdict: str
    summary: str
    programs: list[ProgramVerdict]
    counts: dict[str, int] = Field(description="Findings by grade")
    findings: list[FoundPlace] = Field(description="What blocks first, notes last")
    findings_left_out: int = Field(description="Findings beyond the limit that was asked for")
    remarks: list[str]


class FixAnswer(BaseModel):
    """What the fixes change."""

    written: bool = Field(description="False: this is a preview, no file was changed")
    files: list[str]
    diff: str = Field(description="Unified diff; cut at the length that was asked for")
    diff_left_out: int = Field(description="Characters of the diff beyond the limit")
    remaining: list[FoundPlace] = Field(description="What is left for a person; filled after writing")
    told: list[str]


class TextAnswer(BaseModel):
    """An answer in words."""

    text: str
    exit_code: int


class RehearsalAnswer(BaseModel):
    """How a command ended on the simulated card. It says nothing about speed or accuracy on the card."""

    exit_code: int
    would_fail: bool = Field(description="It did something that would fail on the card")
    outcome: str = Field(
        description="would fail; goes on without (the card refuses something that the program catches); failed by "
        "itself; not rehearsed; nothing ran (on the device); on the cpu; nothing seen"
    )
    summary: dict[str, Any] = Field(description="What the simulated card saw, as `rehearse --summary-file` writes it")
    output: str = Field(description="The end of what the command printed")


class DoctorAnswer(BaseModel):
    """What the examination of this machine found for a target's cards."""

    ok: bool
    counts: dict[str, int]
    failures: list[str] = Field(description="Each with its cause and the command that mends it")


class ComparisonAnswer(BaseModel):
    """Where two recorded runs differ."""

    equal: bool
    report: dict[str, Any] = Field(description="As `compare diff -f json` writes it")


class LogsAnswer(BaseModel):
    """What failed in the logs of a run."""

    failed: bool
    known: bool = Field(description="Whether a table knows what failed first; where not, no cause is said")
    complete: bool = Field(description="Whether all was read; where not, `failed` false does not say that all is well")
    report: dict[str, Any] = Field(
        description="As `explain -f json` writes it: first, the message to act on; causes, what failed later; "
        "consequences, what follows from it"
    )
