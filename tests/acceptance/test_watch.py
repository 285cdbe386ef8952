"""What `accept` sees of a program from inside, without changing it."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from torchferry.acceptance.watch import ProcessWatch


def test_a_program_that_torch_jit_traces_is_seen_and_its_graph_is_its_own(tmp_path: Path) -> None:
    model, values = torch.nn.Sequential(torch.nn.Linear(3, 2)), torch.ones(1, 3)
    alone = str(torch.jit.trace(model, values).inlined_graph)  # type: ignore[no-untyped-call]
    watch = ProcessWatch(tmp_path)
    watch.start()
    try:
        watched = str(torch.jit.trace(model, values).inlined_graph)  # type: ignore[no-untyped-call]
    finally:
        seen = watch.finish()
    assert watched.count("aten::") == alone.count("aten::")
    assert json.loads(json.dumps(seen))["models"][0] == {"name": "Sequential", "parameters": 8, "devices": ["cpu"]}
