"""What people who migrate to Tecorigin cards ask most, of the migration and of its precision, and who answers it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.doctor.recorded import commands, python
from torchferry.cli import cli

PROGRAM = """\
import torch
model = torch.nn.Linear(2, 2).cuda()
torch.backends.cuda.matmul.allow_tf32 = True
torch.distributed.init_process_group("nccl")
"""

SCRIPT = """\
export NVIDIA_TF32_OVERRIDE=0
export CUDA_LAUNCH_BLOCKING=1
export CUDA_VISIBLE_DEVICES=0
python train.py
"""

SCAN = ("scan", ".", "-v")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("api", "torch.cuda.synchronize"), "torch.sdaa.synchronize"),
        (("api", "torch.cuda.amp.GradScaler"), "torch.sdaa.amp.GradScaler"),
        (SCAN, "`tccl`"),
        (SCAN, "SDAA_VISIBLE_DEVICES"),
        (SCAN, "SDAA_LAUNCH_BLOCKING"),  # an error that is told at another place
        (("api", "torch.backends.cuda.matmul.allow_tf32"), "TORCH_SDAA_LINEAR_HIGHPREC"),
        (SCAN, "TORCH_SDAA_CONV_USE_FP32"),  # products and convolutions that are less exact than float32
        (SCAN, "convolutions compute in float16 inside unless"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_question_has_an_answer(
    question: tuple[str, ...], answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "train.sh").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(cli, [*question, "-t", "sdaa"]).output
    assert answer in said, said


def test_a_failing_import_is_answered_with_what_mends_it(tmp_path: Path) -> None:
    error = "ImportError: libsdaart.so: cannot open shared object file: No such file or directory"
    modules = {name: f"/venv/{name}/__init__.py" for name in ("torch", "torch_sdaa")}
    machine = {**python(modules=modules), "imported": {"error": error, "version": ""}}
    assert "source /opt/tecoai/setvars.sh" in commands("python.import", "sdaa", tmp_path, {}, **machine)
