"""The functions of the plugin's distributed module, each handed on to torch's own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch as _torch
import torch.distributed as _dist
from torch.distributed import (
    GroupMember,
    P2POp,
    ReduceOp,
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    batch_isend_irecv,
    broadcast,
    destroy_process_group,
    get_backend,
    get_rank,
    get_world_size,
    group,
    irecv,
    is_initialized,
    is_torchelastic_launched,
    isend,
    recv,
    reduce,
    reduce_op,
    reduce_scatter,
    send,
)

from torch_gcu.distributed._apart import keep_apart as _keep_apart
from torchferry.rehearsal import events as _events
from torchferry.rehearsal import facade_support as _facade_support

__all__ = [
    "Backend",
    "GroupMember",
    "P2POp",
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "destroy_process_group",
    "get_backend",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_eccl_available",
    "is_initialized",
    "is_torchelastic_launched",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "send",
]

_TIMEOUT = timedelta(minutes=30)


class Backend:
    """The names of the backends that the plugin has."""

    UNDEFINED = "undefined"
    ECCL = "eccl"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        """Return the backend that `name` means, `undefined` for any other than eccl."""
        if not isinstance(name, str):
            raise _events.refusal(ValueError(f"Backend name must be a string, but got: {name}"))
        return getattr(cls, name.upper(), cls.UNDEFINED)


def _eccl(name: str) -> str:
    backend = Backend(name)
    if backend != Backend.ECCL:
        raise _events.refusal(RuntimeError("only support eccl"))
    return backend


def is_eccl_available() -> bool:
    """Whether ECCL is there."""
    return True


def init_process_group(
    backend: str,
    init_method: str | None = None,
    timeout: timedelta = _TIMEOUT,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
) -> None:
    """Make the group of all processes.

    Raises:
        RuntimeError: `backend` is not eccl.
    """
    _keep_apart()
    _dist.init_process_group(_eccl(backend), init_method, timeout, world_size, rank, store, group_name, pg_options)


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta = _TIMEOUT,
    backend: str | None = None,
    pg_options: Any = None,
) -> Any:
    """Make a group of some processes; every process has to call it."""
    return _dist.new_group(ranks, timeout, None if backend is None else _eccl(backend), pg_options)


def barrier(group: Any = GroupMember.WORLD, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait until all processes of a group are here; as the plugin's own, it takes `device_ids` and looks at none."""
    group = GroupMember.WORLD if group is None else group
    if group is GroupMember.NON_GROUP_MEMBER:
        return None
    options = _dist.BarrierOptions()
    options.device = _torch.device("xla")  # torch's own would ask which accelerator it knows, and this is none of them
    work = group.barrier(options)
    if async_op:
        return work
    work.wait()
    return None


def get_local_rank() -> int:
    """Return the rank on this machine, which is not rehearsed."""
    return _facade_support.stubs(__name__, ["get_local_rank"])["get_local_rank"]()
