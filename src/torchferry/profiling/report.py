"""What `torchferry profile show` and `profile compare` print: text, JSON, CSV."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from torchferry.core.messages import Message, say, say_plural, translatable
from torchferry.core.text_table import with_title
from torchferry.profiling.comparison import MatchedRow, ProfiledRun, TraceComparison, rank_rows
from torchferry.profiling.critical_path import LINKS
from torchferry.profiling.formatting import (
    WIDEST_NAME,
    heads,
    milliseconds,
    percent,
    percentile,
    printable,
    size_text,
)
from torchferry.profiling.intervals import length, union
from torchferry.profiling.places import Names, PlaceRow
from torchferry.profiling.records import COMMUNICATION, COMPUTE
from torchferry.profiling.sections import sections
from torchferry.profiling.steps import PARTS
from torchferry.profiling.summary import Summary, TimeRow

SUMMARY_FORMAT, COMPARISON_FORMAT = "torchferry trace summary", "torchferry trace comparison"
VERSION = 1

TOP = 15
"""Rows of a table that the text shows unless more are asked for."""

PART_TITLES = {
    "compute": translatable("compute"),
    "communication": translatable("exposed communication"),
    "copies": translatable("exposed copies"),
    "data": translatable("data loading"),
    "idle": translatable("idle: the device waits for the host"),
}
_HOST_PART_TITLES = {
    "compute": translatable("operators on the CPU"),
    "idle": translatable("the program outside of operators"),
}


_MEANINGS = {
    "compute": translatable("the device computes"),
    "communication": translatable("the device communicates and does not compute meanwhile"),
    "copies": translatable("the device copies and does neither meanwhile"),
    "data": translatable("the device is idle while the host waits for the next batch"),
    "idle": translatable("the device has nothing to do"),
}
_HOST_MEANINGS = {
    "compute": translatable("an operator of torch runs"),
    "data": translatable("no operator runs, and the program waits for the next batch"),
    "idle": translatable("the program does something else"),
}


def part_meaning(part: str, *, on_device: bool) -> Message:
    """Return what a part of a step is."""
    return say(_MEANINGS[part] if on_device else _HOST_MEANINGS.get(part, _MEANINGS[part]))


def part_title(part: str, *, on_device: bool) -> Message:
    """Return what a part of a step is called."""
    return say(PART_TITLES[part] if on_device else _HOST_PART_TITLES.get(part, PART_TITLES[part]))


# One run.


def show_lines(run: ProfiledRun, by: str, top: int, lang: str) -> Iterator[str]:
    """Yield what a run says, as text."""
    summary = run.first
    yield headline(run, summary).render(lang)
    for note in notes(run):
        yield "  " + note.render(lang)
    yield ""
    yield from _step_lines(summary, lang)
    yield ""
    yield from _part_lines(run, lang)
    if len(run.ranks) > 1:
        yield ""
        yield from _rank_lines(run, lang)
    yield ""
    yield from _time_lines(summary, by, top, lang)
    for section in sections(summary):
        yield ""
        if section.rows:
            yield from with_title([heads(lang, section.title, *section.heads), *section.shown(top, lang)])
        else:
            yield section.title.render(lang)
        if section.legend is not None:
            yield "  " + section.legend.render(lang)


def headline(run: ProfiledRun, summary: Summary) -> Message:
    """Return one line on what a run is."""
    trace = summary.trace
    if trace.rank >= 0 and max(trace.world_size, len(run.ranks)) > 1:
        rank = say("rank {rank} of {size}", rank=trace.rank, size=trace.world_size or len(run.ranks))
    else:
        rank = say("one process")
    device = trace.device_names[0] if trace.device_names else ""
    if not summary.on_device:
        hardware = _without_work(summary, device)
    elif device:
        hardware = say("{device}", device=printable(device))
    else:
        hardware = say("device {number}", number=summary.device)
    steps = say_plural("{count} step", "{count} steps", count=len(summary.steps))
    if not summary.marked:
        steps = say("no steps")
    return say("{path}: {rank}, {hardware}, {steps}", path=run.path, rank=rank, hardware=hardware, steps=steps)


def _without_work(summary: Summary, device: str) -> Message:
    """Return what is said in place of a device of a trace without work of one: not each of these is of the CPU."""
    trace = summary.trace
    if not (device or trace.foreign or summary.unseen or trace.is_cut):
        return say("CPU only")
    if device:
        return say("{device}, of whose work nothing is measured", device=printable(device))
    if trace.foreign:
        return say("a device that is not understood ({names})", names=", ".join(map(printable, sorted(trace.foreign))))
    return say("a device of whose work the trace has nothing")


def notes(run: ProfiledRun) -> Iterator[Message]:
    """Yield what a reader must know before the figures."""
    for summary in run.ranks:
        for fault in summary.trace.faults:
            yield say("INCOMPLETE: {path}: {fault}", path=summary.trace.path, fault=fault)
    summary = run.first
    trace = summary.trace
    yield from trace.notes
    if run.earlier:
        yield say_plural(
            "{count} earlier trace in the folder is not counted",
            "{count} earlier traces in the folder are not counted",
            count=run.earlier,
        )
    if run.cut_short:
        yield say_plural(
            "{count} later trace is not counted: the recording ended when its first step had just begun",
            "{count} later traces are not counted: the recording ended when their first step had just begun",
            count=run.cut_short,
        )
    if run.missing_ranks:
        yield say("no trace of ranks {ranks}", ranks=", ".join(map(str, run.missing_ranks)))
    if not summary.marked:
        yield say("the trace marks no steps: the times are those of the whole trace; profiler.step() marks them")
    if trace.settings.get("rehearsal"):
        yield say(
            "the run was rehearsed on {target}: calls and shapes are the program's, but all times are "
            "those of a CPU and say nothing about the card",
            target=trace.settings["rehearsal"],
        )
    elif not summary.on_device:
        yield say("no work of a device is in the trace: all times are those of the CPU")
    if summary.unseen:
        yield say_plural(
            "{count} call starts work of a device, and the trace has nothing of it: cut off, or not recorded",
            "{count} calls start work of a device, and the trace has nothing of it: cut off, or not recorded",
            count=summary.unseen,
        )
    if summary.others:
        yield say(
            "other devices are in the trace and not counted: {numbers}", numbers=", ".join(map(str, summary.others))
        )
    for category, number in sorted(trace.unknown.items()):
        yield say_plural(
            "{count} event of category `{category}` is not understood and not counted",
            "{count} events of category `{category}` are not understood and not counted",
            count=number,
            category=printable(category),
        )
    number, time = summary.leading
    if number:
        yield say_plural(
            "{count} kernel or copy was queued before the recording began ({time} ms): it is counted in no step",
            "{count} kernels or copies were queued before the recording began ({time} ms): they are counted in no step",
            count=number,
            time=milliseconds(time),
        )
    if summary.is_empty:
        yield say("the program did nothing in these steps: the recording ended when they had just begun")
    elif summary.empty:
        yield say_plural(
            "{count} step at the end is not counted: the recording ended when it had just begun",
            "{count} steps at the end are not counted: the recording ended when they had just begun",
            count=summary.empty,
        )
    if summary.hidden:
        yield say_plural(
            "{count} step has no time of its own: the device was still at work for those before it",
            "{count} steps have no time of their own: the device was still at work for those before them",
            count=summary.hidden,
        )
    number, time = summary.unlinked
    if number and summary.on_device:
        yield say_plural(
            "the trace does not say which operator started {count} kernel or copy ({time} ms)",
            "the trace does not say which operators started {count} kernels or copies ({time} ms)",
            count=number,
            time=milliseconds(time),
        )
    if summary.early > max(len(trace.work), 1) // 20:
        yield say_plural(
            "{count} kernel or copy begins before the host starts it: the clocks of host and device do not agree, and "
            "idle time is not exact",
            "{count} kernels or copies begin before the host starts them: the clocks of host and device do not agree, "
            "and idle time is not exact",
            count=summary.early,
        )


def _step_lines(summary: Summary, lang: str) -> Iterator[str]:
    times = summary.step_times
    if len(times) == 1:
        yield say("step: {time} ms", time=milliseconds(times[0])).render(lang)
        return
    yield say(
        "step: median {median} ms, p90 {p90} ms, from {least} to {most} ms",
        median=milliseconds(statistics.median(times)),
        p90=milliseconds(percentile(times, 0.9)),
        least=milliseconds(min(times)),
        most=milliseconds(max(times)),
    ).render(lang)


def _part_lines(run: ProfiledRun, lang: str) -> Iterator[str]:
    rows = [heads(lang, say("where the time of a step goes"), say("mean ms"), "%", say("median ms"))]
    for part in PARTS:
        time = run.mean(part)
        if time or part in ("compute", "idle"):
            title = part_title(part, on_device=run.first.on_device).render(lang)
            rows.append([title, milliseconds(time), percent(time, run.step), milliseconds(run.median(part))])
    yield from with_title(rows)


def _rank_lines(run: ProfiledRun, lang: str) -> Iterator[str]:
    rows = [heads(lang, say("rank (the slowest first)"), *rank_heads(lang))]
    rows += rank_cells(run)
    yield from with_title(rows[: TOP + 1])


def rank_heads(lang: str) -> list[str]:
    """Return the titles of what `rank_cells` returns, behind the rank."""
    titles = say("step ms"), say("median step ms"), say("compute ms"), say("communication ms"), say("% of it hidden")
    return heads(lang, *titles)


def rank_cells(run: ProfiledRun) -> list[list[str]]:
    """Return what is said of the ranks of a run, the slowest first."""
    return [
        [
            str(row.rank),
            milliseconds(row.step),
            milliseconds(row.median),
            milliseconds(row.compute),
            milliseconds(row.communication),
            "" if row.hidden is None else f"{100 * row.hidden:.1f}",
        ]
        for row in rank_rows(run)
    ]


_TIME_TITLES = {
    "operator": translatable("operators"),
    "shape": translatable("operators by shape"),
    "module": translatable("modules"),
    "stack": translatable("stacks of the program, the innermost function first"),
    "kernel": translatable("kernels"),
}


_UNNAMED = {
    "module": translatable("outside of modules"),
    "stack": translatable("outside of Python"),
    "": translatable("unknown operator"),
}


def _time_lines(summary: Summary, by: str, top: int, lang: str) -> Iterator[str]:
    timed = summary.rows(by)
    steps = len(summary.steps)
    if by == "stack" and not any(row.name for row in timed):
        yield say("the trace has no stacks: record it with `torchferry profile --stack -- COMMAND`").render(lang)
        return
    whole = sum(_own(summary, row) for row in timed) or 1
    where = say("own ms a step on the device") if summary.on_device else say("own ms a step on the CPU")
    rows = [heads(lang, say(_TIME_TITLES[by]), where, "%", say("calls a step"))]
    for row in timed[:top]:
        name = row.name or say(_UNNAMED.get(by, _UNNAMED[""])).render(lang)
        own = _own(summary, row)
        rows.append(
            [
                printable(f"{name} {row.detail}".rstrip()),
                milliseconds(own / steps),
                f"{100 * own / whole:.1f}",
                f"{row.calls / steps:g}" if row.calls % steps == 0 else f"{row.calls / steps:.1f}",
            ]
        )
    yield from with_title(rows)
    if len(timed) > top:
        yield "  " + say("... and {count} more; `--top` shows them", count=len(timed) - top).render(lang)


def _own(summary: Summary, row: TimeRow) -> int:
    return row.device_self if summary.on_device else row.host_self


def summary_document(run: ProfiledRun) -> dict[str, Any]:
    """Return a run in values that JSON has; times are nanoseconds."""
    return {
        "format": SUMMARY_FORMAT,
        "version": VERSION,
        "path": str(run.path),
        "missing_ranks": list(run.missing_ranks),
        "ranks": [_rank_document(summary) for summary in run.ranks],
    }


def _rank_document(summary: Summary) -> dict[str, Any]:
    trace = summary.trace
    work = trace.work
    document: dict[str, Any] = {
        "path": trace.path,
        "layout": trace.form,
        "rank": trace.rank,
        "world_size": trace.world_size,
        "host": trace.host_name,
        "devices": list(trace.device_names),
        "settings": trace.settings,
        "faults": [fault.render("en") for fault in trace.faults],
        "notes": [note.render("en") for note in trace.notes],
        "not_understood": trace.unknown,
        "marks_steps": summary.marked,
        "on_device": summary.on_device,
        "steps": [
            {"name": step.name, "time": step.time, **dict(zip(PARTS, step.parts, strict=True))}
            for step in summary.steps
        ],
        "operators": [row._asdict() for row in summary.rows("operator")],
        "modules": [row._asdict() for row in summary.rows("module") if row.name],
        "waits": [row._asdict() for row in summary.waits],
        "copies": [row._asdict() for row in summary.copies],
        "collectives": [{**row._asdict(), "bandwidth": row.bandwidth} for row in summary.collectives],
        "fallbacks": [{"name": name, "calls": calls} for name, calls in summary.fallbacks],
        "numbers_read": summary.numbers_read,
        "peaks": [row._asdict() for row in summary.peaks],
        "unlinked": {"works": summary.unlinked[0], "time": summary.unlinked[1]},
        "leading": {"works": summary.leading[0], "time": summary.leading[1]},
        "empty_steps": summary.empty,
        "hidden_steps": summary.hidden,
        "calls_without_work": summary.unseen,
        "launches": [row._asdict() for row in summary.launches],
        "queues": [row._asdict() for row in summary.queues],
        "overlap": {**summary.overlap._asdict(), "share": summary.overlap.share},
        "critical_path": _path_document(summary),
    }
    if work:
        own = [each for each in work if each.device == summary.device]
        document["whole_trace"] = {
            kind: length(union((each.start, each.end) for each in own if each.kind == kind))
            for kind in (COMPUTE, COMMUNICATION)
        }
    return document


def _path_document(summary: Summary) -> dict[str, Any] | None:
    path = summary.path
    if path is None:
        return None
    return {
        "step": path.step,
        "time": path.window[1] - path.window[0],
        "parts": dict(zip(LINKS, path.parts, strict=True)),
        "rows": [row._asdict() for row in path.rows],
    }


def summary_csv(run: ProfiledRun, by: str) -> str:
    """Return what took the time as a table; times are nanoseconds."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(TimeRow._fields)
    writer.writerows(run.first.rows(by))
    return written.getvalue()


