"""What the processes of a command found, put together: as text and as a document.

What is said of a bad step is made from the document, so that a file can be told again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.numerics.framework.launcher import Outcome, last_words

_PHASES = {
    "forward": say_in("phase of a step", "forward"),
    "backward": say_in("phase of a step", "backward"),
    "recompute": say_in("phase of a step", "recompute"),
    "optimizer": say_in("phase of a step", "optimizer"),
    "gradient scaling": say("gradient scaling"),
}


def told(finding: dict[str, Any], notes: Sequence[Message | str] = (), lang: str | None = None) -> list[str]:
    """Return the lines for one bad step."""
    lines = []
    step, origins = finding["step"], finding["origins"]
    if origins:
        first = origins[0]
        lines.append(
            "[WARNING] "
            + say(
                "step {step}: {kind} first came from {operator}, in {place}",
                step=step,
                kind=first["kind"],
                operator=first["operator"],
                place=place(first, lang),
            ).render(lang)
        )
        lines += _details(first, lang)
        if len(origins) > 1:
            lines.append(
                "  "
                + say_plural(
                    "{count} more call produced NaN or infinity that its inputs do not have:",
                    "{count} more calls produced NaN or infinity that their inputs do not have:",
                    count=len(origins) - 1,
                ).render(lang)
            )
            lines += [f"    {origin['operator']} ({origin['kind']}), {place(origin, lang)}" for origin in origins[1:]]
    else:
        lines.append(
            "[WARNING] "
            + say("step {step} was not finite; the call that caused it was not found", step=step).render(lang)
        )
    lines += ["  " + (note.render(lang) if isinstance(note, Message) else note) for note in (notes or finding["notes"])]
    if "dump" in finding:
        lines.append(
            "  "
            + say(
                "the call was written to {path}; to run it again: torchferry replay {path}", path=finding["dump"]
            ).render(lang)
        )
    return lines


def place(origin: dict[str, Any], lang: str | None = None) -> str:
    """Return where a call belongs: `GPT.blocks.0.mlp (backward of aten.gelu)`."""
    module = origin["module"] or say("no module").render(lang)
    phase: Message = _PHASES.get(origin["phase"], Message(origin["phase"]))
    if origin["source"]:
        phase = say("{phase} of {source}", phase=phase, source=origin["source"])
    return f"{module} ({phase.render(lang)})"


def _details(origin: dict[str, Any], lang: str | None) -> list[str]:
    lines = []
    if origin["line"]:
        lines.append(f"  {origin['line']}")
    for number, given in enumerate(origin["inputs"]):
        lines.append(f"  {say('input').render(lang)} {number}: {_tensor(given)}")
    if origin["constants"]:
        lines.append(f"  {say('other arguments').render(lang)}: {', '.join(origin['constants'])}")
    lines += [f"  {say('output').render(lang)}: {_tensor(output)}" for output in origin["outputs"]]
    return lines


def _tensor(tensor: dict[str, Any]) -> str:
    text = f"{tensor['dtype']}{tensor['shape']} {tensor['device']}"
    if tensor["least"] is not None:
        text += f", {tensor['least']:.4g} .. {tensor['greatest']:.4g}, mean {tensor['mean']:.4g}"
    for kind in ("nan", "inf"):
        if tensor[kind]:
            text += f", {tensor[kind]} {kind}"
    return text


def document(outcome: Outcome, command: Sequence[str], level: str) -> dict[str, Any]:
    """Return what was found, in values that JSON has; `first` is the earliest finding of all ranks."""
    findings = sorted(_findings({"ranks": outcome.results}), key=_order)
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
    ranks = [rank for rank in result["ranks"] if rank.get("steps") or rank.get("findings")] or result["ranks"][:1]
    shown: list[Message | str] = []
    first = result["first"]
    if nothing_ran(result):
        shown.append(say("NOTHING WAS EXAMINED: no module ran and no optimizer stepped"))
    elif first is None:
        steps = max((rank.get("steps", 0) for rank in ranks), default=0)
        shown.append(
            say_plural(
                "{count} step, everything examined was finite, but not everything was examined",
                "{count} steps, everything examined was finite, but not everything was examined",
                count=steps,
            )
            if incomplete(result)
            else say_plural(
                "{count} step, all losses, gradients and results were finite",
                "{count} steps, all losses, gradients and results were finite",
                count=steps,
            )
        )
    else:
        block = told(first, lang=lang)
        shown.append(f"rank {first['rank']}: {block[0]}" if len(ranks) > 1 else block[0])
        shown += block[1:]
        shown.append(_how_many(ranks))
        others = sorted({rank["rank"] for rank in ranks if rank.get("bad_steps")} - {first["rank"]})
        if others:
            shown.append(say("also on ranks {ranks}", ranks=", ".join(map(str, others))))
    overflows = {step for rank in ranks for step in rank.get("overflows", [])}
    if overflows:
        shown.append(
            say_plural(
                "{count} step was skipped by the gradient scaler, as intended: steps {steps}",
                "{count} steps were skipped by the gradient scaler, as intended: steps {steps}",
                count=len(overflows),
                steps=_some(sorted(overflows)),
            )
        )
    for rank in ranks:
        if rank.get("untested"):
            names = ", ".join(sorted(rank["untested"]))
            shown.append(
                say(
                    "not examined (sparse or special tensors, or computed by other operators below a tool): {names}",
                    names=names,
                )
            )
            break
    shown += _unlooked(ranks)
    for rank in result["ranks"]:
        for error, count in rank.get("failures", {}).items():
            shown.append(
                say_plural(
                    "rank {rank}: the tool failed {count} time and skipped that check: {error}",
                    "rank {rank}: the tool failed {count} times and skipped those checks: {error}",
                    rank=rank["rank"],
                    count=count,
                    error=error,
                )
            )
        if rank.get("error") and not rank.get("failures"):
            shown.append(
                say("rank {rank}: the examination failed: {error}", rank=rank["rank"], error=last_words(rank["error"]))
            )
    shown_lines = {str(line).strip() for line in shown}
    shown += [
        text for rank in result["ranks"] for text in dict.fromkeys(rank.get("left_out", [])) if text not in shown_lines
    ]
    shown += [
        say("{process} ended without a report: it was killed or crashed", process=unfinished_rank)
        for unfinished_rank in result["unfinished"]
    ]
    return [line.render(lang) if isinstance(line, Message) else line for line in shown]


def _how_many(ranks: Sequence[dict[str, Any]]) -> Message:
    """Return how many steps were not finite; in a program without steps, how many calls of models."""
    bad = {step for rank in ranks for step in rank.get("bad_steps", [])}
    steps = max(rank.get("steps", 0) for rank in ranks)
    calls = sum(rank.get("bad_calls", 0) for rank in ranks)
    if not bad and not steps and calls:
        return say_plural(
            "{bad} of {count} call of models was not finite",
            "{bad} of {count} calls of models were not finite",
            bad=calls,
            count=sum(rank.get("calls", 0) for rank in ranks),
        )
    return say_plural(
        "{bad} of {count} step was not finite",
        "{bad} of {count} steps were not finite",
        bad=len(bad),
        count=max(steps, len(bad)),
    )


_UNLOOKED = ("unread", "unlooked", "unlooked_results", "captured")
"""What a rank did not look at, so that it must not be called well."""


def incomplete(result: dict[str, Any]) -> bool:
    """Whether something was not looked at that may be not finite."""
    return any(rank.get(name) for rank in result["ranks"] for name in (*_UNLOOKED, "error"))


def failed(result: dict[str, Any]) -> bool:
    """Whether a process was lost or could not be examined to its end."""
    return bool(result["unfinished"]) or any(rank.get("error") for rank in result["ranks"])


def _unlooked(ranks: Sequence[dict[str, Any]]) -> Iterator[Message]:
    unread: dict[str, int] = {}
    for rank in ranks:
        for kind, count in rank.get("unread", {}).items():
            unread[kind] = unread.get(kind, 0) + count
    if unread:
        yield say_plural(
            "not examined: {count} gradient or loss that cannot be read here: {kinds}",
            "not examined: {count} gradients or losses that cannot be read here: {kinds}",
            count=sum(unread.values()),
            kinds=", ".join(sorted(unread)),
        )
    calls, results, captured = (sum(rank.get(name, 0) for rank in ranks) for name in _UNLOOKED[1:])
    if calls:
        yield say_plural(
            "not examined: {count} call of models, too many for one step",
            "not examined: {count} calls of models, too many for one step",
            count=calls,
        )
    if results:
        yield say_plural(
            "not examined: {count} result of operators, too many for one step",
            "not examined: {count} results of operators, too many for one step",
            count=results,
        )
    if captured:
        yield say_plural(
            "not examined: {count} call in a captured graph, whose runs are not visible; disable the graph",
            "not examined: {count} calls in a captured graph, whose runs are not visible; disable the graph",
            count=captured,
        )


def nothing_ran(result: dict[str, Any]) -> bool:
    """Whether there was nothing to look at, so that nothing can be said."""
    return not any(
        rank.get("steps") or rank.get("calls") or rank.get("findings") or rank.get("captured")
        for rank in result["ranks"]
    )


FIELDS = ("rank", "step", "kind", "operator", "module", "phase", "source", "line", "notes", "dump")
"""Columns of the table; a finding whose call was not found has neither operator nor module."""


def table(result: dict[str, Any]) -> str:
    """Return a row for each call of each finding as CSV, the first of all first."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FIELDS)
    for finding in sorted(_findings(result), key=_order):
        for origin in finding["origins"] or [{}]:
            row = {**origin, "rank": finding["rank"], "step": finding["step"], "dump": finding.get("dump")}
            row["notes"] = "; ".join(finding["notes"])
            writer.writerow([row.get(name) if row.get(name) is not None else "" for name in FIELDS])
    return file.getvalue()


def _findings(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rank in result["ranks"]:
        for finding in rank.get("findings", []):
            yield {"rank": rank["rank"], **finding}


def _order(finding: dict[str, Any]) -> tuple[int, bool, int]:
    """Put the earliest first; of the same step, the rank that knows a call: the others were given what it made."""
    return finding["step"], not finding["origins"], finding["rank"]


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown}, ..."
