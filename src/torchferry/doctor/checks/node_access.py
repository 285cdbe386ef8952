"""May this user open the nodes? If only root may, tools and programs of others see no card."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.backends.machine import Node
from torchferry.core.messages import Message, say, say_in, say_plural
from torchferry.doctor.check import check
from torchferry.doctor.container import container_info
from torchferry.doctor.context import CheckContext
from torchferry.doctor.host import Host, HostFile
from torchferry.doctor.result import Result, failed, passed, skipped

_GROUP_MAY = 0o060
"""Bits of the mode with which the group may read and write."""

_MISSING_GROUP_NUMBER = 109
"""Number that the developer manual of torch_musa (11.1) gives to a group `render` that is missing."""


@check("node.access", rank=2, side="host", title=say_in("check", "permission to open the nodes"), needs_card=True)
def node_access(context: CheckContext) -> Iterator[Result]:
    """Ask for reading and writing, and say which group has it."""
    host = context.host
    entries = [
        (node, entry)
        for node in context.requirements.nodes
        for path in host.find(node.pattern)
        if (entry := host.entry(path)) is not None
    ]
    if not entries:
        yield skipped(say("there are no device nodes; see node.present"))
        return
    closed = [(node, entry) for node, entry in entries if not entry.usable]
    if not closed:
        who = host.user.name
        yield passed(
            say_plural(
                "{user} may open {count} device node",
                "{user} may open all {count} device nodes",
                user=who,
                count=len(entries),
            )
        )
        return
    node, entry = next((pair for pair in closed if pair[0].group), closed[0])
    names = ", ".join(sorted({entry.path for _, entry in closed})[:4])
    what = say("{user} may not open {names}", user=host.user.name, names=names)
    if container_info(host).evidence:
        yield failed(
            what,
            say("the user of this container is not in the group that owns them, number {gid}", gid=entry.gid),
            f"docker run --group-add {entry.gid} IMAGE",
            source=node.source,
        )
    elif entry.mode & _GROUP_MAY != _GROUP_MAY:
        yield failed(
            what,
            say("their mode is {mode}, which does not allow a group to read and write", mode=f"{entry.mode:04o}"),
            f"ls -l {entry.path}",
            f"sudo chmod g+rw {entry.path}",
            advice=say("a udev rule of the driver sets the mode; installing the driver again restores it"),
            source=node.source,
        )
    elif entry.gid and (owner := _group_of(host, entry.gid)):
        yield failed(
            what,
            say("they belong to the group {group}, and the user is not in it", group=owner),
            f"sudo usermod -aG {owner} {host.user.name}",
            advice=say("then log in again: groups are read at login"),
            source=node.source,
        )
    elif not node.group:
        yield failed(
            what,
            say("the nodes belong only to root; nobody has verified which group they should have")
            if not entry.gid
            else say("they belong to the group number {gid}, which has no name here", gid=entry.gid),
            f"ls -l {entry.path}",
            f"sudo setfacl -m u:{host.user.name}:rw {entry.path}",
            advice=say(
                "the second command lasts until the node is recreated; a udev rule of the driver sets the group"
            ),
            source=node.source,
        )
    else:
        yield from _without_group(context, what, node, entry)


def _without_group(context: CheckContext, what: Message, node: Node, entry: HostFile) -> Iterator[Result]:
    """The node's group is root's or has no name: make the group that the vendor names, where it is missing."""
    host, group = context.host, node.group
    join = f"sudo usermod -aG {group} {host.user.name}"
    number = entry.gid or _MISSING_GROUP_NUMBER
    group_exists = host.has_group(group)
    yield failed(
        what,
        say("they belong only to root, but should belong to the group {group}", group=group)
        if not entry.gid
        else say("they belong to the group number {gid}, which should be {group}", gid=entry.gid, group=group),
        *((f"sudo chgrp {group} {entry.path}",) if group_exists else (f"sudo groupadd -o -g {number} {group}",)),
        join,
        advice=say("then log in again: groups are read at login")
        if entry.gid or group_exists
        else say("then load the driver again or restart, so that the nodes are given to the group, and log in again"),
        source=node.source,
    )


def _group_of(host: Host, gid: int) -> str:
    """Return the name of a group; empty where its number has none."""
    name = host.group_name(gid)
    return "" if name == str(gid) else name
