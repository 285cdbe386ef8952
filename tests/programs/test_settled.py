"""A verdict and a run of the same program: which of them holds, and when both cannot be true."""

from __future__ import annotations

import pytest

from torchferry.core.finding import Finding, Grade, Location
from torchferry.core.messages import say
from torchferry.programs.model import (
    CallPath,
    JudgedProgram,
    Obstacle,
    Program,
    Reachability,
    RunEnding,
    RunOutcome,
    Step,
    Unread,
    Unverified,
    Verdict,
)
from torchferry.programs.verdicts.after_rehearsal import after_rehearsal
from torchferry.programs.verdicts.blocking import rewritten


def at(line: int) -> Location:
    return Location("train.py", line, 1, line, 1)


def lacking(what: str, need: Reachability = Reachability.ALWAYS, line: int = 3) -> Obstacle:
    return Obstacle(what, "DEP101", at(line), say("nothing was written"), CallPath(need, (Step("train.py", line),)))


PROGRAM = Program("train.py")
READY = JudgedProgram(PROGRAM, Verdict.READY)
FIXES = JudgedProgram(PROGRAM, Verdict.FIXES, fixes=3)
BLOCKED = JudgedProgram(PROGRAM, Verdict.BLOCKED, blockers=(lacking("flash_attn"),), fixes=3)
WITHOUT = JudgedProgram(PROGRAM, Verdict.WITHOUT, optional=(lacking("flash_attn", Reachability.GUARDED),))
CHOSEN = JudgedProgram(PROGRAM, Verdict.MAY_NEED, optional=(lacking("flash_attn", Reachability.CHOSEN),))
DECISIONS = JudgedProgram(PROGRAM, Verdict.DECISIONS, fixes=3, decisions=(at(8),))
OPTIONAL = DECISIONS._replace(optional=WITHOUT.optional)
UNREAD = JudgedProgram(PROGRAM, Verdict.NOT_JUDGED, unread=(Unread("a.py", say("nothing was written")),))
UNVERIFIED = FIXES._replace(unverified=(Unverified("flash-linear", "train.py:1"),))

WELL = RunOutcome("python train.py", RunEnding.WELL, say("nothing was written"))
OPERATOR = WELL._replace(
    ending=RunEnding.CARD, what="aten::foo", kind="missing-operator", place="model.py:7", exit_code=1
)
REMNANT = OPERATOR._replace(what="cuda", kind="cuda-remnant")
PACKAGE = OPERATOR._replace(what="flash_attn.ops", kind="package", place="other.py:1")


