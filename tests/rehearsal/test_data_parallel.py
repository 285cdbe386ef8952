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
    torch.testing.assert_close(found, module(inputs.to(device)))  # a product of half the rows may round otherwise
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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda comm, card: comm.scatter(torch.ones(4), []), "at least one device to scatter to"),
        (lambda comm, card: comm.scatter(torch.ones(4), [0, 1], chunk_sizes=[4]), "devices and chunk_sizes"),
        (lambda comm, card: comm.scatter(torch.ones(4), [0, -1]), "must not be negative: -1"),
        (lambda comm, card: comm.scatter(torch.ones(4), out=[card(2), torch.ones(2)]), "index 1 is on cpu"),
        (
            lambda comm, card: comm.scatter(torch.ones(4, 2), out=[card(2, 2), card(2, 3)]),
            r"except for dim 0: \[2, 3\]",
        ),
        (lambda comm, card: comm.gather([]), "at least one tensor to gather from"),
        (lambda comm, card: comm.gather([card(2), torch.ones(2)]), "index 1 is on cpu"),
        (lambda comm, card: comm.gather([card(2, 3), card(2, 4)]), r"except for dim 0: \[2, 4\]"),
        (lambda comm, card: comm.gather([card(2), card(3)], out=card(4)), "has 4 entries in dim 0, not 5"),
        (lambda comm, card: comm.broadcast(card(2), [0, -2]), "must not be negative: -2"),
        (lambda comm, card: comm.broadcast(card(2), out=[card(2), torch.ones(2)]), "index 1 is on cpu"),
        (lambda comm, card: comm.broadcast(card(2), out=[card(3)]), r"index 0 has shape \[3\], not \[2\]"),
        (lambda comm, card: comm.broadcast_coalesced([torch.ones(2)], [0, 1]), r"must be on devices\[0\]: 0"),
    ],
)
def test_what_a_card_refuses_is_refused(device: str, call: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        call(torch.nn.parallel.comm, lambda *shape: torch.ones(*shape, device=f"{device}:0"))
