"""Options of command lines that programs of the project take as a device, whatever they are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.small import target_of, write
from torchferry.core.finding import Grade
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

BEGIN = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
END = "args = parser.parse_args()\nx = torch.ones(2)\n"


@pytest.mark.parametrize(
    ("command", "declared", "used", "grade"),
    [
        ("--card cuda", '"--card", default="cpu"', "x.to(args.card)", Grade.SAFE),
        ("--card=cuda:0", '"--card"', "torch.ones(2, device=args.card)", Grade.SAFE),
        ("--run-on cuda", '"--run-on"', "torch.device(args.run_on)", Grade.SAFE),
        ("-c cuda", '"-c", dest="kind"', "x.to(args.kind)", Grade.SAFE),
        ("--卡 cuda", '"--卡"', "x.to(args.卡)", Grade.SAFE),
        ("--comm nccl", '"--comm"', "torch.distributed.init_process_group(args.comm)", Grade.SAFE),
        ("--name cuda", '"--name"', "open(args.name + '.txt', 'w')", None),
        ("--name cuda", '"--other"', "x.to(args.other)", None),
    ],
)
def test_an_option_is_what_the_program_makes_of_it(
    tmp_path: Path, command: str, declared: str, used: str, grade: Grade | None
) -> None:
    program = f"{BEGIN}parser.add_argument({declared})\n{END}{used}\n"
    write(tmp_path, {"train.py": program, "run.sh": f"python train.py {command}\n"})
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target_of("npu"), rules()))
    found = [each for item in analysis.examined if item.path == "run.sh" for each in item.findings]
    assert [(each.code, each.grade) for each in found] == ([] if grade is None else [("SHL101", grade)])


@pytest.mark.parametrize(
    ("script", "columns"),
    [
        ("D=cuda:0\npython train.py --card $D\n", [3]),
        ('D=cuda\npython train.py --device "${D}"\n', [3]),
        ("for each in cuda:0 cuda:1; do python train.py --card $each; done\n", [13, 20]),
        ("C=nccl\npython train.py --dist-backend $C\n", [3]),
        ("D=cuda\npython train.py --name $D\n", []),
    ],
)
def test_a_variable_is_what_the_option_takes_that_it_is_given_to(
    tmp_path: Path, script: str, columns: list[int]
) -> None:
    program = f'{BEGIN}parser.add_argument("--card")\n{END}x.to(args.card)\n'
    write(tmp_path, {"train.py": program, "run.sh": script})
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target_of("npu"), rules()))
    found = [each for item in analysis.examined if item.path == "run.sh" for each in item.findings]
    assert [each.location.column for each in found] == columns


def test_command_lines_in_python_and_notebooks_are_read_so(tmp_path: Path) -> None:
    program = f'{BEGIN}parser.add_argument("--card")\n{END}x.to(args.card)\n'
    started = 'import subprocess, sys\nsubprocess.run([sys.executable, "train.py", "--card", "cuda"])\n'
    cell = {"cell_type": "code", "source": ["!python train.py --card cuda"], "metadata": {}, "outputs": []}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    write(tmp_path, {"train.py": program, "start.py": started, "run.ipynb": notebook})
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target_of("npu"), rules()))
    found = {item.path: [each.grade for each in item.findings] for item in analysis.examined if item.path != "train.py"}
    assert found == {"start.py": [Grade.SAFE], "run.ipynb": [Grade.SAFE]}


def test_options_of_click_are_parameters_of_the_function(tmp_path: Path) -> None:
    text = "import click\nimport torch\n@click.command()\n@click.option('--card')\n"
    text += "def main(card):\n    torch.ones(2).to(card)\nmain()\n"
    write(tmp_path, {"train.py": text, "run.sh": "python train.py --card cuda\n"})
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target_of("npu"), rules()))
    assert [each.grade for item in analysis.examined if item.path == "run.sh" for each in item.findings] == [Grade.SAFE]