# Two runs.


def compare_lines(comparison: TraceComparison, top: int, lang: str, causes: Sequence[Message] = ()) -> Iterator[str]:
    """Yield two runs side by side, as text, with what makes the difference (`profiling/causes.py`)."""
    for title, run in ((say("base"), comparison.base), (say("target"), comparison.target)):
        yield say("{side}: {headline}", side=title, headline=headline(run, run.first)).render(lang)
        for note in notes(run):
            yield "  " + note.render(lang)
    for obstacle in comparison.obstacles:
        yield "  " + say("NOT COMPARABLE: {reason}", reason=obstacle).render(lang)
    for reason in comparison.unjudged:
        yield "  " + say("not compared: {reason}", reason=reason).render(lang)
    yield ""
    yield from _waterfall(comparison, lang)
    yield verdict(comparison).render(lang)
    yield from (f"  {cause.render(lang)}" for cause in causes)
    yield interval_line(comparison).render(lang)
    for title, matched in ((say("operators of torch"), comparison.operators), (say("modules"), comparison.modules)):
        if matched:
            yield ""
            yield from _matched_lines(comparison, title, matched, top, lang)
        if matched is comparison.operators and comparison.places:
            yield ""
            yield from _place_lines(comparison, top, lang)
    if comparison.collectives:
        yield ""
        yield from with_title([pair_heads(say("collectives"), lang), *pair_cells(comparison, top, "->")])
    for run in (comparison.base, comparison.target):
        if len(run.ranks) > 1:
            yield ""
            yield f"{run.path}:"
            yield from _rank_lines(run, lang)
    if comparison.settings:
        yield ""
        rows = [heads(lang, say("settings that differ"), say("base"), say("target"))]
        rows += [
            [printable(name), printable(base) or "-", printable(target) or "-"]
            for name, base, target in comparison.settings
        ]
        yield from with_title(rows)


