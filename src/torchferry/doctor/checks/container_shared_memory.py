"""Is /dev/shm large enough? Data loaders and collectives pass tensors through it."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, failed, passed, unknown, warned

_PLACE = "/dev/shm"  # noqa: S108 - it is asked about, not written to

_DOCKERS_OWN = 64 << 20
"""Bytes that Docker gives when nothing is said (docker run reference, --shm-size)."""

_LITTLE = 8 << 30
"""Bytes below which several loader workers of several ranks run into it: our own measure."""


@check("container.shared_memory", rank=5, side="container", title=say_in("check", "shared memory"))
def container_shared_memory(context: CheckContext) -> Iterator[Result]:
    """Compare its size with Docker's default and with what the vendor asks for."""
    space = context.host.space(_PLACE)
    container = context.requirements.container
    inside = container_info(context.host).evidence
    if space is None:
        yield unknown(say("there is no {path}", path=_PLACE), "mount | grep shm")
        return
    size = space.total >> 20
    wanted = f"{(container.shared_memory or _LITTLE) >> 30}g"
    mend = (
        (f"docker run --shm-size={wanted} IMAGE", "docker run --ipc=host IMAGE")
        if inside
        else (f"sudo mount -o remount,size={wanted} {_PLACE}",)
    )
    if space.total <= _DOCKERS_OWN:
        yield failed(
            say("{path} has {size} MiB", path=_PLACE, size=size),
            say("this is Docker's default; data loaders end with `bus error`"),
            *mend,
            source=container.source,
        )
    elif inside and container.shared_memory and space.total < container.shared_memory:
        yield warned(
            say("{path} has {size} MiB", path=_PLACE, size=size),
            say("the vendor starts containers with --shm-size={wanted}", wanted=wanted),
            *mend,
            source=container.source,
        )
    elif space.total < _LITTLE:
        yield warned(
            say("{path} has {size} MiB", path=_PLACE, size=size),
            say("the data loaders of several ranks may fill it"),
            *mend,
        )
    else:
        yield passed(say("{path} has {size} MiB", path=_PLACE, size=size))
