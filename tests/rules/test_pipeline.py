"""The steps behind the rules: each change of a grade is recorded, and only they change one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from torchferry.backends.accelerator import AcceleratorTarget
from torchferry.backends.portable import PortableTarget
from torchferry.backends.target import Target
from torchferry.core.finding import Finding, Grade, Regrading, Stage
from torchferry.report.full_format import by_file
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

SOURCE = Path(__file__).parent.parent.parent / "src" / "torchferry"
NATIVE = Target.named("npu")
PORTABLE = PortableTarget(NATIVE.backend, NATIVE.version, "device_utils")
BY_TORCH = AcceleratorTarget(NATIVE.backend, NATIVE.version)
GUARDED = """\
import torch
if torch.cuda.is_available():
    import flash_attn
    x = flash_attn.flash_attn_func(y, y, y).cuda()
"""
ABOVE_THE_PATH = """\
import torch
x = torch.zeros(1).cuda()
import sys
sys.path.insert(0, "lib")
import own
"""
CHANGED = [
    pytest.param(GUARDED, "a.py", NATIVE, False, "DEV103", Stage.GROUP, Grade.NOTE, id="a guard that stays"),
    pytest.param(
        "import torch\nx = torch.zeros(1).cuda()\n", "a.py", NATIVE, True, "DEV103", Stage.REDIRECT, Grade.NOTE,
        id="the redirect",
    ),
    pytest.param(
        "export CUDA_VISIBLE_DEVICES=0\n", "run.sh", PORTABLE, False, "ENV102", Stage.MACHINE, Grade.MANUAL,
        id="code for every device",
    ),
    pytest.param(
        "device: cuda\n", "config.yaml", PORTABLE, False, "CFG101", Stage.MACHINE, Grade.MANUAL,
        id="a setting that decides on the device",
    ),
    pytest.param(
        "import torch\n@torch.jit.script\ndef f(x):\n    return x.cuda()\n", "a.py", PORTABLE, False, "DEV103",
        Stage.TORCHSCRIPT, Grade.UNSAFE, id="a call that TorchScript cannot compile",
    ),
    pytest.param(
        "import torch\nx = y.cuda(k)\n", "a.py", BY_TORCH, False, "DEV103", Stage.ACCELERATOR, Grade.UNSAFE,
        id="an index that may be a device already",
    ),
]  # fmt: skip


def findings(root: Path, name: str, text: str, target: Target, redirected: bool) -> list[Finding]:
    root.mkdir(exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")
    analysis = analyse(Request(root, list_files(root), target, rules(), redirected=redirected))
    assert analysis.failures == []
    return analysis.findings


def test_what_no_step_changes_has_no_history(tmp_path: Path) -> None:
    text = "import torch\nx = torch.zeros(1).cuda()\nprint(x.device.type == 'cuda')\n"
    kept = findings(tmp_path, "a.py", text, NATIVE, redirected=False)
    assert {finding.code for finding in kept} >= {"DEV101", "DEV103"}
    assert [finding for finding in kept if finding.regradings] == []
    assert [line for line in by_file(kept, "en", verbose=True) if "->" in line] == []


@pytest.mark.parametrize(("text", "name", "target", "redirected", "code", "stage", "grade"), CHANGED)
def test_a_change_is_recorded(
    text: str, name: str, target: Target, redirected: bool, code: str, stage: Stage, grade: Grade, tmp_path: Path
) -> None:
    changed = next(f for f in findings(tmp_path, name, text, target, redirected) if f.code == code)
    assert changed.grade is grade
    assert changed.regradings == (Regrading(stage, Grade.SAFE),)
    assert bool(changed.edits) == (grade is Grade.UNSAFE)
    shown = [line for line in by_file([changed], "en", verbose=True) if "->" in line]
    assert len(shown) == 1
    assert shown[0].strip().startswith("safe fix -> ")
    assert not any("->" in line for line in by_file([changed], "en"))


def test_what_stands_above_the_changes_of_the_path(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "own.py").write_text("import torch\ny = torch.zeros(1).cuda()\n", encoding="utf-8")
    found = findings(tmp_path, "a.py", ABOVE_THE_PATH, PORTABLE, redirected=False)
    changed = [finding for finding in found if finding.regradings]
    assert {regrading.stage for finding in changed for regrading in finding.regradings} <= {Stage.PATH}


def test_only_steps_change_a_grade() -> None:
    """`finding._replace(grade=...)` would leave no trace; a rule may grade what it has not handed on yet."""
    elsewhere = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "core" / "finding.py" and (path.parent.parent != SOURCE / "rules")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "_replace"
        and any(keyword.arg == "grade" for keyword in node.keywords)
    ]
    assert elsewhere == []
