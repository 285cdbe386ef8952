"""A comparison of two records, for people and for machines."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from torchferry.core.json_text import json_text
from torchferry.core.messages import Message, say, say_plural
from torchferry.numerics.report.compare import ranks_without_accelerator
from torchferry.numerics.rundiff.causes import CERTAIN, NOTE, Cause
from torchferry.numerics.rundiff.comparison import FirstDifference, RunComparison
from torchferry.numerics.rundiff.verdict import RunVerdict
from torchferry.numerics.runlog import layout as names
from torchferry.numerics.runlog.record import Rank

# A comparison for machines: one JSON document of stable shape, or rows of CSV.


def document(result: RunComparison, lang: str, asked_of_cpu: bool = True) -> dict[str, Any]:
    """Return the comparison as values that JSON has; what is not finite is a text: `inf`.

    Args:
        result: The comparison.
        lang: `en` or `zh`.
        asked_of_cpu: Whether two runs on the CPU alone are what was requested.
    """
    first = None
    if result.first is not None:
        first = asdict(result.first)
        first["shape"] = list(result.first.shape)
        first["unknown"] = list(result.first.unknown)
    result_document = {
        "tool": "diff",
        "verdict": result.verdict.value,
        "same": result.same,
        "complete": result.coverage.complete,
        "without_accelerator": is_without_accelerator(result, asked_of_cpu),
        "coverage": {
            "steps_made": result.coverage.made,
            "steps_in_both": result.coverage.steps,
            "steps_recorded": result.coverage.recorded,
            "steps_compared": result.coverage.compared,
            "gaps": [message.render(lang) for message in result.coverage.gaps],
        },
        "a": _run(result, "a"),
        "b": _run(result, "b"),
        "causes": [cause.as_dict(lang) for cause in result.causes],
        "first": first,
        "earliest": result.earliest,
        "aligned": result.aligned,
        "not_known": result.coverage.blind,
        "only_a": result.only_a,
        "only_b": result.only_b,
        "modules": [{**asdict(row), "beyond": row.beyond} for row in result.table.rows()],
        "ties": [message.render(lang) for message in result.ties],
        "steps": [{"step": step, "error": error} for step, error in sorted(result.steps.items())],
        "losses": [{"step": step, "a": loss, "b": two} for step, (loss, two) in sorted(result.losses.items())],
        "remarks": [message.render(lang) for message in result.remarks],
        "not_compared": [message.render(lang) for message in result.left_out],
    }
    plain: dict[str, Any] = _plain(result_document)
    return plain


WITHOUT_ACCELERATOR = say(
    "NO ACCELERATOR WAS USED: both runs were on the CPU, which says nothing about a card; --allow-cpu asks for this "
    "comparison"
)


def is_without_accelerator(result: RunComparison, asked_of_cpu: bool) -> bool:
    """Whether a rank ran on the CPU in both runs, or a record does not name a device, without `--allow-cpu`."""
    return _without_accelerator(result, asked_of_cpu) is not None


def _without_accelerator(result: RunComparison, asked_of_cpu: bool) -> Message | None:
    """Return which part of the comparison says nothing about a card, as a sentence; None for no part.

    One run may be the reference on the CPU. In a run that used cards, a rank on the CPU is not compared with a card,
    whatever the other run used.
    """
    if asked_of_cpu:
        return None
    runs = [{rank.number: _device_of(rank) for rank in record.ranks} for record in (result.a, result.b)]
    unnamed = [
        record.folder.name for record, run in zip((result.a, result.b), runs, strict=True) if None in run.values()
    ]
    if unnamed:
        return say(
            "NOT KNOWN WHETHER AN ACCELERATOR WAS USED: {records} does not name the device of each rank; --allow-cpu "
            "compares without it",
            records=", ".join(unnamed),
        )
    if all(device == "cpu" for run in runs for device in run.values()):
        return WITHOUT_ACCELERATOR
    mixed = {
        number for run in runs if set(run.values()) != {"cpu"} for number, device in run.items() if device == "cpu"
    }
    return ranks_without_accelerator(sorted(mixed)) if mixed else None


def _device_of(rank: Rank) -> str | None:
    """Return the type of the device of a rank, such as `npu`; None where its record does not name one."""
    device = rank.facts.get("device")
    name = device.get("type") if isinstance(device, dict) else None
    return name if isinstance(name, str) and name else None


def as_json(result: RunComparison, lang: str, asked_of_cpu: bool = True) -> str:
    """Return the document as text; the arguments are those of `document`."""
    return json_text(document(result, lang, asked_of_cpu), indent=2, allow_nan=False)


def as_csv(result: RunComparison) -> str:
    """Return a row for each module and phase, those first that are the furthest beyond their limits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["module", "phase", "operator", "error", "limit", "step"])
    for row in result.table.rows():
        numbers = [f"{row.error:.6g}", f"{row.limit:.6g}", row.step]
        writer.writerow([_text(row.module), row.phase, row.operator, *numbers])
    return out.getvalue()