def _waterfall(comparison: TraceComparison, lang: str) -> Iterator[str]:
    on_device = comparison.target.first.on_device
    rows = [heads(lang, say("a step, ms"), say("base"), say("target"), say("difference"))]
    for part in comparison.parts:
        if part.base or part.target:
            title = part_title(part.name, on_device=on_device).render(lang)
            rows.append([title, milliseconds(part.base), milliseconds(part.target), signed(part.difference)])
    base, target = comparison.base.step, comparison.target.step
    rows.append([say("whole step").render(lang), milliseconds(base), milliseconds(target), signed(target - base)])
    yield from with_title(rows)


def signed(time: float) -> str:
    """Return a difference in milliseconds with its sign."""
    return ("+" if time >= 0 else "-") + milliseconds(abs(time))


def verdict(comparison: TraceComparison) -> Message:
    """Return one line: how much longer a step takes, and what makes most of it."""
    base, target = comparison.base.step, comparison.target.step
    ratio = target / base if base else 0.0
    largest = max(comparison.parts, key=lambda part: part.difference * (1 if target >= base else -1))
    part = part_title(largest.name, on_device=comparison.target.first.on_device)
    if abs(ratio - 1) < 0.005:
        return say("a step of the target takes {ratio} times the base's", ratio=f"{ratio:.2f}")
    return say(
        "a step of the target takes {ratio} times the base's; the largest difference is {part} ({time} ms)",
        ratio=f"{ratio:.2f}",
        part=part,
        time=signed(largest.difference),
    )


