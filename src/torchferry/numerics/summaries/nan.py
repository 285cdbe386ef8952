"""What the processes of a command found, put together: as text and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchferry.core.messages import Message, say
from torchferry.numerics.launched import Outcome
from torchferry.numerics.summaries.finding import told


def document(outcome: Outcome, command: Sequence[str], level: str) -> dict[str, Any]:
    """Return what was found, in values that JSON has; `first` is the earliest finding of all ranks."""
    findings = [{"rank": one["rank"], **finding} for one in outcome.results for finding in one.get("findings", [])]
    # of the same step, the rank that knows a call comes first: the others were given what it made
    findings.sort(key=lambda one: (one["step"], not one["origins"], one["rank"]))
    return {
        "tool": "nan",
        "level": level,
        "command": list(command),
        "exit_code": outcome.code,
        "first": findings[0] if findings else None,
        "ranks": list(outcome.results),
        "unfinished": list(outcome.broken),
    }


def lines(result: dict[str, Any], lang: str | None = None) -> list[str]:
    """Return the summary for people."""
    ranks = [one for one in result["ranks"] if one.get("steps") or one.get("findings")] or result["ranks"][:1]
    shown: list[Message | str] = []
    first = result["first"]
    if nothing_ran(result):
        shown.append(say("NOTHING WAS EXAMINED: no module ran and no optimizer stepped"))
    elif first is None:
        steps = max((one.get("steps", 0) for one in ranks), default=0)
        shown.append(
            say("{steps} steps, nothing that is not finite reached a loss, a gradient or a result", steps=steps)
        )
    else:
        block = told(first, lang=lang)
        shown.append(f"rank {first['rank']}: {block[0]}" if len(ranks) > 1 else block[0])
        shown += block[1:]
        bad = {step for one in ranks for step in one.get("bad_steps", [])}
        steps = max(one.get("steps", 0) for one in ranks)
        shown.append(say("{bad} of {steps} steps were not finite", bad=len(bad), steps=max(steps, len(bad))))
        others = sorted({one["rank"] for one in ranks if one.get("bad_steps")} - {first["rank"]})
        if others:
            shown.append(say("also on ranks {ranks}", ranks=", ".join(map(str, others))))
    overflows = {step for one in ranks for step in one.get("overflows", [])}
    if overflows:
        shown.append(
            say(
                "{count} steps were left out by the gradient scaler, as it does: steps {steps}",
                count=len(overflows),
                steps=_some(sorted(overflows)),
            )
        )
    for one in ranks:
        if one.get("untested"):
            names = ", ".join(sorted(one["untested"]))
            shown.append(say("not looked at (sparse or special tensors): {names}", names=names))
            break
    for one in ranks:
        if one.get("error"):
            shown.append(say("rank {rank}: the examination failed: {error}", rank=one["rank"], error=one["error"]))
    shown += [
        say("{process} ended without a report: killed, or it crashed", process=one) for one in result["unfinished"]
    ]
    return [one.render(lang) if isinstance(one, Message) else one for one in shown]


def nothing_ran(result: dict[str, Any]) -> bool:
    """Whether there was nothing to look at, so that nothing can be said."""
    return not any(one.get("steps") or one.get("calls") or one.get("findings") for one in result["ranks"])


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown}, ..."
