"""Are the device nodes there? A program reaches a card through them; in a container they must be passed in."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import say, say_in
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.result import Missing, Result, failed, passed, unverified


@check("node.present", rank=1, side="host", title=say_in("check", "device nodes"), needs_card=True)
def node_present(context: CheckContext) -> Iterator[Result]:
    """Look for each kind of node that the target has."""
    if not context.requirements.nodes:
        yield unverified(say("which device nodes the cards have"))
        return
    nodes_by_rule = {node: context.host.find(node.pattern) for node in context.requirements.nodes}
    present = ", ".join(f"{len(paths)} x {node.pattern}" for node, paths in nodes_by_rule.items() if paths)
    missing = [node for node, paths in nodes_by_rule.items() if not paths]
    sources = "; ".join(dict.fromkeys(node.source for node in missing))
    if present:
        yield passed(say("found: {nodes}", nodes=present))
    if not missing:
        return
    names = ", ".join(node.pattern for node in missing)
    if container_info(context.host).evidence:
        yield failed(
            say("this container has no {nodes}", nodes=names),
            say("this container was started without these device nodes")
            if present
            else say("this container was started without the cards"),
            *filter(None, (context.requirements.container.bind, context.requirements.container.run)),
            advice=say("start the container again: nodes cannot be added to a running container"),
            source=context.requirements.container.source or sources,
            missing=None if present else Missing.CARD,
        )
        return
    loaded = context.driver_loaded
    yield failed(
        say("missing: {nodes}", nodes=names),
        say("the driver is loaded but did not create these nodes; see driver.pci")
        if loaded
        else say("the driver creates these nodes, but it is not loaded; see driver.module"),
        *(("sudo dmesg | tail -n 30",) if loaded else context.requirements.driver.install or ("lsmod",)),
        source=sources,
        missing=None if present else Missing.CARD if loaded else Missing.DRIVER,
    )
