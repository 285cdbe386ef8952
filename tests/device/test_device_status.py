"""The example of batches: what it logs of each batch, and that its page asks for the state of the device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.warm_python import ferry, python
from torchferry.device.one_file import one_file

pytest.importorskip("torch")
pytestmark = pytest.mark.rehearsal

EXAMPLE = Path(__file__).parents[2] / "examples" / "device-status" / "batch.py"

PAGE = """
import contextlib

made = []


class _Part:
    def __init__(self, *values, **options):
        made.append((type(self).__name__, values))

    def tick(self, asked, outputs):
        print("tick", asked())

    def click(self, asked, given, shown):
        print("click", asked(6))


class Textbox(_Part): ...
class Timer(_Part): ...
class Number(_Part): ...
class Button(_Part): ...


class Blocks(contextlib.AbstractContextManager):
    def __exit__(self, *error): ...

    def launch(self):
        print("launched with", *(name for name, _ in made))
"""
"""The few names of gradio that the page uses; what would happen later in a browser happens at once."""

BOTH = """
import sys
from batch import main

for options in ("--images 10 --batch-size 4", "--page --images 6"):
    sys.argv[1:] = options.split()
    main()
"""


def test_batches_are_logged_and_the_page_asks_the_device(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "device_utils.py").write_text(one_file("device_utils.py"), encoding="utf-8")
    (tmp_path / "gradio.py").write_text(PAGE, encoding="utf-8")
    (tmp_path / "both.py").write_text(BOTH, encoding="utf-8")
    command = [ferry(), "-m", "torchferry", "rehearse", "-t", "musa", "--", python(), "both.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    batches = [line for line in done.stderr.splitlines() if line.startswith("batch ")]
    assert [line.partition(" images")[0] for line in batches] == [
        *("batch 1: 4", "batch 2: 4", "batch 3: 2"),
        "batch 1: 6",
    ]
    assert all("images/s; musa:0" in line for line in batches)
    first, tick, click, launched = done.stdout.splitlines()
    assert (first, launched) == ("10 images on musa", "launched with Textbox Timer Number Textbox Button")
    assert tick.startswith("tick musa:0")
    assert click.count(",") == 5


PROGRAM = """
import argparse

import torch

if __name__ == "__main__":
    argparse.ArgumentParser().parse_args()
    print(torch.ones(2**18, device="cuda").sum().item())
"""


@pytest.mark.parametrize("style", ["native", "portable"])
def test_a_migrated_program_says_at_its_end_where_it_ran(style: str, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM, encoding="utf-8")
    migrate = [ferry(), "-m", "torchferry", "migrate", ".", "-t", "npu", "--style", style, "--unsafe-fixes"]
    subprocess.run([*migrate, "--status-line"], cwd=tmp_path, capture_output=True, text=True, check=True)
    twice = subprocess.run([*migrate, "--status-line", "--check"], cwd=tmp_path, capture_output=True, check=False)
    assert twice.returncode == 0, twice.stdout
    ran = {}
    for options in ((), ("--help",)) if style == "native" else ((),):  # help ends it before it uses the card
        command = [ferry(), "-m", "torchferry", "rehearse", "-t", "npu", "--", python(), "train.py"]
        done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        ran[options] = [line for line in done.stderr.splitlines() if re.search(r"; \d+\.\d\d s$", line)]
        assert len(ran[options]) == 1, done.stderr
    dtype = "bfloat16" if style == "portable" else "default torch.float32"
    assert ran[()][0].startswith(f"npu:0 (Ascend 910B), {dtype}: ")
    assert "at most 1." in ran[()][0]
    assert style != "native" or ran["--help",][0].startswith("npu is not used; ")


def test_the_last_line_names_what_is_wrong_with_the_device_and_a_fork_prints_none(tmp_path: Path) -> None:
    from torchferry.device.small_file import small_file

    (tmp_path / "device_utils.py").write_text(small_file({"print_status_at_end"}), encoding="utf-8")
    program = "import os, device_utils; device_utils.print_status_at_end(); os.fork() or exit(); os.wait()"
    for wanted, said in (("cpu", "cpu (CPU), float32: "), ("warp", "warp")):
        environment = {**os.environ, "PREFERRED_DEVICE": wanted}
        done = subprocess.run(
            [python(), "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr.count(" s\n")) == (0, 1), done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