def _run(result: RunComparison, side: str) -> dict[str, Any]:
    record = result.a if side == "a" else result.b
    rank = record.ranks[0]
    return {
        "folder": str(record.folder),
        "world": record.world,
        "ranks": [rank.number for rank in record.ranks],
        "steps": len(rank.steps),
        "device": rank.facts.get("device", {}),
        "command": rank.facts.get("program", {}).get("command", []),
    }


def _text(value: str) -> str:
    """Keep a spreadsheet from reading a name as a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


# A comparison for people.

_MODULES = 12
_NOTES = 8


def lines(result: RunComparison, lang: str, asked_of_cpu: bool = True) -> Iterator[str]:
    """Yield what is shown on a terminal; the arguments are those of `document`."""
    causes = [cause for cause in result.causes if cause.grade != NOTE]
    without = _without_accelerator(result, asked_of_cpu)
    if without is not None:
        yield without.render(lang)
    yield _headline(result).render(lang)
    for message in result.coverage.gaps:
        yield f"  {message.render(lang)}"
    if causes:
        yield ""
        yield say("Differences outside the operators, the most likely cause first:").render(lang)
        for cause in causes:
            yield from _cause(cause, lang)
    if result.first is not None:
        yield ""
        yield from _first(result.first, lang)
    elif result.earliest and not result.same:
        yield say("first difference of any size: {where}", where=result.earliest).render(lang)
    yield ""
    yield say_plural(
        "{count} result was compared; {only_a} only in the first run, {only_b} only in the second",
        "{count} results were compared; {only_a} only in the first run, {only_b} only in the second",
        count=result.aligned,
        only_a=result.only_a,
        only_b=result.only_b,
    ).render(lang)
    if result.coverage.blind:
        yield say_plural(
            "{count} of them is NaN or infinite in both in all that was recorded of it: whether it differs is not "
            "known",
            "{count} of them are NaN or infinite in both in all that was recorded of them: whether they differ is not "
            "known",
            count=result.coverage.blind,
        ).render(lang)
    yield from _growth(result, lang)
    for tie in result.ties:
        yield tie.render(lang)
    for message in result.remarks:
        yield message.render(lang)
    for message in result.left_out:
        yield say("not compared: {what}", what=message).render(lang)
    notes = [cause for cause in result.causes if cause.grade == NOTE]
    if notes:
        yield say("also different:").render(lang)
        for cause in notes[:_NOTES]:
            yield f"  {cause.text.render(lang)}: {cause.where}: {cause.a} | {cause.b}"
        if len(notes) > _NOTES:
            yield "  " + say("and {count} more, in the JSON report", count=len(notes) - _NOTES).render(lang)


def _headline(result: RunComparison) -> Message:
    covered = result.coverage
    verdict = result.verdict
    counts = {
        "results": say_plural("{count} result", "{count} results", count=result.aligned),
        "steps": _steps(covered.compared),
        "made": _steps(covered.made),
    }
    if verdict is RunVerdict.DIFFERENT:
        return say("DIFFERENT")
    if verdict is RunVerdict.INCOMPLETE:
        return say(
            "NOT COMPARED TO THE END: {results} of {steps} compared, none exceeds its limit; the first run made {made}",
            **counts,
        )
    return say(
        "SAME: {results} of {steps} compared, none exceeds its limit; the first run made {made}",
        **counts,
    )


def _steps(count: int) -> Message:
    return say_plural("{count} step", "{count} steps", count=count)


def _cause(cause: Cause, lang: str) -> Iterator[str]:
    mark = "*" if cause.grade == CERTAIN else "?"
    yield f"  {mark} {cause.text.render(lang)} ({cause.where})"
    yield f"      {cause.a} | {cause.b}"
    yield f"      {cause.advice.render(lang)}"


def _first(first: FirstDifference, lang: str) -> Iterator[str]:
    place = f"{first.module or say('outside of modules').render(lang)} ({first.phase})"
    what = f"{place} {first.operator}".rstrip()
    head = (
        say("Errors grew gradually and first exceeded the limit at {what}, step {step}", what=what, step=first.step)
        if first.gradual
        else say("First numerical difference at {what}, step {step}", what=what, step=first.step)
    )
    yield head.render(lang)
    yield "      " + _measured(first).render(lang)
    yield "      " + _came_in(first).render(lang)
    yield "      " + say(
        "{dtype} {shape}, norm {a} | {b}, rank {rank}",
        dtype=first.dtype,
        shape=list(first.shape),
        a=f"{first.a:.6g}",
        b=f"{first.b:.6g}",
        rank=first.rank,
    ).render(lang)
    if first.exact is not None:
        exact = first.exact
        yield "      " + say_plural(
            "{differing} of {count} element differs, the largest difference is at {at}: {a} | {b}; cosine {cosine}",
            "{differing} of {count} elements differ, the largest difference is at {at}: {a} | {b}; cosine {cosine}",
            differing=exact.differing,
            count=exact.of,
            at=list(exact.at),
            a=f"{exact.values[0]:.7g}",
            b=f"{exact.values[1]:.7g}",
            cosine=f"{exact.cosine:.6f}",
        ).render(lang)


def _measured(first: FirstDifference) -> Message:
    if first.differing is not None:
        differing, of = first.differing
        return say_plural(
            "{differing} of {count} integer differs, which must be the same",
            "{differing} of {count} integers differ, which must be the same",
            differing=differing if of < names.WIDTH else say("about {count}", count=differing),
            count=of,
        )
    error, limit = f"{first.error:.3g}", f"{first.limit:.3g}"
    return say("relative error {error}, where {limit} is allowed", error=error, limit=limit)


def _came_in(first: FirstDifference) -> Message:
    if first.came_in is None:
        return say(
            "the error of its inputs is not known: {what} has no counterpart in the second run, and may have made it",
            what=", ".join(first.unknown),
        )
    return say("the error of its inputs was {came_in}", came_in=f"{first.came_in:.3g}")


def _growth(result: RunComparison, lang: str) -> Iterator[str]:
    if not any(row.error for row in result.table.rows()):
        return
    yield say("errors and what is allowed, by module:").render(lang)
    for row in result.table.rows()[:_MODULES]:
        if row.error:
            place = row.module or say("outside of modules").render(lang)
            # translators: axis of a plot: training steps
            step = f"{say('step').render(lang)} {row.step}"
            mark = "*" if row.beyond else " "
            yield f"{mark} {row.error:9.3g} | {row.limit:<9.3g}  {place} ({row.phase}), {step}"
    shown = list(result.steps.items())
    if len(shown) > 1:
        chosen = shown if len(shown) <= 8 else [shown[i * (len(shown) - 1) // 7] for i in range(8)]
        yield say(
            "growth over steps: {values}", values=", ".join(f"{step}: {error:.2g}" for step, error in chosen)
        ).render(lang)
    if result.losses:
        pairs = list(result.losses.items())
        chosen_losses = pairs if len(pairs) <= 4 else [*pairs[:2], *pairs[-2:]]
        yield say(
            "loss: {values}",
            values=", ".join(f"{step}: {chosen_loss:.6g} | {two:.6g}" for step, (chosen_loss, two) in chosen_losses),
        ).render(lang)