def interval_line(comparison: TraceComparison) -> Message:
    """Return what is known about the noise of the difference."""
    if comparison.interval is None:
        return say("no interval: that needs two runs of each side (--base-run, --target-run)")
    low, high = comparison.interval
    return say("difference of a step, 95 % interval: {low} to {high} ms", low=signed(low), high=signed(high))


def _matched_lines(
    comparison: TraceComparison, title: Message, matched: Sequence[MatchedRow], top: int, lang: str
) -> Iterator[str]:
    yield from with_title(
        [matched_heads(title, lang), *(matched_cells(comparison, row, "->") for row in matched[:top])]
    )


def _place_lines(comparison: TraceComparison, top: int, lang: str) -> Iterator[str]:
    """Yield the operators of the base and below them, with the figures, those of the target at the same place."""
    rows = [place_heads(lang)]
    for row in comparison.places[:top]:
        base, target, *cells = place_cells(comparison, row, "->", WIDEST_NAME - 10, lang)
        rows += [[base, *("" for _ in cells)], [f"  -> {target}", *cells]]
    yield from with_title(rows)


def place_heads(lang: str) -> list[str]:
    """Return the titles of what `place_cells` returns, both sides' operators in one column."""
    return matched_heads(say("matched by place: operators of the base -> of the target"), lang)


