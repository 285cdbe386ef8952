"""Small commands of every day: the help of a command, completion in a shell, and counts by rule."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from torchferry.cli import cli
from torchferry.core.errors import UsageError


@pytest.mark.parametrize("words", [[], ["scan"], ["compare", "diff"], ["skill"]])
def test_help_is_that_of_the_command(words: list[str]) -> None:
    asked = CliRunner().invoke(cli, ["help", *words], prog_name="torchferry")
    said = CliRunner().invoke(cli, [*words, "--help"], prog_name="torchferry")
    assert asked.exit_code == said.exit_code == 0
    assert asked.output == said.output


@pytest.mark.parametrize("words", [["nope"], ["scan", "x"], ["compare", "nope"]])
def test_help_of_what_is_no_command(words: list[str]) -> None:
    done = CliRunner().invoke(cli, ["help", *words])
    assert isinstance(done.exception, UsageError)
    assert "torchferry " + " ".join(words) in done.exception.message.render("en")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(shell: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["completion", shell], prog_name="torchferry")
    assert done.exit_code == 0
    assert f"_TORCHFERRY_COMPLETE={shell}_complete" in done.output
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.output, text=True, check=False).returncode == 0


def test_a_shell_is_told_of_targets_and_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, number, wanted in (("torchferry scan --target n", 3, "npu"), ("torchferry comp", 1, "completion")):
        environment = {"_TORCHFERRY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        done = CliRunner().invoke(cli, [], prog_name="torchferry", env=environment)
        assert f"plain,{wanted}" in done.output


def test_counts_by_rule_add_up(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nx = torch.ones(2).cuda()\ny = x.cuda()\ntorch.cuda.synchronize()\n"
    )
    done = CliRunner().invoke(cli, ["scan", str(tmp_path), "-t", "npu", "--statistics", "--lang", "en", "--isolated"])
    rows = [line.split() for line in done.output.splitlines() if line.startswith("  ")]
    assert done.exit_code == 1
    assert [row[:2] for row in rows] == sorted((row[:2] for row in rows), key=lambda row: (-int(row[0]), row[1]))
    assert ["2", "DEV103"] in [row[:2] for row in rows]
    assert ["1", "CUD101"] in [row[:2] for row in rows]
    refused = CliRunner().invoke(cli, ["scan", str(tmp_path), "-t", "npu", "--statistics", "-f", "json"])
    assert refused.exception is not None
