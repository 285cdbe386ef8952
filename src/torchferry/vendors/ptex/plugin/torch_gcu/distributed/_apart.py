"""On the card torch's own distributed module knows nothing of the plugin's group; here both are one, and look apart.

Only a program's own lines are answered so: torch's modules that work on the group go on to see it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as _dist

from torchferry.rehearsal import events as _events

_NAMES = """
    all_gather all_gather_object all_reduce all_to_all all_to_all_single barrier batch_isend_irecv broadcast
    broadcast_object_list destroy_process_group gather gather_object get_backend get_rank get_world_size irecv
    is_initialized isend new_group recv reduce reduce_scatter scatter scatter_object_list send
"""
_done = False


def keep_apart() -> None:
    """Let `torch.distributed` say that it has no group, from when the plugin's module has made one."""
    global _done  # noqa: PLW0603 - torch has one such module a process
    if _done:
        return
    _done = True
    for name in _NAMES.split():
        setattr(_dist, name, _without_group(name, getattr(_dist, name)))


def _without_group(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _events.recorder.called_by_user():
            return original(*args, **kwargs)
        _events.record("backend", f"torch.distributed.{name}", "the group is torch_gcu.distributed's")
        if name == "is_initialized":
            return False
        raise RuntimeError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )

    return call
