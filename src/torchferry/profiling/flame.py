"""A flame graph: modules, and operators within operators, as wide as the time that was spent in them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from html import escape

from torchferry.core.messages import say
from torchferry.profiling.formatting import milliseconds, printable
from torchferry.profiling.summary import Summary

_WIDTH, _ROW, _LETTER = 1200.0, 18, 6.6
_NARROWEST = 2.5
"""Pixels; what is narrower is not drawn."""

_DEEPEST = 200


@dataclass
class FlameFrame:
    """A frame of the graph.

    Attributes:
        time: Nanoseconds in it and in all above it.
        frames: What is above it, by name.
    """

    time: int = 0
    frames: dict[str, FlameFrame] = field(default_factory=dict)


def stacks(summary: Summary) -> FlameFrame:
    """Return the frames of a run: its modules, then operators from the outermost to the innermost.

    The time is that on the device, or on the CPU where no device did anything.
    """
    trace, links = summary.trace, summary.links
    own = links.device_self
    if not summary.on_device:
        own = [0] * len(trace.calls)
        for index in links.operators:
            own[index] = max(trace.calls[index].end - trace.calls[index].start - links.inner[index], 0)
    root = FlameFrame()
    for index, time in enumerate(own):
        call = trace.calls[index]
        if not time or not summary.window[0] <= call.start < summary.window[1]:
            continue
        names: list[str] = []
        outer = index
        while outer >= 0 and len(names) < _DEEPEST:
            names.append(trace.calls[outer].name)
            outer = links.operator[outer]
        module = links.module.get(index, "")
        names += reversed(module.split(".")) if module else []
        frame = root
        frame.time += time
        for name in reversed(names):
            frame = frame.frames.setdefault(name, FlameFrame())
            frame.time += time
    return root


def draw(summary: Summary, lang: str) -> str:
    """Return the flame graph of a run as SVG; pointing at a frame shows its name and time."""
    root = stacks(summary)
    where = say("ms on the device") if summary.on_device else say("ms on the CPU")
    drawn: list[str] = []
    depth = _draw(root, 0, 0.0, _WIDTH / max(root.time, 1), root.time, where.render(lang), drawn)
    height = (depth + 1) * _ROW + 30
    title = say("{path}: time in modules and operators", path=summary.trace.path).render(lang)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tf-flame" viewBox="0 0 {_WIDTH:g} {height}" '
        f'font-family="monospace" font-size="11"><style>.tf-flame text{{pointer-events:none}}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/><text x="6" y="18">{escape(title)}</text>'
        f'<g transform="translate(0 28)">{"".join(drawn)}</g></svg>\n'
    )


def _draw(frame: FlameFrame, depth: int, left: float, scale: float, whole: int, unit: str, drawn: list[str]) -> int:
    deepest = depth
    for name, inner in sorted(frame.frames.items(), key=lambda entry: (-entry[1].time, entry[0])):
        width = inner.time * scale
        if width < _NARROWEST:
            continue
        text = printable(name)
        share = 100 * inner.time / whole
        tint = zlib.crc32(name.encode("utf-8", "replace"))
        drawn.append(
            f'<rect x="{left:.1f}" y="{depth * _ROW}" width="{width:.1f}" height="{_ROW - 1}" '
            f'fill="hsl({20 + tint % 40} 85% {62 + tint // 64 % 14}%)">'
            f"<title>{escape(name)}: {milliseconds(inner.time)} {escape(unit)}, {share:.1f} %</title></rect>"
        )
        if len(text) * _LETTER < width - 4:  # most frames are too narrow, and a graph of a large model is a large file
            drawn.append(f'<text x="{left + 3:.1f}" y="{depth * _ROW + 13}">{escape(text)}</text>')
        deepest = max(deepest, _draw(inner, depth + 1, left, scale, whole, unit, drawn))
        left += width
    return deepest
