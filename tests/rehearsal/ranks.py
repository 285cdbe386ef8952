"""Two processes with a device each, on this machine."""

from __future__ import annotations

import socket
import sys
import textwrap

from tests import warm
from tests.processes import HANGS
from tests.rehearsal.child import ENVIRONMENT

_START = """
import os, sys
import torch
import torch.distributed as dist
import torchferry.rehearsal
torch.set_num_threads(1)
session = torchferry.rehearsal.enable({target!r}, {enable}, plugin="simulated")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device(session.backend.DEVICE_TYPE, rank)
collective = session.backend.COLLECTIVE
"""
_GROUP = """
torch.accelerator.set_device_index(rank)
dist.init_process_group(collective, rank=rank, world_size=world)
"""
_END = """
dist.barrier()
dist.destroy_process_group()
"""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run_ranks(
    snippet: str,
    target: str = "musa",
    *,
    world: int = 2,
    enable: str = "devices=2",
    group: bool = True,
    statuses: tuple[int, ...] | None = None,
) -> list[str]:
    """Run `snippet` once for each rank, and return what each printed.

    Args:
        snippet: Python; it finds `torch`, `dist`, `rank`, `world`, `device`, `collective` and `session`.
        target: What is rehearsed.
        world: Number of processes.
        enable: Further arguments of `torchferry.rehearsal.enable`, as source.
        group: Whether the default process group is there.
        statuses: The exit statuses that the processes must have; all 0 without it.
    """
    source = _START.format(target=target, enable=enable) + (_GROUP if group else "")
    source += textwrap.dedent(snippet) + (_END if group and statuses is None else "")
    common = {
        **ENVIRONMENT,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "OMP_NUM_THREADS": "1",
    }
    environments = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]
    ranks = warm.run(source, environments=environments, timeout=HANGS)
    for process, status in zip(ranks, statuses or (0,) * world, strict=True):
        assert process.returncode == status, f"exit status {process.returncode}\n{process.stdout}\n{process.stderr}"
    return [process.stdout for process in ranks]
