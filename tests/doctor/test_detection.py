"""Which target a machine is for, by what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doctor.recorded import Case, context_of, node
from torchferry.doctor.detection import decide, detect

MACHINES: dict[str, tuple[dict[str, str], dict[str, Any], str | None, list[str]]] = {
    "nothing": ({}, {}, None, []),
    "npu by module and node": (
        {"/sys/module/drv_pcie_host/": ""},
        {"nodes": {"/dev/davinci0": node("/dev/davinci0")}},
        "npu",
        ["npu"],
    ),
    "musa by plugin alone": ({"/venv/lib/python3.10/site-packages/torch_musa/": ""}, {}, "musa", ["musa"]),
    "musa by Debian's Python": (
        {"/usr/local/lib/python3.10/dist-packages/torch_musa/": ""},
        {"python": "/usr/bin/python3"},
        "musa",
        ["musa"],
    ),
    "npu by a Python of 64-bit folders": (
        {"/usr/lib64/python3.9/site-packages/torch_npu/": ""},
        {"python": "/usr/bin/python3"},
        "npu",
        ["npu"],
    ),
    "another Python's packages say nothing": (
        {"/usr/local/lib/python3.10/dist-packages/torch_musa/": ""},
        {},
        None,
        [],
    ),
    "sdaa by tool": ({}, {"outputs": {"teco-smi": ""}}, "sdaa", ["sdaa"]),
    "one driver, two families": ({"/sys/module/enflame/version": "1"}, {}, None, ["gcu", "ptex"]),
    "one driver, and the plugin decides": (
        {"/sys/module/enflame/version": "1", "/venv/lib/python3.8/site-packages/ptex/": ""},
        {},
        "ptex",
        ["gcu", "ptex"],
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_there_decides(name: str, tmp_path: Path) -> None:
    files, machine, wanted, seen = MACHINES[name]
    found = detect(context_of(Case("", "npu", (), files, machine=machine), tmp_path).host)
    assert sorted(found) == seen
    assert decide(found) == wanted
