"""The tracker over a whole program: `torchferry nan -- COMMAND` begins it in each process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torchferry.numerics.framework.launcher import note_found
from torchferry.numerics.nan.tracker import NanInfTracker


class NanProcessTool:
    """A tracker that stands from the import of torch to the end of the process."""

    def __init__(self, tracker: NanInfTracker) -> None:
        self._tracker = tracker
        tracker.__enter__()
        os.register_at_fork(after_in_child=tracker.rest)

    def finish(self) -> dict[str, Any]:
        """End the examination."""
        self._tracker.__exit__(None, None, None)
        return self._tracker.document()


def begin(options: dict[str, Any], folder: Path) -> NanProcessTool:
    """Begin to track this process."""

    def found(document: dict[str, Any]) -> None:
        note_found(folder, document)

    tracker = NanInfTracker(**options)
    tracker.leave_to_summary(found)
    return NanProcessTool(tracker)
