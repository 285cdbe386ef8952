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
        yield unknown(
            say(
                "{path} shows no network interface: it is unknown whether this container uses the host's network",
                path="/sys/class/net",
            ),
            "ls /sys/class/net",
        )
    elif not around.bridged:
        yield passed(say("the container uses the host's network"))
    elif "network" in container.flags:
        yield warned(
            say("the container has its own network"),
            say(
                "the vendor starts containers with the host's network; ranks on other hosts cannot reach this container"
            ),
            container.run,
            source=container.source,
        )
    else:
        yield passed(say("the container has its own network, which is enough for training on one host"))
