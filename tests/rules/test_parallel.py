"""Files are examined by several processes where that is worth it, and the first one does something meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.target import Target
from torchferry.rules.engine import Engine
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
