"""May this user open the nodes? If only root may, tools and programs of others see no card."""

from __future__ import annotations

from collections.abc import Iterator

from torchferry.core.messages import Bilingual, say
from torchferry.doctor.machine import Entry
from torchferry.doctor.patient import Patient
from torchferry.doctor.result import Result, failed, passed, skipped
from torchferry.doctor.surroundings import surroundings

CODE = "node.access"
RANK = 2
SIDE = "host"
TITLE = Bilingual("permission to open the nodes", "设备节点权限")
CARD = True

_MISSING_GROUP_NUMBER = "109"
"""Number that the developer manual of torch_musa (11.1) gives to a group `render` that is missing."""


def check(patient: Patient) -> Iterator[Result]:
    """Ask for reading and writing, and say which group has it."""
    machine = patient.machine
    entries = [
        (node, entry)
        for node in patient.needs.nodes
        for path in machine.find(node.pattern)
        if (entry := machine.entry(path)) is not None
    ]
    if not entries:
        yield skipped(say("there are no device nodes; see node.present"))
        return
    closed = [(node, entry) for node, entry in entries if not entry.usable]
    if not closed:
        who = machine.user.name
        yield passed(say("{user} may open all {count} device nodes", user=who, count=len(entries)))
        return
    node, entry = closed[0]
    group = machine.group_name(entry.gid)
    wanted = node.group or (group if group != "root" else "")
    names = ", ".join(sorted({entry.path for _, entry in closed})[:4])
    what = say("{user} may not open {names}", user=machine.user.name, names=names)
    if surroundings(machine).sign:
        yield failed(
            what,
            say("the user of this container is not in the group that owns them, {group}", group=group),
            f"docker run --group-add {entry.gid} ...",
            source=node.source,
        )
        return
    if not wanted or not entry.mode & 0o060:
        yield failed(
            what,
            say("their mode is {mode}, which lets no group in", mode=f"{entry.mode:04o}"),
            f"ls -l {entry.path}",
            f"sudo chmod g+rw {entry.path}",
            advice=say("a udev rule of the driver sets the mode; installing the driver again restores it"),
            source=node.source,
        )
        return
    yield failed(
        what,
        say("they belong to the group {group}, and the user is not in it", group=wanted),
        *_joining(patient, wanted, entry),
        advice=say("then log in again: groups are read at login"),
        source=node.source,
    )


def _joining(patient: Patient, group: str, entry: Entry) -> tuple[str, ...]:
    join = f"sudo usermod -aG {group} {patient.machine.user.name}"
    if patient.machine.has_group(group):
        return (join,)
    number = str(entry.gid) if entry.gid else _MISSING_GROUP_NUMBER
    return (f"sudo groupadd -o -g {number} {group}", join)
