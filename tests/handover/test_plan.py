"""The plan of a scan: its phases in their order, the scan's own counts, commands that exist."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.process import torchferry
from tests.handover.made import EXAMPLE
from torchferry.cli import cli


def scan(*arguments: str) -> subprocess.CompletedProcess[str]:
    return torchferry("scan", EXAMPLE, "-t", "npu", "--lang", "en", *arguments)


def test_a_plan_has_the_counts_of_the_scan() -> None:
    plan = json.loads(scan("--plan", "-f", "json").stdout)
    report = json.loads(scan("-f", "json").stdout)
    assert (plan["kind"], plan["schema"]) == ("torchferry plan", 1)
    assert plan["counts"] == report["counts"]
    assert plan["programs"] == len(report["programs"])
    assert [phase["name"] for phase in plan["phases"]] == [
        "environment", "code", "libraries", "verification", "tuning", "handover"
    ]  # fmt: skip
    commands = [step["command"] for phase in plan["phases"] for step in phase["steps"]]
    measured, changed = (
        next(i for i, text in enumerate(commands) if word in text) for word in ("--baseline", "migrate")
    )
    assert measured < changed, "the baseline is measured before anything is changed"
    steps = [step for phase in plan["phases"] for step in phase["steps"]]
    assert {report["counts"]["safe"], report["counts"]["unsafe"]} <= {step["count"] for step in steps}
    later = {"accept"}  # a command that another part of torchferry brings
    named = {shlex.split(step["command"])[1] for step in steps if step["command"]}
    assert named - later <= set(cli.list_commands(None))  # type: ignore[arg-type]
    assert "handover" in named


def test_a_plan_is_a_list_to_tick_off_and_says_no_time() -> None:
    done = scan("--plan")
    assert done.returncode == 1
    assert done.stdout.count("\n## ") == 6
    assert done.stdout.count("- [ ] ") > 10
    assert not {"day", "days", "hour", "hours", "week"} & set(done.stdout.split())


@pytest.mark.parametrize(("target", "told"), [("npu", 3), ("musa", 0)])  # of musa nobody has published it
def test_attention_kernels_are_counted_with_what_their_loss_costs(tmp_path: Path, target: str, told: int) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport flash_attn\n\nimport xformers.ops\n")
    (tmp_path / "requirements.txt").write_text("flash-attn\nbitsandbytes\n")
    arguments = ("scan", tmp_path, "-t", target, "--lang", "en")
    plan = torchferry(*arguments, "--plan").stdout
    assert "- [ ] 2 places ask for attention kernels of CUDA\n" in plan
    assert ("0.5 to 0.7 times the speed" in plan) == bool(told)
    findings = json.loads(torchferry(*arguments, "-f", "json").stdout)["findings"]
    assert sum("0.5 to 0.7 times the speed" in found["message"] for found in findings) == told


@pytest.mark.parametrize("arguments", [[EXAMPLE, "-f", "html"], [EXAMPLE / "train.py"]])
def test_a_plan_is_of_a_project(arguments: list[object]) -> None:
    done = torchferry("scan", *arguments, "-t", "npu", "--lang", "en", "--plan")
    assert done.returncode == 2
    assert "--plan is about a whole project" in done.stderr
