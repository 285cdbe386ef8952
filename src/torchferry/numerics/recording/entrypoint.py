"""Record a whole program: from the import of torch to its end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torchferry.numerics.recording.recorder import Recorder, RecordOptions


class RecordProcessTool:
    """A recorder below all modes of the program."""

    def __init__(self, options: RecordOptions) -> None:
        self._recorder = Recorder(options)
        self._recorder.start(by_optimizer=True)
        os.register_at_fork(after_in_child=self._recorder.forget)

    def finish(self) -> dict[str, Any]:
        """End the record and return what it came to."""
        return self._recorder.stop()


def begin(options: dict[str, Any], folder: Path) -> RecordProcessTool:
    """Begin to record this process; `folder` is the session's, not the record's."""
    return RecordProcessTool(RecordOptions.of(options))
