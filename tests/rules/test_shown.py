"""What messages show in place of what was found, where a fix writes it: the same as the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry
from torchferry.backends.portable import PortableTarget
from torchferry.backends.target import Target
from torchferry.rules.engine import Engine
from torchferry.rules.registry import rules
from torchferry.source.kinds import Kind
from torchferry.source.tree import Entry

SHOWN = {
    # a line of Python: what npu, and what portable code has in its place
    'x = torch.ones(2, device="cuda")': ("npu", "U.device_string()"),
    'x = torch.ones(2, device="cuda:0")': ("npu:0", "U.device_string(0)"),
    'x = torch.ones(2, device=f"cuda:{rank}")': ("npu:", "U.device_string(rank)"),
    'x = torch.ones(2, device="cuda:%d" % rank)': ("npu:%d", "U.device_string(rank)"),
    'torch.load("a.pt", map_location="cuda:1")': ("npu:1", "U.load_location(1)"),
    'y = x.device.type == "cuda"': ("npu", "U.ACCELERATOR_TYPE"),
    'open_device("cuda:1")': ("npu:1", "U.device_string(1)"),
    'for d in ["cuda:0", "cpu"]: torch.ones(2, device=d)': ("npu:0", "U.device_string(0)"),
}


@pytest.mark.parametrize("line", SHOWN)
@pytest.mark.parametrize("portable", [False, True], ids=["npu", "portable"])
def test_messages_show_what_a_device_becomes(tmp_path: Path, line: str, portable: bool) -> None:
    (tmp_path / "a.py").write_text(f"import torch\n{line}\n", encoding="utf-8")
    backend = registry.load("npu")
    target = PortableTarget(backend, "", "U") if portable else Target(backend)
    found = Engine(tmp_path, target, rules()).examine(Entry("a.py", Kind.PYTHON)).findings
    devices = [finding for finding in found if finding.code in ("DEV101", "DEV102")]
    assert [dict(finding.message.values)["device"] for finding in devices] == [SHOWN[line][portable]]
    if devices[0].edits and portable:
        assert SHOWN[line][1] in {edit.text for edit in devices[0].edits}


@pytest.mark.parametrize(
    ("listed", "shown"),
    {
        "torch @ git+https://user:pw@x.org/torch.git\ntorch_npu==1.9\n": "torch",
        "torch @ https://user:pw@x.org/torch-2.1.0%2Bcpu-cp310-cp310-any.whl#a\ntorch_npu==2.5.1\n": "torch==2.1.0+cpu",
    }.items(),
)
def test_an_address_of_torch_is_not_shown(tmp_path: Path, listed: str, shown: str) -> None:
    (tmp_path / "requirements.txt").write_text(listed, encoding="utf-8")
    engine = Engine(tmp_path, Target(registry.load("npu")), rules())
    found = engine.examine(Entry("requirements.txt", Kind.REQUIREMENTS)).findings
    assert [dict(each.message.values)["torch"] for each in found if each.code == "DEP107"] == [shown]
