"""How figures and names of traces are written in text, pages and advice."""

from __future__ import annotations

from collections.abc import Sequence

from torchferry.core.messages import Message
from torchferry.core.terminal import visible
from torchferry.ops.report import amount

WIDEST_NAME = 60


def milliseconds(time: float) -> str:
    """Return nanoseconds as milliseconds with four digits: `38.55`."""
    value = time / 1e6
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.{3 if abs(value) < 10 else 2 if abs(value) < 100 else 1}f}"


def microseconds(time: float) -> str:
    """Return nanoseconds as microseconds: `4.9`."""
    value = time / 1e3
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def percent(part: float, whole: float) -> str:
    """Return a share in per cent; nothing of nothing."""
    return f"{100 * part / whole:.1f}" if whole else ""


def size_text(size: int) -> str:
    """Return a number of bytes as text: `12.3 MiB`; `?` for one that the trace does not say."""
    return "?" if size < 0 else amount(size)


def heads(lang: str, *titles: Message | str) -> list[str]:
    """Return the titles of columns."""
    return [title if isinstance(title, str) else title.render(lang) for title in titles]


def printable(text: str) -> str:
    """Return a name of a trace, shortened, without characters that move the cursor."""
    clean = visible(text)
    return clean if len(clean) <= WIDEST_NAME else clean[: WIDEST_NAME - 3] + "..."


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by linear interpolation between the closest ranks, as numpy does by default."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    lower = int(at)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (at - lower)
