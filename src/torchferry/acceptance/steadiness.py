"""What the log of a run shows against its being stable: values that are no numbers, workers that were started again."""

from __future__ import annotations

import math
import re
from pathlib import Path

from torchferry.acceptance.runs import AcceptanceRun
from torchferry.core.messages import Message, say
from torchferry.numerics.curves.reading import Wanted
from torchferry.numerics.curves.reading import read as read_curves
from torchferry.numerics.curves.records import lines

_RESTART = re.compile(r"restarting worker group|will restart worker group|\bWorker group .* restart", re.IGNORECASE)
"""What torch.distributed.elastic prints when it starts workers again."""


def losses(log: Path) -> dict[str, list[float]]:
    """Return the losses that a log has, by name."""
    found = read_curves(log, Wanted())
    return {
        name: [value for ranks in points.values() for value in ranks.values]
        for name, points in found.points.items()
        if "loss" in name and not name.endswith("scale")
    }


def unsteady(run: AcceptanceRun) -> Message | None:
    """Return what a run shows against its being stable, by its log: a NaN, or workers that were started again."""
    for name, values in losses(run.log).items():
        for number, value in enumerate(values, 1):
            if not math.isfinite(value):
                return say(
                    "value {number} of {metric} is {value}; `torchferry nan` finds where it begins",
                    metric=name,
                    value=value,
                    number=number,
                )
    for line in lines(run.log):
        if _RESTART.search(line.text):
            return say("workers were restarted: {line}", line=line.text.strip()[:120])
    return None
