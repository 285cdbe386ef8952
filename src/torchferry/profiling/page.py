"""Pages on one run and on two: tables, a flame graph, and a timeline that can be zoomed. They load nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from torchferry.core.messages import say
from torchferry.numerics.report.pages import framed, heading, paragraphs, table
from torchferry.profiling import flame
from torchferry.profiling.comparison import MatchedRow, ProfiledRun, TraceComparison
from torchferry.profiling.formatting import heads, milliseconds, percent, printable
from torchferry.profiling.records import OPERATOR, RUNTIME, HostCall
from torchferry.profiling.report import (
    headline,
    interval_line,
    matched_cells,
    matched_heads,
    notes,
    pair_cells,
    pair_heads,
    part_meaning,
    part_title,
    place_cells,
    place_heads,
    rank_cells,
    rank_heads,
    signed,
    verdict,
)
from torchferry.profiling.sections import sections
from torchferry.profiling.steps import PARTS
from torchferry.profiling.summary import Summary

_SCRIPT = Path(__file__).with_name("timeline.js")
_STYLE = Path(__file__).with_name("page.css")

_MOST_SLICES = 40_000
"""Slices of a run in the timeline: about 1.5 MB of the page."""

_MOST_ROWS = 100
_DEEPEST = 24


def summary_page(run: ProfiledRun, lang: str) -> str:
    """Return a page on one run."""
    summary = run.first
    steps = len(summary.steps)
    own = say("own ms a step on the device") if summary.on_device else say("own ms a step on the CPU")
    body = [_style(), paragraphs(note.render(lang) for note in notes(run))]
    body.append(heading(say("where the time of a step goes").render(lang)))
    body.append(
        table(
            heads(lang, "", say("mean ms"), "%", say("median ms"), say("meaning")),
            [
                (
                    part_title(part, on_device=summary.on_device).render(lang),
                    milliseconds(run.mean(part)),
                    percent(run.mean(part), run.step),
                    milliseconds(run.median(part)),
                    part_meaning(part, on_device=summary.on_device).render(lang),
                )
                for part in PARTS
            ],
        )
    )
    body += _ranks([run], lang)
    body += _timeline([(run.first, headline(run, summary).render(lang))], lang)
    for by, title in (("operator", say("operators")), ("module", say("modules")), ("kernel", say("kernels"))):
        every = summary.rows(by)
        rows = [row for row in every if row.name][:_MOST_ROWS]
        whole = sum(row.device_self if summary.on_device else row.host_self for row in every)
        if rows:
            body.append(heading(title.render(lang)))
            body.append(
                table(
                    heads(lang, "", own, "%", say("calls a step")),
                    [
                        (
                            printable(row.name),
                            milliseconds((row.device_self if summary.on_device else row.host_self) / steps),
                            percent(row.device_self if summary.on_device else row.host_self, whole),
                            f"{row.calls / steps:.1f}",
                        )
                        for row in rows
                    ],
                )
            )
    body += _sections(summary, lang)
    body.append(heading(say("flame graph of modules and operators").render(lang)))
    body.append(f'<div class="flame">{flame.draw(summary, lang)}</div>')
    return framed(headline(run, summary).render(lang), run.is_whole, body, lang, _script())


def comparison_page(comparison: TraceComparison, lang: str) -> str:
    """Return a page on two runs, their timelines below each other."""
    sides = ((say("base"), comparison.base), (say("target"), comparison.target))
    lines: list[str] = []
    for title, run in sides:
        lines.append(say("{side}: {headline}", side=title, headline=headline(run, run.first)).render(lang))
        lines += ["  " + note.render(lang) for note in notes(run)]
    lines += [say("NOT COMPARABLE: {reason}", reason=reason).render(lang) for reason in comparison.obstacles]
    lines += [say("not compared: {reason}", reason=reason).render(lang) for reason in comparison.unjudged]
    lines.append(interval_line(comparison).render(lang))
    body = [_style(), paragraphs(lines), _bars(comparison, lang)]
    body += _timeline([(run.first, f"{title.render(lang)}: {run.path}") for title, run in sides], lang)
    for title, rows in ((say("operators of torch"), comparison.operators), (say("modules"), comparison.modules)):
        if rows:
            body.append(heading(title.render(lang)))
            body.append(_matched(comparison, rows[:_MOST_ROWS], lang))
        if rows is comparison.operators and comparison.places:
            head, *figures = place_heads(lang)
            shown = (place_cells(comparison, row, "→", 0, lang) for row in comparison.places[:_MOST_ROWS])
            body.append(heading(head))
            body.append(table(["", *figures], [(f"{base} → {target}", *cells) for base, target, *cells in shown]))
    if comparison.collectives:
        body.append(heading(say("collectives").render(lang)))
        body.append(table(pair_heads("", lang), list(pair_cells(comparison, _MOST_ROWS, "→"))))
    body += _ranks([comparison.base, comparison.target], lang)
    if comparison.settings:
        body.append(heading(say("settings that differ").render(lang)))
        body.append(table(heads(lang, "", say("base"), say("target")), comparison.settings))
    return framed(verdict(comparison).render(lang), not comparison.obstacles, body, lang, _script())


def _script() -> str:
    return _SCRIPT.read_text(encoding="utf-8")


def _style() -> str:
    return f"<style>{_STYLE.read_text(encoding='utf-8')}</style>"


def _matched(comparison: TraceComparison, rows: Iterable[MatchedRow], lang: str) -> str:
    return table(matched_heads("", lang), [matched_cells(comparison, row, "→") for row in rows])


def _ranks(runs: Sequence[ProfiledRun], lang: str) -> list[str]:
    body: list[str] = []
    for run in runs:
        if len(run.ranks) > 1:
            body.append(heading(say("ranks of {path}, the slowest first", path=run.path).render(lang)))
            body.append(table([say("rank").render(lang), *rank_heads(lang)], rank_cells(run)))
    return body


def _sections(summary: Summary, lang: str) -> list[str]:
    body: list[str] = []
    for section in sections(summary):
        body.append(heading(section.title.render(lang)))
        if section.legend is not None:
            body.append(paragraphs([section.legend.render(lang)]))
        if section.rows:
            body.append(table(heads(lang, "", *section.heads), section.shown(_MOST_ROWS, lang)))
    return body


def _bars(comparison: TraceComparison, lang: str) -> str:
    """Return the waterfall: from the base's step over the differences of its parts to the target's."""
    on_device = comparison.target.first.on_device
    bars: list[tuple[str, float, float, str, str]] = []
    base, target = comparison.base.step, comparison.target.step
    bars.append((say("base").render(lang), 0.0, base, "whole", milliseconds(base)))
    at = base
    for part in comparison.parts:
        if part.base or part.target:
            title = part_title(part.name, on_device=on_device).render(lang)
            kind = "longer" if part.difference > 0 else "shorter"
            bars.append((title, min(at, at + part.difference), abs(part.difference), kind, signed(part.difference)))
            at += part.difference
    bars.append((say("target").render(lang), 0.0, target, "whole", milliseconds(target)))
    scale = 520 / max(1.0, *(start + size for _, start, size, _, _ in bars))
    drawn = "".join(
        f'<text x="0" y="{number * 24 + 16}">{escape(title)}</text>'
        f'<rect class="{kind}" x="{270 + start * scale:.1f}" y="{number * 24 + 4}" width="{max(size * scale, 1):.1f}" '
        f'height="16"/><text x="{278 + (start + size) * scale:.1f}" y="{number * 24 + 16}">{escape(text)}</text>'
        for number, (title, start, size, kind, text) in enumerate(bars)
    )
    label = escape(say("where the time of a step goes").render(lang))
    return f'<svg class="bars" viewBox="0 0 880 {len(bars) * 24 + 8}" role="img" aria-label="{label}">{drawn}</svg>'


def _timeline(runs: Sequence[tuple[Summary, str]], lang: str) -> list[str]:
    """Return the timeline of runs, each from the start of its steps: threads of the host, streams of the device."""
    names: dict[str, int] = {}
    drawn = [_lanes(summary, title, names, lang) for summary, title in runs]
    hint = say("drag to move; zoom with + and -, or with the wheel after a click; double click shows everything")
    data = {"runs": drawn, "names": list(names), "hint": hint.render(lang)}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return [
        heading(say("timeline").render(lang)),
        paragraphs(
            [
                say(
                    "one row for each stream of the device, and below them one for each thread of the host with what "
                    "it calls; equal names have equal colours; the scale begins with the first step"
                ).render(lang)
            ]
        ),
        '<div id="timeline"></div><p id="timeline-tip"></p>',
        f'<script type="application/json" id="timeline-data">{text}</script>',
    ]


def _lanes(summary: Summary, title: str, names: dict[str, int], lang: str) -> dict[str, Any]:
    """Return the lanes of one run in microseconds; as many whole steps as the page can hold."""
    trace = summary.trace
    start = summary.steps[0].window[0]
    end = summary.steps[-1].window[1]
    starts = sorted(
        [call.start for call in trace.calls if start <= call.start < end]
        + [work.start for work in trace.work if start <= work.start < end]
    )
    shown = len(summary.steps)
    if len(starts) > _MOST_SLICES:
        limit = starts[_MOST_SLICES]
        inside = [step.window[1] for step in summary.steps if step.window[1] <= limit]
        shown, end = len(inside), inside[-1] if inside else limit
        of = say("{title} (up to step {shown} of {all})", title=title, shown=shown, all=len(summary.steps))
        title = of.render(lang)
    lanes: list[dict[str, Any]] = []
    threads: dict[int, list[HostCall]] = {}
    for call in trace.calls:
        if start <= call.start < end:
            threads.setdefault(call.thread, []).append(call)
    for thread, calls in sorted(threads.items()):
        if not any(call.kind in (OPERATOR, RUNTIME) for call in calls):
            continue
        lanes.append(_host_lane(printable(trace.threads[thread]), calls, start, names))
    streams: dict[tuple[int, int], list[list[float]]] = {}
    for work in sorted(trace.work, key=lambda each: each.start):
        if start <= work.start < end and work.device == summary.device:
            number = names.setdefault(printable(work.name), len(names))
            slices = streams.setdefault((work.device, work.stream), [])
            slices.append([(work.start - start) / 1000, (work.end - work.start) / 1000, number, 0])
    for (device, stream), slices in sorted(streams.items()):
        name = say("device {device}, stream {stream}", device=device, stream=stream).render(lang)
        lanes.insert(0, {"name": name, "depth": 1, "slices": slices})
    return {"title": title, "length": (end - start) / 1000, "lanes": lanes}


def _host_lane(name: str, calls: list[HostCall], start: int, names: dict[str, int]) -> dict[str, Any]:
    slices: list[list[float]] = []
    ends: list[int] = []
    deepest = 1
    for call in sorted(calls, key=lambda each: (each.start, -each.end)):
        while ends and ends[-1] <= call.start:
            ends.pop()
        depth = len(ends)
        ends.append(call.end)
        if depth >= _DEEPEST:
            continue
        deepest = max(deepest, depth + 1)
        number = names.setdefault(printable(call.name), len(names))
        slices.append([(call.start - start) / 1000, (call.end - call.start) / 1000, number, depth])
    return {"name": name, "depth": deepest, "slices": slices}