@pytest.mark.parametrize(
    ("static", "seen", "verdict", "decides", "is_fault"),
    [
        (READY, WELL, Verdict.READY, True, False),
        (FIXES, WELL, Verdict.FIXES, True, False),
        (WITHOUT, WELL, Verdict.WITHOUT, True, False),
        (DECISIONS, WELL, Verdict.FIXES, True, False),
        (OPTIONAL, WELL, Verdict.WITHOUT, True, False),
        (UNREAD, WELL, Verdict.READY, True, False),
        (BLOCKED, WELL, Verdict.FIXES, True, True),
        # what the machine has is no proof that the card has it
        (BLOCKED, WELL._replace(imported=frozenset({"flash_attn"})), Verdict.BLOCKED, False, False),
        (BLOCKED, WELL._replace(imported=frozenset({"flash"})), Verdict.FIXES, True, True),
        # a run that never came to the card says nothing of what has to change for it
        (FIXES, WELL._replace(on_card=False), Verdict.FIXES, False, False),
        (BLOCKED, WELL._replace(on_card=False), Verdict.BLOCKED, False, False),
        (READY, WELL._replace(on_card=False), Verdict.READY, True, False),
        (READY, OPERATOR, Verdict.BLOCKED, True, True),
        (FIXES, OPERATOR, Verdict.BLOCKED, True, True),
        (DECISIONS, OPERATOR, Verdict.BLOCKED, True, True),
        (DECISIONS, OPERATOR._replace(place="train.py:8"), Verdict.BLOCKED, True, False),
        (BLOCKED, OPERATOR, Verdict.BLOCKED, True, False),
        (UNREAD, OPERATOR, Verdict.BLOCKED, True, False),
        (FIXES, REMNANT, Verdict.DECISIONS, True, True),
        (DECISIONS, REMNANT._replace(place="train.py:8"), Verdict.DECISIONS, True, False),
        (DECISIONS, REMNANT._replace(place="train.py:9"), Verdict.DECISIONS, True, True),
        (BLOCKED, PACKAGE, Verdict.BLOCKED, True, False),
        (WITHOUT, PACKAGE, Verdict.BLOCKED, True, True),
        (CHOSEN, PACKAGE, Verdict.BLOCKED, True, False),
        # no verdict from the code speaks of sizes
        (FIXES, OPERATOR._replace(kind="out-of-memory"), Verdict.BLOCKED, True, False),
        (UNVERIFIED, OPERATOR._replace(package="flash_linear"), Verdict.BLOCKED, True, False),
        (UNVERIFIED, OPERATOR._replace(package="other"), Verdict.BLOCKED, True, True),
    ],
)
def test_what_holds(static: JudgedProgram, seen: RunOutcome, verdict: Verdict, decides: bool, is_fault: bool) -> None:
    found = after_rehearsal(static, seen)
    assert found.settled is not None
    assert (found.verdict, found.settled.decides, found.settled.fault is not None) == (verdict, decides, is_fault)
    assert found.settled.static == static


@pytest.mark.parametrize("static", [READY, FIXES, BLOCKED, WITHOUT, DECISIONS, UNREAD])
def test_what_settles_nothing_changes_nothing(static: JudgedProgram) -> None:
    found = after_rehearsal(static, WELL._replace(ending=RunEnding.NOTHING, exit_code=None))
    assert found._replace(settled=None) == static


def test_the_way_to_what_was_seen() -> None:
    (blocker,) = after_rehearsal(FIXES, OPERATOR).blockers
    assert (blocker.what, [str(step) for step in blocker.call_path.steps]) == (
        "aten::foo",
        ["train.py:1", "model.py:7"],
    )
    (known,) = after_rehearsal(BLOCKED, PACKAGE).blockers
    assert known == BLOCKED.blockers[0]


def test_decisions_that_a_run_did_without_are_told() -> None:
    found = after_rehearsal(DECISIONS, WELL)
    assert found.settled is not None
    assert found.decisions == ()
    assert "1" in found.settled.seen.notes[0].render("en")


@pytest.mark.parametrize(
    ("static", "remaining", "verdict", "decisions"),
    [
        (READY, [], Verdict.READY, 0),
        (FIXES, [], Verdict.READY, 0),
        (FIXES, [Grade.UNSAFE], Verdict.FIXES, 0),
        (DECISIONS, [], Verdict.READY, 0),
        (DECISIONS, [Grade.SAFE], Verdict.FIXES, 0),
        (DECISIONS, [Grade.MANUAL], Verdict.DECISIONS, 1),
        (DECISIONS._replace(unresolved=(at(8),)), [], Verdict.DECISIONS, 1),
        (OPTIONAL, [], Verdict.WITHOUT, 0),
        (WITHOUT, [], Verdict.WITHOUT, 0),
        (CHOSEN, [], Verdict.MAY_NEED, 0),
        (BLOCKED, [], Verdict.BLOCKED, 0),
        (UNREAD, [], Verdict.NOT_JUDGED, 0),
    ],
)
def test_what_is_left_of_a_verdict_when_files_are_rewritten(
    static: JudgedProgram, remaining: list[Grade], verdict: Verdict, decisions: int
) -> None:
    left = [Finding("DEV101", at(8), say("nothing was written"), grade) for grade in remaining]
    (judged,) = rewritten([static._replace(reached=("train.py",))], left)
    assert (judged.verdict, len(judged.decisions), judged.optional) == (verdict, decisions, static.optional)
