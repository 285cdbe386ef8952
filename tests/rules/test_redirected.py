"""`--style shim`: what the redirect covers is a note, and the rest is as in native style."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchferry.backends import registry as backends
from torchferry.backends.target import Target
from torchferry.core.finding import Finding
from torchferry.rules.analysis import Request, analyse
from torchferry.rules.registry import rules
from torchferry.source.tree import list_files

COVERED = [
    ("a.py", "import torch\ntorch.zeros(1).cuda()\n", "DEV103"),
    ("a.py", "import torch\ntorch.zeros(1).is_cuda\n", "DEV104"),
    ("a.py", "import torch\ntorch.cuda.synchronize()\n", "CUD101"),
    ("a.py", "import torch\nx = torch.zeros(1, device='cuda')\n", "DEV101"),
    ("a.py", "from torch.cuda.amp import autocast\n", "IMP102"),
    ("a.py", "import torch.distributed as d\nd.init_process_group('nccl')\n", "DST101"),
    ("a.py", "import torch\ntorch.cuda.manual_seed(1)\n", "RNG101"),
    ("run.sh", "python train.py --device cuda:0\n", "SHL101"),
    ("config.yaml", "device: cuda\n", "CFG101"),
]
STAYS = [
    ("run.sh", "nvidia-smi\n", "PRC102"),
    ("a.py", "import os\nos.system('nvidia-smi')\n", "PRC101"),
    ("run.sh", "export CUDA_VISIBLE_DEVICES=0\n", "ENV102"),
    ("run.sh", 'python -c "import torch; torch.zeros(1).cuda()"\n', "SHL103"),
    ("Dockerfile", "FROM nvidia/cuda:12.1\n", "CNT101"),
    ("requirements.txt", "flash-attn\n", "DEP101"),
    ("kernel.cu", "__global__ void f() {}\n", "EXT102"),
    ("a.py", 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', "ENV101"),
    (
        "a.py",
        'import os, torch\nif torch.cuda.is_available():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
        "ENV101",
    ),
    ("a.py", "import flash_attn\n", "ATT101"),
]


def found(root: Path, code: str, redirected: bool, name: str = "npu") -> list[Finding]:
    choice = backends.choose(name)
    target = Target(choice.backend, choice.version)
    analysis = analyse(Request(root, list_files(root), target, rules(), redirected=redirected))
    assert analysis.failures == []
    return [finding for finding in analysis.findings if finding.code == code]


@pytest.mark.parametrize(("path", "text", "code"), COVERED, ids=[row[2] for row in COVERED])
def test_what_the_redirect_covers_is_a_note(path: str, text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / path).write_text(text, encoding="utf-8")
    native, redirected = found(tmp_path, code, False), found(tmp_path, code, True)
    assert "note" not in {finding.grade.value for finding in native}
    assert [finding.location for finding in native] == [finding.location for finding in redirected] != []
    assert {(finding.grade.value, finding.edits, finding.blocker) for finding in redirected} == {("note", (), False)}


@pytest.mark.parametrize(("path", "text", "code"), STAYS, ids=[f"{row[2]}-{row[0]}" for row in STAYS])
def test_the_rest_stays_as_it_is(path: str, text: str, code: str, tmp_path: Path) -> None:
    (tmp_path / path).write_text(text, encoding="utf-8")
    native, redirected = found(tmp_path, code, False), found(tmp_path, code, True)
    assert (
        [(f.location, f.grade, f.edits, f.blocker) for f in native]
        == [(f.location, f.grade, f.edits, f.blocker) for f in redirected]
        != []
    )


@pytest.mark.parametrize(
    ("name", "code"), [("memory_summary()", "MEM101"), ("utilization()", "CUD103"), ("no_such_name()", "CUD106")]
)
def test_a_name_that_the_card_lacks_is_no_note(name: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"import torch\ntorch.cuda.{name}\n")
    assert [finding.grade.value for finding in found(tmp_path, code, True, "ptex")] == ["manual"]
