"""`nn.DataParallel` on several devices of one process."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.rehearsal


def test_it_computes_what_the_module_computes(device: str) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    parallel: Any = torch.nn.DataParallel(module)
    assert parallel.device_ids == list(range(len(parallel.device_ids)))
    assert len(parallel.device_ids) > 1
    inputs = torch.randn(10, 4)
    found = parallel(inputs)  # from the host, and from the first device
    assert torch.equal(found, parallel(inputs.to(device)))
    assert found.device == torch.device(device, 0)
    assert torch.equal(found, module(inputs.to(device)))
    found.sum().backward()
    gradient = module[0].weight.grad.clone()
    module.zero_grad()
    module(inputs.to(device)).sum().backward()
    torch.testing.assert_close(gradient, module[0].weight.grad)


def test_a_batch_may_be_smaller_than_the_devices(device: str) -> None:
    parallel = torch.nn.DataParallel(torch.nn.Linear(4, 2).to(device))
    assert parallel(torch.randn(1, 4)).shape == (1, 2)


def test_copies_between_devices(device: str) -> None:
    comm = torch.nn.parallel.comm
    value = torch.arange(4.0, device=f"{device}:0")
    copies = comm.broadcast(value, [0, 1])
    assert [copy.device.index for copy in copies] == [0, 1]
    assert copies[0] is value
    out = [torch.empty(4, device=f"{device}:1")]
    assert torch.equal(comm.broadcast(value, out=out)[0].cpu(), value.cpu())
    parts = comm.scatter(value, [0, 1], chunk_sizes=[1, 3])
    assert [part.numel() for part in parts] == [1, 3]
    assert torch.equal(comm.gather(parts, destination="cpu"), value.cpu())
    assert torch.equal(comm.gather(parts, out=torch.empty(4, device=f"{device}:1")).cpu(), value.cpu())
