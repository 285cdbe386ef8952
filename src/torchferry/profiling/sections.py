"""What is said of a run beside its steps and operators: one table each, the same in text and on the page."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Message, say, translatable
from torchferry.core.record import NamedTuple
from torchferry.ops.report import amount
from torchferry.profiling.critical_path import LINKS, CriticalPath
from torchferry.profiling.formatting import microseconds, milliseconds, percent, printable, size_text
from torchferry.profiling.launches import FULL, LATE, SLOW
from torchferry.profiling.summary import Summary

LINK_TITLES = {
    "compute": translatable("the device computes"),
    "communication": translatable("the device communicates"),
    "copies": translatable("the device copies"),
    "gap": translatable("holes between works that wait in a stream"),
    "launch": translatable("from the call that starts a work to its begin"),
    "driver": translatable("calls of the driver on the host"),
    "operators": translatable("operators on the host"),
    "data": translatable("the host waits for the next batch"),
    "outside": translatable("the host outside of operators"),
    "unknown": translatable("the trace does not explain it"),
}


class Section(NamedTuple):
    """A table of a report.

    Attributes:
        title: What it is about.
        heads: Titles of the columns after the first.
        rows: Its rows, most important first.
        legend: What its columns mean, where their titles do not say it; None for nothing.
        is_sum: Whether its rows are the parts of a whole, so that none of them can be left out.
    """

    title: Message
    heads: tuple[Message | str, ...]
    rows: list[list[Message | str]]
    legend: Message | None = None
    is_sum: bool = False

    def shown(self, most: int, lang: str) -> list[list[str]]:
        """Return its rows as text, at most so many where rows can be left out."""
        rows = self.rows if self.is_sum else self.rows[:most]
        return [[cell if isinstance(cell, str) else cell.render(lang) for cell in row] for row in rows]


def sections(summary: Summary) -> Iterator[Section]:
    """Yield the tables on a run that have something to say."""
    steps = len(summary.steps)
    whole = sum(summary.step_times)

    def times(time: int, calls: int) -> list[Message | str]:
        return [milliseconds(time / steps), percent(time, whole), f"{calls / steps:.1f}"]

    usual = (say("ms a step"), say("% of a step"), say("calls a step"))
    if summary.fallbacks:
        rows = [[printable(name), f"{calls / steps:.1f}"] for name, calls in summary.fallbacks]
        yield Section(say("operators that went to the CPU"), (say("calls a step"),), [[*row] for row in rows])
    if summary.waits or summary.numbers_read:
        numbers = say(
            "numbers read from tensors, as .item() does: {count} a step", count=f"{summary.numbers_read / steps:.1f}"
        )
        named = ((f"{row.name} ({row.within})" if row.within else row.name, row) for row in summary.waits)
        yield Section(
            say("the host waits for the device"),
            usual,
            [[printable(name), *times(row.time, row.calls)] for name, row in named],
            numbers if summary.numbers_read else None,
        )
    if summary.copies:
        copied: list[list[Message | str]] = []
        for copy in summary.copies:
            time, share, calls = times(copy.time, copy.calls)
            size = size_text(copy.size if copy.size < 0 else copy.size // steps)
            copied.append([printable(copy.name), time, share, size, calls])
        heads = (say("ms a step"), say("% of a step"), say("size a step"), say("calls a step"))
        yield Section(say("copies"), heads, copied)
    yield from _communication(summary)
    yield from _launches(summary)
    if summary.path is not None:
        yield from _path(summary.path)
    if summary.peaks:
        held: list[list[Message | str]] = []
        for peak in summary.peaks:
            owner = say("host") if peak.device < 0 else say("device {number}", number=peak.device)
            taken = amount(peak.reserved) if peak.reserved > 0 else ""
            held.append([owner, size_text(peak.allocated), taken])
        yield Section(say("memory at most"), (say("in use"), say("taken")), held)


def _communication(summary: Summary) -> Iterator[Section]:
    if not summary.collectives:
        return
    steps, whole = len(summary.steps), sum(summary.step_times)
    rows: list[list[Message | str]] = []
    for row in summary.collectives:
        speed = "?" if row.bandwidth is None else f"{row.bandwidth / 1e9:.3g}"
        time, share = milliseconds(row.time / steps), percent(row.time, whole)
        rows.append([printable(row.name), size_text(row.size), time, share, f"{row.calls / steps:.1f}", speed])
    heads = (say("size"), say("ms a step"), say("% of a step"), say("calls a step"), "GB/s")
    hidden = summary.overlap.share
    legend = None
    if hidden is not None:
        legend = say("{share} % of the communication is hidden behind computing", share=f"{100 * hidden:.1f}")
    yield Section(say("collectives"), heads, rows, legend)


def _launches(summary: Summary) -> Iterator[Section]:
    """Yield how the host starts work, and how much waits in the streams."""
    steps = len(summary.steps)
    if summary.launches:
        heads = (
            say("calls a step"),
            say("call µs"),
            say("work µs"),
            say("delay µs"),
            say("longest delay µs"),
            say("late"),
            say("slow"),
            say("short"),
        )
        rows: list[list[Message | str]] = [
            [
                printable(row.name),
                f"{row.calls / steps:.1f}",
                *(microseconds(time) for time in (row.host, row.device, row.delay, row.delay_most)),
                *(percent(count, row.calls) for count in (row.late, row.slow, row.short)),
            ]
            for row in summary.launches
        ]
        legend = say(
            "medians; late: % of the calls whose work begins more than {late} µs after them; slow: % that take more "
            "than {slow} µs; short: % whose work is shorter than the call",
            late=LATE // 1000,
            slow=SLOW // 1000,
        )
        yield Section(say("calls that start work"), heads, rows, legend)
    if summary.queues:
        whole = sum(summary.step_times)
        rows = [
            [
                say("device {device}, stream {stream}", device=row.device, stream=row.stream),
                f"{row.works / steps:.1f}",
                f"{row.mean:.1f}",
                f"{row.median:g}",
                str(row.most),
                percent(row.full, whole),
            ]
            for row in summary.queues
        ]
        queue_heads = (say("works a step"), say("mean"), say("median"), say("most"), say("% of a step full"))
        legend = say(
            "works that were started and have not begun, at each change; with {count} the host has to wait", count=FULL
        )
        yield Section(say("queues of the streams"), queue_heads, rows, legend)


def _path(path: CriticalPath) -> Iterator[Section]:
    length = path.window[1] - path.window[0]
    rows: list[list[Message | str]] = [
        [say(LINK_TITLES[kind]), milliseconds(time), percent(time, length)]
        for kind, time in sorted(zip(LINKS, path.parts, strict=True), key=lambda part: -part[1])
        if time
    ]
    title = say("what the step waits for (critical path)")
    if path.step:
        title = say("what {step} waits for (critical path)", step=printable(path.step))
    legend = say("what is shortened here shortens the step; the rest is done beside it")
    yield Section(title, ("ms", "%"), rows, legend, is_sum=True)
    named: list[list[Message | str]] = [
        [printable(row.name), say(LINK_TITLES[row.kind]), milliseconds(row.time), percent(row.time, length)]
        for row in path.rows
        if row.name
    ]
    if named:
        yield Section(say("longest on this path"), ("", "ms", "%"), named)
