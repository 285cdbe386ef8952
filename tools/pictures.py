"""Pictures of the stories: drawn from a page, or made by its commands, and compared with those that are kept.

Two machines never draw the same bytes: times differ, and the last digits of numbers. What is compared is what a
picture says:

- a terminal: its words, as versions of rich place them differently
- a flame graph: the names of its modules, but for narrow ones; how wide frames are is time, and on a busy machine any
  operator, also one of the backward pass, may be wide once
- another SVG: its elements, its words without their numbers, and its lines within a twentieth of its width
- a PNG: its size, and its pixels, by their mean difference
"""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import terminal_image

LARGEST = 48_000
"""Bytes of a picture in the documents."""

_WIDE = 10.0
"""Percent of a flame graph; what is as wide in one of two graphs is in the other too, though perhaps narrower."""

_NEAR = 0.05
_PIXELS = 4.0
"""How far the pixels of two pictures may lie apart in the mean, of 255: processors round differently."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FRAME = re.compile(r"(.*): [^:]* ([\d.]+) %", re.DOTALL)
_OPERATOR = re.compile(r".*::.*|\w+Backward\d+", re.DOTALL)


def terminal(lines: list[str], name: str) -> bytes:
    """Return the picture of a terminal with these lines."""
    return terminal_image.image(lines, name.removesuffix(".svg")).encode()


def difference(name: str, kept: bytes, drawn: bytes, *, of_a_terminal: bool) -> str:
    """Return what a kept picture and the one that was drawn now do not have in common; empty if they say the same."""
    if len(kept) > LARGEST:
        return f"{len(kept)} bytes; {LARGEST} are allowed"
    if name.endswith(".png"):
        return _pixels(kept, drawn)
    if of_a_terminal:
        before, now = (terminal_image.words_of(picture.decode()) for picture in (kept, drawn))
        return "" if before == now else "its words differ"
    before_svg, now_svg = (ElementTree.fromstring(picture) for picture in (kept, drawn))  # noqa: S314 - our own
    frames, frames_now = _frames(before_svg), _frames(now_svg)
    if frames or frames_now:
        lacking = [name for name, share in frames.items() if share >= _WIDE and name not in frames_now]
        new = [name for name, share in frames_now.items() if share >= _WIDE and name not in frames]
        return "; ".join([*(f"no longer there: {name}" for name in lacking), *(f"new: {name}" for name in new)])
    return _lines(before_svg, now_svg)


def _frames(svg: ElementTree.Element) -> dict[str, float]:
    """Return the widest share of each name of a flame graph; empty for another picture."""
    frames: dict[str, float] = {}
    for element in svg.iter():
        if element.tag.endswith("}title") and (frame := _FRAME.fullmatch(element.text or "")):
            if _OPERATOR.fullmatch(frame[1]):
                frames.setdefault(frame[1], 0.0)
                continue
            frames[frame[1]] = max(frames.get(frame[1], 0.0), float(frame[2]))
    return frames


def _lines(before: ElementTree.Element, now: ElementTree.Element) -> str:
    """Compare two drawings element by element."""
    elements, elements_now = list(before.iter()), list(now.iter())
    if [element.tag for element in elements] != [element.tag for element in elements_now]:
        return f"{len(elements)} elements, now {len(elements_now)}, or others"
    width = float((before.get("viewBox") or "0 0 1 1").split()[2])
    for old, new in zip(elements, elements_now, strict=True):
        words, words_now = (_NUMBER.sub("0", (element.text or "").strip()) for element in (old, new))
        if words != words_now:
            return f"`{old.text}` is `{new.text}` now"
        for key in ("d", "points", "transform"):
            numbers, numbers_now = ([float(n) for n in _NUMBER.findall(element.get(key, ""))] for element in (old, new))
            if len(numbers) != len(numbers_now):
                return f"a line has {len(numbers)} numbers, now {len(numbers_now)}"
            if any(abs(a - b) > _NEAR * width for a, b in zip(numbers, numbers_now, strict=True)):
                return "a line runs elsewhere"
    return ""


def _pixels(kept: bytes, drawn: bytes) -> str:
    from PIL import Image, ImageChops, ImageStat

    before, now = (Image.open(io.BytesIO(picture)).convert("RGB") for picture in (kept, drawn))
    if before.size != now.size:
        return f"{before.size} pixels, now {now.size}"
    apart = max(ImageStat.Stat(ImageChops.difference(before, now)).mean)
    return f"its pixels differ by {apart:.1f} of 255 in the mean" if apart > _PIXELS else ""