def place_cells(comparison: TraceComparison, row: PlaceRow, arrow: str, width: int, lang: str) -> list[str]:
    """Return what is said of operators at one place: those of the base, those of the target, and the figures."""
    as_matched = MatchedRow("", row.base, row.target, row.base_calls, row.target_calls)
    cells = matched_cells(comparison, as_matched, arrow)[1:]
    names = (place_names(side, width).render(lang) for side in (row.base_names, row.target_names))
    return [*names, *cells]


def place_names(names: Names, width: int = 0) -> Message:
    """Return the operators of a place: `aten::bmm x2 + aten::softmax`; the first that fit a width, 0 for all."""
    texts = [printable(name) + (f" x{count}" if count > 1 else "") for name, count in names]
    shown = len(texts)
    while shown > 1 and 0 < width < len(" + ".join(texts[:shown])):
        shown -= 1
    first = " + ".join(texts[:shown])
    if shown < len(texts):
        return say("{shown} + {count} more", shown=first, count=len(texts) - shown)
    return say("{shown}", shown=first)


def pair_heads(title: Message | str, lang: str) -> list[str]:
    """Return the titles of what `pair_cells` returns."""
    return heads(lang, title, say("size"), say("base GB/s"), say("target GB/s"), say("calls a step"))


def pair_cells(comparison: TraceComparison, top: int, arrow: str) -> Iterator[list[str]]:
    """Yield what is said of the collectives of both runs: kind, size, bytes a second that a rank puts in."""
    for row in comparison.collectives[:top]:
        speeds = ["-" if speed is None else f"{speed / 1e9:.3g}" for speed in (row.base, row.target)]
        calls = f"{row.base_calls:g} {arrow} {row.target_calls:g}"
        yield [printable(row.name), size_text(row.size), *speeds, calls]


