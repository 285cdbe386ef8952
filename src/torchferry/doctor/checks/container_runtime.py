"""On a host with Docker: does Docker know the vendor's container runtime?"""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.json_text import parsed_json
from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Result, passed, skipped, unknown, warned


@check("container.runtime", rank=6, side="container", title=say_in("check", "container runtime"), needs_card=True)
def container_runtime(context: CheckContext) -> Iterator[Result]:
    """Read Docker's settings file."""
    container = context.requirements.container
    if container_info(context.host).evidence:
        yield skipped(say("this is a container; the host's Docker is not visible from here"))
        return
    if context.host.which("docker") is None:
        yield skipped(say("there is no Docker on this host"))
        return
    if not container.runtime:
        yield skipped(say("the vendor has no known container runtime; pass the device nodes to containers"))
        return
    text = context.host.read("/etc/docker/daemon.json")
    try:
        settings = parsed_json(text or "{}")
        runtimes = settings.get("runtimes", {})
        default = settings.get("default-runtime", "")
    except (ValueError, AttributeError) as error:
        yield unknown(say("/etc/docker/daemon.json cannot be parsed: {error}", error=error), "docker info")
        return
    if container.runtime in runtimes or default == container.runtime:
        yield passed(
            say("the runtime {name} is registered with Docker", name=container.runtime), source=container.source
        )
    else:
        yield warned(
            say("the runtime {name} is not registered with Docker", name=container.runtime),
            say("the vendor's container toolkit is not installed, or not bound to Docker"),
            container.bind or "docker info --format '{{.Runtimes}}'",
            "sudo systemctl restart docker",
            advice=say("device nodes and paths can also be passed one by one: {run}", run=container.run),
            source=container.source,
        )
