"""The tools over a whole process: `launcher.py` begins one when torch is imported, and ends it with the process.

A tool is imported only when it begins: each imports what no other needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchferry.numerics.framework.launcher import ProcessTool, note_found
from torchferry.numerics.framework.steps import Steps


class _ProcessTool:
    """What ends with the process.

    Args:
        end: Ends the examination and returns what was found, in values that JSON has.
    """

    def __init__(self, end: Callable[[], dict[str, Any]]) -> None:
        self._end = end

    def finish(self) -> dict[str, Any]:
        """End the examination and return what was found."""
        return self._end()


def begin_nan(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to look for NaN and infinity, as `torchferry nan` does."""
    from torchferry.numerics.nan.tracker import NanInfTracker

    tracker = NanInfTracker(**options)
    tracker.leave_to_summary(lambda document: note_found(folder, document))
    tracker.__enter__()
    os.register_at_fork(after_in_child=tracker.rest)

    def end() -> dict[str, Any]:
        tracker.__exit__(None, None, None)
        return tracker.document()

    return _ProcessTool(end)


def begin_compare(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to compare operators with the CPU, as `torchferry compare` does."""
    from torchferry.numerics.compare.tool import CompareWithCPU

    lang = options.pop("lang", "en")
    tool = CompareWithCPU(**options)
    steps = Steps()
    steps.after.append(tool.step)
    steps.start()
    tool.__enter__()

    def end() -> dict[str, Any]:
        steps.stop()
        tool.__exit__(None, None, None)
        return tool.document(lang)

    return _ProcessTool(end)


def begin_record(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to record, as `torchferry compare record` does; `folder` is the session's, not the record's."""
    from torchferry.numerics.recording.recorder import Recorder, RecordOptions

    recorder = Recorder(RecordOptions.of(options))
    recorder.start(by_optimizer=True)
    os.register_at_fork(after_in_child=recorder.forget)
    return _ProcessTool(recorder.stop)


def begin_ranks(options: dict[str, Any], folder: Path) -> ProcessTool:
    """Begin to compare ranks: each `every` steps, waiting `timeout` seconds for who is late."""
    from torchferry.numerics.ranks import RankWatch

    watch = RankWatch(int(options.get("every", 1)), float(options.get("timeout", 60.0)))
    watch.start()

    def end() -> dict[str, Any]:
        watch.stop()
        return {"ranks": watch.document()}

    return _ProcessTool(end)
