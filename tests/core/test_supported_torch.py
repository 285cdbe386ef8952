"""A torch that no tool can serve is refused by name in every one; in another the tools say nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import HANGS
from torchferry.core import supported_torch
from torchferry.core.errors import TorchferryError
from torchferry.core.messages import say


@pytest.mark.parametrize("version", ["2.1.0", "2.1.0a0+git1", "2.13.0+cpu", "2.99.0", "3.0.0"])
def test_a_torch_that_is_not_too_old_is_not_refused(version: str) -> None:
    supported_torch.require(version, say("a rehearsal"))


@pytest.mark.parametrize("version", ["2.0.1+cu117", "1.10.0"])
def test_the_refusal_names_the_version_the_tool_and_what_serves(version: str) -> None:
    with pytest.raises(TorchferryError) as refused:
        supported_torch.require(version, say("a rehearsal"))
    message, advice = refused.value.lines()
    assert message == (f"torch {version} in {sys.prefix} is too old for a rehearsal: torch 2.1 or later is required")
    assert supported_torch.ran() in advice
    assert "`torchferry device vendor`" in advice


@pytest.mark.parametrize(
    ("version", "tested"),
    [("2.0.1", False), ("2.1.0", True), ("2.6.0+cu124", True), ("2.13.1", True), ("2.99.0", False)],
)
def test_tested_is_what_lies_between_what_ran(version: str, tested: bool) -> None:
    assert supported_torch.is_tested(version) is tested


START = """\
import torch
torch.__version__ = "2.0.1"
"""

TOOLS = {
    "rehearse": "from torchferry.rehearsal import enable; enable('npu')",
    "rehearse: a process": "from torchferry.rehearsal import bootstrap; bootstrap.start()",
    "rehearse: the plugin": "from torchferry.rehearsal import bootstrap; bootstrap.load_device()",
    "nan, compare, record: a process": "from torchferry.numerics.framework.launcher import autoload; autoload()",
    "compare": "from torchferry.numerics import CompareWithCPU",
    "nan": "from torchferry.numerics import NanInfTracker",
    "record": "from torchferry.numerics import Recorder",
    "ranks": "from torchferry.numerics import check_equal_across_ranks",
    "replay": "from torchferry.numerics import compare_for_single_op",
    "pytest": "import pytest; pytest.main(['-q', '-p', 'no:cacheprovider', '--rehearse', 'npu', '.'])",
}


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_refuses_a_torch_that_is_too_old(tool: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n", encoding="utf-8")
    environment = {**os.environ, "TORCHFERRY_NUMERICS": str(tmp_path), "TORCHFERRY_LANG": "en"}
    done = subprocess.run(
        # a Python of its own: the forked ones have imported the tools
        [sys.executable, "-c", START + TOOLS[tool]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert f"torch 2.0.1 in {sys.prefix} is too old for " in done.stdout + done.stderr
    assert "use an environment with torch 2.1 or later" in done.stdout + done.stderr
    if tool.endswith(("process", "plugin")):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
