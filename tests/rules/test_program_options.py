"""Options of command lines that programs of the project take as a device, whatever they are called."""

from __future__ import annotations

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


def test_options_of_click_are_parameters_of_the_function(tmp_path: Path) -> None:
    text = "import click\nimport torch\n@click.command()\n@click.option('--card')\n"
    text += "def main(card):\n    torch.ones(2).to(card)\nmain()\n"
    write(tmp_path, {"train.py": text, "run.sh": "python train.py --card cuda\n"})
    analysis = analyse(Request(tmp_path, list_files(tmp_path), target_of("npu"), rules()))
    assert [each.grade for item in analysis.examined if item.path == "run.sh" for each in item.findings] == [Grade.SAFE]