def matched_heads(title: Message | str, lang: str) -> list[str]:
    """Return the titles of what `matched_cells` returns."""
    share_head = say("% of the difference")
    return heads(lang, title, say("base"), say("target"), say("difference"), share_head, say("calls"))


def matched_cells(comparison: TraceComparison, row: MatchedRow, arrow: str) -> list[str]:
    """Return what is said of an operator or module of both runs: its times, their difference, its calls."""
    return [
        printable(row.name) or "-",
        "-" if row.base is None else milliseconds(row.base),
        "-" if row.target is None else milliseconds(row.target),
        signed(row.difference),
        share(comparison, row.difference),
        f"{row.base_calls:g} {arrow} {row.target_calls:g}",
    ]


def share(comparison: TraceComparison, difference: float) -> str:
    """Return a difference as a share of the step's; nothing where the step's is noise."""
    whole = comparison.difference
    return f"{100 * difference / whole:.0f}" if abs(whole) > 0.005 * comparison.base.step else ""


def comparison_document(comparison: TraceComparison, causes: Sequence[Message] = ()) -> dict[str, Any]:
    """Return a comparison in values that JSON has; times are nanoseconds of a step."""
    return {
        "format": COMPARISON_FORMAT,
        "version": VERSION,
        "base": str(comparison.base.path),
        "target": str(comparison.target.path),
        "comparable": not comparison.obstacles,
        "obstacles": [obstacle.render("en") for obstacle in comparison.obstacles],
        "not_compared": [reason.render("en") for reason in comparison.unjudged],
        "step": {"base": comparison.base.step, "target": comparison.target.step, "interval": comparison.interval},
        "parts": [row._asdict() for row in comparison.parts],
        "causes": [cause.render("en") for cause in causes],
        "operators": [row._asdict() for row in comparison.operators],
        "matched_by_place": [
            {**row._asdict(), "base_names": dict(row.base_names), "target_names": dict(row.target_names)}
            for row in comparison.places
        ],
        "modules": [row._asdict() for row in comparison.modules],
        "collectives": [row._asdict() for row in comparison.collectives],
        "settings": [{"name": name, "base": base, "target": target} for name, base, target in comparison.settings],
    }


def comparison_csv(comparison: TraceComparison) -> str:
    """Return the operators of both sides as a table, those matched by place last; times are nanoseconds of a step."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow((*MatchedRow._fields, "difference"))
    writer.writerows((*row, row.difference) for row in comparison.operators)
    for row in comparison.places:
        name = " -> ".join(place_names(side).render("en") for side in (row.base_names, row.target_names))
        writer.writerow((name, row.base, row.target, row.base_calls, row.target_calls, row.difference))
    return written.getvalue()
