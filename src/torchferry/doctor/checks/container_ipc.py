"""Has the container the host's IPC namespace, where the vendor's own command line gives it that?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import skip_unless_container
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, unknown, warned

_LINK = "/proc/self/ns/ipc"
_HOSTS = "ipc:[4026531839]"
"""The kernel's first IPC namespace has this number on every machine (Linux, include/linux/proc_ns.h: 0xEFFFFFFF)."""


@check("container.ipc", rank=4, side="container", title=say_in("check", "IPC namespace"))
def container_ipc(context: CheckContext) -> Iterator[Result]:
    """Compare the namespace's number with that of the host's."""
    container = context.requirements.container
    reason = skip_unless_container(context)
    if reason is not None:
        yield reason
        return
    if "ipc" not in container.flags:
        yield passed(say("no `--ipc=host` is needed"), source=container.source)
        return
    namespace = context.host.link(_LINK)
    if namespace is None:
        yield unknown(
            say("cannot read {path}: it is unknown whether this container uses the host's IPC namespace", path=_LINK),
            f"readlink {_LINK}",
        )
    elif namespace == _HOSTS:
        yield passed(say("the container uses the host's IPC namespace"), source=container.source)
    else:
        yield warned(
            say("the container has its own IPC namespace"),
            say(
                "the vendor starts containers with --ipc=host; without it, /dev/shm is small and containers "
                "cannot share memory"
            ),
            container.run,
            source=container.source,
        )
