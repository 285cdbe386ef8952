"""Files are examined by several processes where that is worth it, and the first one does something meanwhile."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.core import forks
from torchferry.rules.engine import Engine
from torchferry.rules.file_result import FileResult
from torchferry.rules.parallel import examine_all
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry


@pytest.mark.parametrize(("files", "jobs", "times"), [(30, 2, 1), (30, 1, 0), (3, 2, 0)])
def test_what_comes_afterwards_is_prepared_where_others_work(tmp_path: Path, files: int, jobs: int, times: int) -> None:
    entries = [Entry(f"{number:02}.py", Kind.PYTHON) for number in range(files)]
    for entry in entries:
        (tmp_path / entry.path).write_text("import torch\ntorch.cuda.synchronize()\n", encoding="utf-8")
    called: list[int] = []
    engine = Engine(tmp_path, Target(registry.load("npu")), rules())
    done = examine_all(engine, entries, False, jobs, meanwhile=lambda: called.append(1))
    assert [item.path for item in done] == [entry.path for entry in entries]
    assert all(item.findings for item in done)
    assert len(called) == times


class _Ending(Engine):
    """Ends the process that examines one file, or never comes back from it."""

    how = ""

    def examine(self, entry: Entry, **options: Any) -> FileResult:
        if entry.path == "20.py":
            (self.root / "taken").touch()
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(3600)
        return super().examine(entry, **options)


@pytest.mark.parametrize(("how", "said"), [("killed", "was killed"), ("hung", "without progress")])
def test_a_file_that_ends_its_process_is_not_examined_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, said: str
) -> None:
    monkeypatch.setattr(forks, "WAIT", 0.2)
    monkeypatch.setattr(forks, "WAITS", 2)
    entries = [Entry(f"{number:02}.py", Kind.PYTHON) for number in range(30)]
    for entry in entries:
        (tmp_path / entry.path).write_text("import torch\ntorch.cuda.synchronize()\n", encoding="utf-8")
    engine = _Ending(tmp_path, Target(registry.load("npu")), rules())
    engine.how = how
    taken = tmp_path / "taken"

    def leave_it_to_the_other() -> None:
        while not taken.exists():
            time.sleep(0.01)

    done = examine_all(engine, entries, False, 2, meanwhile=leave_it_to_the_other)
    assert [item.path for item in done] == [entry.path for entry in entries]
    codes = {item.path: {finding.code for finding in item.findings} for item in done}
    assert codes.pop("20.py") == {"FIL108"}
    assert said in done[20].findings[0].message.render()
    assert all(found and "FIL108" not in found for found in codes.values())
