"""What the doctor advises on machines with Moore Threads cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.recorded import KERNEL, commands, node


def test_joining_the_group_render_as_the_manual_says(tmp_path: Path) -> None:
    nodes = {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=109, usable=False)}
    there = commands("node.access", "musa", tmp_path / "a", {"/etc/group": "render:x:109:\n"}, nodes=nodes)
    assert there == ["sudo usermod -aG render mia"]
    nodes = {"/dev/dri/renderD128": node("/dev/dri/renderD128", gid=0, usable=False)}
    absent = commands("node.access", "musa", tmp_path / "b", {"/etc/group": "root:x:0:\n"}, nodes=nodes)
    assert absent == ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"]


RENDER = "/dev/dri/renderD128"


GROUPS: dict[str, tuple[str, dict[str, tuple[int, int]], list[str]]] = {
    "the card's node comes first, and the group has no name": (
        "root:x:0:\n",
        {"/dev/mtgpu.0": (109, 0o660), RENDER: (109, 0o660)},
        ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"],
    ),
    "root's, with a mode that lets a group in": (
        "root:x:0:\n",
        {"/dev/mtgpu.0": (0, 0o660), RENDER: (0, 0o660)},
        ["sudo groupadd -o -g 109 render", "sudo usermod -aG render mia"],
    ),
    "the group is there under another number": (
        "render:x:993:\n",
        {RENDER: (109, 0o660)},
        [f"sudo chgrp render {RENDER}", "sudo usermod -aG render mia"],
    ),
    "another group has them": ("video:x:44:\n", {RENDER: (44, 0o660)}, ["sudo usermod -aG video mia"]),
    "nobody knows which group it should be": (
        "",
        {"/dev/mtgpu.0": (109, 0o660)},
        ["ls -l /dev/mtgpu.0", "sudo setfacl -m u:mia:rw /dev/mtgpu.0"],
    ),
    "the mode": ("", {RENDER: (109, 0o640)}, [f"ls -l {RENDER}", f"sudo chmod g+rw {RENDER}"]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_who_is_let_in_is_judged_by_the_node_whose_group_is_known(name: str, tmp_path: Path) -> None:
    groups, nodes, wanted = GROUPS[name]
    closed = {path: node(path, gid=gid, mode=mode, usable=False) for path, (gid, mode) in nodes.items()}
    assert commands("node.access", "musa", tmp_path, {"/etc/group": groups}, nodes=closed) == wanted


def test_a_module_that_is_built_needs_only_loading(tmp_path: Path) -> None:
    built = {f"/lib/modules/{KERNEL}/modules.dep": "updates/dkms/mtgpu.ko:\n"}
    assert commands("driver.module", "musa", tmp_path, built)[0] == "sudo modprobe mtgpu"
