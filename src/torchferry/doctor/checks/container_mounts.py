"""Were the paths of the host mounted that the cards need inside a container?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import skip_unless_container
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, skipped


@check("container.mounts", rank=1, side="container", title=say_in("check", "mounts of the driver"), needs_card=True)
def container_mounts(context: CheckContext) -> Iterator[Result]:
    """Look for the paths; the nodes are judged by node.present."""
    container = context.requirements.container
    reason = skip_unless_container(context)
    if reason is not None:
        yield reason
        return
    if not container.mounts:
        yield skipped(say("this target is not known to need a mounted path of the host"))
        return
    missing = [path for path in container.mounts if context.host.entry(path) is None]
    if missing:
        yield failed(
            say("this container lacks {paths}", paths=", ".join(missing)),
            say("they belong to the host's driver and must be mounted"),
            container.run,
            source=container.source,
            missing=Missing.CARD,
        )
    else:
        yield passed(say("the driver of the host is mounted"), source=container.source)
