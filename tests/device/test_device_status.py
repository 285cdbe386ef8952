"""The example of batches: what it logs of each batch, and that its page asks for the state of the device."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    command = [sys.executable, "-m", "torchferry", "rehearse", "-t", "musa", "--", sys.executable, "both.py"]
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
