"""The simulated ptex and torch_gcu of the T20: its device is XLA's, and its process groups are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.rehearsal.facade_process import STEP, Process, first

pytestmark = pytest.mark.rehearsal


def test_ptex_drives_the_device(tmp_path: Path) -> None:
    step = "import torch_gcu\n" + STEP.format(
        device="xla", optimizer="torch.optim.SGD(model.parameters(), lr=0.1)", amp="torch_gcu.amp"
    )
    lazy = """
import torch_gcu
model = torch.nn.Linear(2, 1).to("xla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
before = model.weight.detach().clone()
loss = model(torch.ones(3, 2, device="xla")).sum()
loss.backward()
assert torch_gcu.optimizer_step(optimizer, [loss], model=model, mode=torch_gcu.JitRunMode.SAFEASYNC) is None
assert not torch.equal(before, model.weight)
assert len(torch_gcu.fetch_gradients(optimizer)) == 2 and torch_gcu.collect_buffers(model) == []
"""
    generator = """
try:
    torch.Generator(device="xla")
    raise SystemExit("it has a generator")
except NotImplementedError as error:
    assert "has no generator of its own" in str(error)
assert torch.Generator().manual_seed(1).initial_seed() == 1
"""
    # The first statement: nothing has used the device when the seed is set.
    seeded = """
import ptex, torch_gcu
draws = []
for seed in (ptex.tops.manual_seed_all, torch_gcu.manual_seed_all):
    seed(5)
    draws.append(torch.nn.functional.dropout(torch.ones(64, device="xla"), 0.5).tolist())
assert draws[0] == draws[1]
"""
    process = Process("ptex", tmp_path)
    assert process.run([seeded, first("ptex"), step, lazy, generator]) == ["ok"] * 5
    assert ("missing-api", "torch.Generator") in process.seen


GROUP = """
import os, tempfile, torch.distributed as torchs
import torch_gcu.distributed as dist
file = tempfile.NamedTemporaryFile(delete=False).name
assert not torchs.is_initialized()
dist.init_process_group("eccl", init_method=f"file://{file}", rank=0, world_size=1)
assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_backend() == "eccl"
assert dist.barrier() is None and dist.barrier(async_op=True, device_ids=[0]).wait()
assert not torchs.is_initialized()  # on the card torch's own module has no group
try:
    torchs.get_rank()
    raise SystemExit("torch.distributed has a group")
except RuntimeError as error:
    assert "has not been initialized" in str(error)
dist.destroy_process_group()
"""


def test_ptex_has_a_group_of_its_own(tmp_path: Path) -> None:
    process = Process("ptex", tmp_path)
    assert process.run([first("ptex"), GROUP]) == ["ok"] * 2
    assert ("backend", "torch.distributed.get_rank") in process.seen
