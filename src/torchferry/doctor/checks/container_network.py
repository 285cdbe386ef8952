"""Has the container the host's network, where ranks of several hosts must meet?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, unknown, warned


@check("container.network", rank=3, side="container", title=say_in("check", "network"))
def container_network(context: CheckContext) -> Iterator[Result]:
    """Look whether every network card is one end of a pair, as on a bridge."""
    around = container_info(context.host)
    container = context.requirements.container
    if not around.evidence:
        yield skipped(say("this is no container"))
    elif around.bridged is None:
        yield unknown(say("whether this container has the host's network cannot be told"), "ls /sys/class/net")
    elif not around.bridged:
        yield passed(say("the container has the host's network"))
    elif "network" in container.flags:
        yield warned(
            say("the container has a network of its own"),
            say("the vendor starts it with the host's network; ranks on other hosts cannot reach it"),
            container.run,
            source=container.source,
        )
    else:
        yield passed(say("the container has a network of its own, which is enough for one host"))
