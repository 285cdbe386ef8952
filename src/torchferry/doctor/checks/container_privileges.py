"""Has the container the privileges that the vendor's own command line gives it?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info, skip_unless_container
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, passed, warned


@check("container.privileges", rank=2, side="container", title=say_in("check", "privileges"))
def container_privileges(context: CheckContext) -> Iterator[Result]:
    """Compare the capabilities with `--privileged`."""
    container = context.requirements.container
    reason = skip_unless_container(context)
    if reason is not None:
        yield reason
    elif "privileged" not in container.flags:
        yield passed(say("no `--privileged` is needed"), source=container.source)
    elif container_info(context.host).privileged:
        yield passed(say("the container is privileged"), source=container.source)
    else:
        yield warned(
            say("the container is not privileged"),
            say("the vendor starts containers with --privileged; without it, the device may not open"),
            container.run,
            source=container.source,
            missing=None if context.card_nodes else Missing.CARD,
        )
