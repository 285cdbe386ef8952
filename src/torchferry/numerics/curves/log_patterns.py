"""How training loops write a step, an epoch and a rank into a line of text.

Every expression is linear in the length of the line: repetitions are bounded, and no two neighbours can match the same
characters.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_STEP = re.compile(
    r"(?<![\w./@-])(?:global[_ ]?step|step|iter(?:ation)?|batch_idx|update)s?"
    r"(?:\((?:train|val|test)\))?[\"']?\s{0,8}[:=：#]?\s{0,8}[\[(]?\s{0,8}"
    r"(\d{1,15})(?:\s{0,8}/\s{0,8}\d{1,15})?(?!\w|\.\d)",
    re.IGNORECASE,
)
_BATCH = re.compile(
    r"(?<![\w./@-])batch\s{0,4}[:=：#]?\s{0,4}[\[(]?\s{0,8}(\d{1,15})\s{0,8}/\s{0,8}\d{1,15}(?!\w|\.\d)", re.IGNORECASE
)
_EPOCH = re.compile(
    r"(?<![\w./@-])epochs?(?:\((?:train|val|test)\))?[\"']?\s{0,8}[:=：#]?\s{0,8}[\[(\"']?\s{0,8}"
    r"(\d{1,9}(?:\.\d{1,17})?)(?:\s{0,4}/\s{0,4}\d{1,9})?(?![\w.])[\])\"']?"
    r"(?:\s{0,4}\[\s{0,12}(\d{1,15})\s{0,8}/\s{0,8}\d{1,15})?",
    re.IGNORECASE,
)
_TRAIN = re.compile(
    r"(?<![\w./@-])(?:train|test|val)\w{0,10}:?\s{1,4}(\d{1,9})\s{0,4}\[\s{0,12}(\d{1,15})/", re.IGNORECASE
)
_BAR = re.compile(r"\|\s{0,8}(\d{1,15})/\d{1,15}\s{0,4}\[|(?<![\w.])(\d{1,15})it\s{0,4}\[")
_PAIR = re.compile(r"^\s{0,64}\[\s{0,8}(\d{1,9}),\s{0,12}(\d{1,15})\]")
_FRACTION = re.compile(r"\[\s{0,12}(\d{1,15})\s{0,4}/\s{0,4}\d{1,15}\s{0,4}[\](]")
_RANK = re.compile(
    r"(?:(?<![\w.])(?:local[_ ]|global[_ ])?rank[\"']?\s{0,4}[:=]?\s{0,4}[\"']?(-?\d{1,6})(?!\w|\.\d|/)"
    r"|^\s{0,16}\[?(?:rank|default)(\d{1,6})\]?:|\[rank-(\d{1,6})/)",
    re.IGNORECASE,
)
_APART = re.compile(
    r"[(\[]\s{0,4}(val|valid|validation|eval|evaluation|test|testing)\s{0,4}[)\]]"
    r"|^[^\w]{0,16}(val|valid|validation|eval|evaluation|test|testing)\b",
    re.IGNORECASE,
)


class When(NamedTuple):
    """When a line was written, as far as it says so."""

    epoch: float | None
    step: float | None
    rank: int | None
    bar: bool


def when(text: str) -> When:
    """Return what a line says about its epoch, step and rank."""
    epoch: float | None = None
    step: float | None = None
    bar = False
    lower = text.lower()
    if "epoch" in lower and (match := _EPOCH.search(text)):
        epoch = float(match[1])
        step = float(match[2]) if match[2] else None
    if ("step" in lower or "iter" in lower or "update" in lower or "batch" in lower) and (
        match := _STEP.search(text) or _BATCH.search(text)
    ):
        step = float(match[1])
    if step is None and epoch is None and (match := _TRAIN.search(text) or _PAIR.search(text)):
        epoch, step = float(match[1]), float(match[2])
    if step is None and "[" in text and (match := _BAR.search(text)):
        step, bar = float(match[1] or match[2]), True
    if step is None and "/" in text and (match := _FRACTION.search(text)):
        step = float(match[1])
    return When(epoch, step, _rank(text, lower), bar)


def apart(text: str) -> str:
    """Return the word by which a line says that it is of validation or of a test; empty where it says nothing."""
    lower = text.lower()
    if "val" not in lower and "test" not in lower:
        return ""
    match = _APART.search(text)
    return (match[1] or match[2]).lower() if match else ""


def _rank(text: str, lower: str) -> int | None:
    if "rank" not in lower and "default" not in lower:
        return None
    match = _RANK.search(text)
    if not match:
        return None
    rank = int(match[1] or match[2] or match[3])
    return rank if rank >= 0 else None
