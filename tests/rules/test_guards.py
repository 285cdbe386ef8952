"""Conditions and what they guard: why a part stays or waits, and what a user's own choice does to the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends.target import Target
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.file_result import FileResult, Selection
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

STORED = """\
import torch

class Loader:
    def __init__(self, device):
        self.on_card = device.type == "cuda"

    def side(self):
        if self.on_card:
            return torch.cuda.Stream()
        elif self.on_npu:
            return torch.npu.Stream()
"""
GUARDED = """\
import torch

if torch.cuda.is_available():
    torch.cuda.set_device(0)
    torch.cuda.memory_snapshot()
"""
UNTOUCHED = (
    # what is asked, what stands under the answer, and a list of which the answer is but one part
    "import torch\n\nif torch.cuda.is_available():\n    print('a card')\ntorch.cuda.Stream()\n",
    "import torch\n\nif torch.cuda.is_available():\n    run()\nelse:\n    torch.cuda.Stream()\n",
    "import torch\n\nready = torch.cuda.is_available()\nprint(ready)\ntorch.cuda.Stream()\n",
    "import torch\n\nif not torch.cuda.is_available():\n    print('no card')\ntorch.cuda.Stream()\n",
    "import torch\n\ndef run(ready):\n    if ready:\n        torch.cuda.Stream()\n\nrun(torch.cuda.is_available())\n",
    "import torch\n\nassert torch.cuda.is_available()\ntorch.cuda.Stream()\n",
    "import torch\n\nwith_cards = [torch.cuda.is_available(), torch.cuda.Stream()]\n",
)


def examine(root: Path, text: str, target: str, selection: Selection = Selection()) -> FileResult:  # noqa: B008
    root.mkdir(exist_ok=True)
    (root / "input.py").write_text(text, encoding="utf-8")
    request = Request(root, list_files(root), Target.named(target), rules(), selection=selection, rewrite=True)
    analysis = analyse(request)
    assert analysis.failures == []
    return analysis.examined[0]


def said(found: FileResult, line: int) -> list[str]:
    return [str(finding.message) for finding in found.findings if finding.location.line == line]


def test_a_condition_says_which_line_keeps_it(tmp_path: Path) -> None:
    found = examine(tmp_path, STORED, "npu")
    assert found.after is None
    (message,) = said(found, 5)
    assert message.endswith("(line 8 belongs to it and stays: there is already a branch for Huawei Ascend)")


def test_a_condition_says_which_line_it_waits_for(tmp_path: Path) -> None:
    found = examine(tmp_path, GUARDED, "ptex")
    assert found.after is None or b"torch.cuda.set_device" in found.after
    assert [
        message
        for line in (3, 4)
        for message in said(found, line)
        if "(line 5 would have to change with it but cannot)" in message
    ]


def test_a_condition_says_which_line_makes_it_doubtful(tmp_path: Path) -> None:
    found = examine(tmp_path, GUARDED, "sdaa")
    assert all(
        message.endswith("(line 5 changes with it, and that is a fix to read)")
        for message in said(found, 3) + said(found, 4)
    )
    whole = examine(tmp_path, GUARDED, "sdaa", Selection(unsafe=True))
    assert whole.after is not None
    assert b"cuda" not in whole.after


@pytest.mark.parametrize("line", [3, 4])
def test_a_part_that_the_user_keeps_keeps_the_rest(tmp_path: Path, line: int) -> None:
    lines = GUARDED.replace("torch.cuda.memory_snapshot()", "pass").splitlines()
    lines[line - 1] += "  # torchferry: ignore[CUD101] ours"
    found = examine(tmp_path, "\n".join(lines) + "\n", "npu")
    assert found.after is None
    (message,) = said(found, 7 - line)
    assert message.endswith(f"(line {line} would have to change with it but is kept)")


def test_what_was_mended_by_hand_lets_the_rest_change(tmp_path: Path) -> None:
    found = examine(tmp_path, GUARDED.replace("torch.cuda.memory_snapshot()", "pass"), "ptex")
    assert found.after is not None
    assert b"torch.cuda" not in found.after


@pytest.mark.parametrize("text", UNTOUCHED)
def test_what_is_not_guarded_does_not_wait(tmp_path: Path, text: str) -> None:
    found = examine(tmp_path, text, "ptex")
    assert found.after is not None
    assert b"torch_gcu.is_available()" in found.after
    assert b"torch.cuda.Stream()" in found.after


EQUAL = """\
import torch

def report(step):
    form = "step {step}"
    if torch.cuda.is_available():
        form += " memory {memory}"
    values = {"step": step}
    if torch.cuda.is_available():
        values["memory"] = torch.cuda.memory_snapshot()
    return form.format(**values)
"""
OF_ONE_CLASS = """\
import torch

class Timer:
    def __init__(self):
        self.start = None
        if torch.cuda.is_available():
            self.start = torch.cuda.memory_snapshot()

    def stop(self, x):
        if x.is_cuda:
            return self.start.elapsed()
"""
OF_A_MODULE = """\
import torch

if torch.cuda.is_available():
    start = torch.cuda.memory_snapshot()

def stop():
    if torch.cuda.is_available():
        print(start)
"""
INDEPENDENT = """\
import torch

def main(model):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    if torch.cuda.is_available():
        print(torch.cuda.memory_snapshot())

def other(model):
    if torch.cuda.is_available():
        model.to("cuda")
"""


@pytest.mark.parametrize("text", [EQUAL, OF_ONE_CLASS, OF_A_MODULE])
def test_conditions_that_rest_on_one_another_change_together(tmp_path: Path, text: str) -> None:
    found = examine(tmp_path / "together", text, "ptex")
    assert found.after is None or (b"torch_gcu" not in found.after and b"xla" not in found.after)
    mended = text.replace("torch.cuda.memory_snapshot()", "torch.ones(2)")
    after = examine(tmp_path / "mended", mended, "ptex").after
    assert after is not None
    assert b"cuda" not in after


def test_a_condition_that_chooses_a_device_stands_by_itself(tmp_path: Path) -> None:
    after = examine(tmp_path, INDEPENDENT, "ptex").after
    assert after is not None
    assert after.count(b"torch_gcu.is_available()") == 2
    assert after.count(b"torch.cuda.is_available()") == 1
