"""What a first accept file asks for: the results of a log, with tolerances that a healthy run keeps."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from torchferry.acceptance import acceptfile, initial
from torchferry.acceptance.gates import STAGES, Gate, GateStatus
from torchferry.acceptance.metrics import MetricBound, judge
from torchferry.acceptance.needs import what_it_takes
from torchferry.acceptance.proposing import LoggedMetric, first_gates, proposed, spread
from torchferry.core.messages import say

HEAD = "2026-01-31 torch 2.1.0+cu121 NVIDIA A100-SXM4-80GB\n"
DETECTOR = """      Epoch    GPU_mem   box_loss   cls_loss  Instances       Size
        {n}/40      2.05G      {loss:.3f}      3.412         40        640: 100%|####| 8/8 [00:03<00:00,  2.21it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|###| 4/4 [00:01<00:00]
                   all        128        929      0.612      0.522      {half:.4f}      {full:.4f}
"""
FINE_TUNE = """{{'loss': {loss:.4f}, 'grad_norm': 1.21, 'learning_rate': 4.5e-05, 'epoch': {n}}}
{{'eval_loss': {full:.4f}, 'eval_runtime': 12.3, 'eval_samples_per_second': 81.2, 'epoch': {n}}}
"""
SEGMENTATION = "epoch {n} loss {loss:.3f} lr 0.01 acc {half:.2f} mIoU {full:.2f}\n"
COCO = """Epoch: [{n}]  [ 99/100]  eta: 0:00:00  lr: 0.005  loss: {loss:.4f} (1.2)  loss_box: 0.4 (0.5)  max mem: 4020
IoU metric: bbox
 Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = {full:.4f}
 Average Precision  (AP) @[ IoU=0.50      | area=   all | maxDets=100 ] = {half:.4f}
 Average Recall     (AR) @[ IoU=0.50:0.95 | area=   all | maxDets=  1 ] = 0.311
"""
LOGS = {
    "detector": (DETECTOR, ("mAP50", "mAP50-95"), 0.01),
    "fine-tune": (FINE_TUNE, ("eval_loss",), 0.02),
    "segmentation": (SEGMENTATION, ("acc", "mIoU"), 0.4),
    "coco": (COCO, ("AP",), 0.004),
}


def log(folder: Path, kind: str, seed: int, count: int = 40, scale: float = 1.0) -> Path:
    """Write the log of a run; another seed is another healthy run, another scale is one that learns less."""
    text, _, noise = LOGS[kind]
    source = random.Random(seed)
    lines = [HEAD]
    for n in range(count):
        risen = 1 - math.exp(-n / 8)
        full = {"segmentation": 60.0, "fine-tune": 1.9}.get(kind, 0.47)
        value = (2.6 - 0.7 * risen * scale) if kind == "fine-tune" else full * risen * scale
        values = {"full": value + source.gauss(0, noise), "half": 1.3 * value + source.gauss(0, noise)}
        lines.append(text.format(n=n, loss=2 - risen * scale + source.gauss(0, 0.03), **values))
    path = folder / f"{kind}-{seed}-{count}-{scale}.log"
    path.write_text("".join(lines))
    return path


def gates(path: Path) -> tuple[LoggedMetric, ...]:
    metrics = proposed(path)
    return metrics[: first_gates(metrics)]


def is_kept(metric: LoggedMetric, path: Path) -> bool:
    bound = MetricBound("<=" if metric.less else ">=", metric.last, metric.tolerance or 0.0, metric.unit, metric.unit)
    return judge(path, metric.name, bound, metric.pattern).met


@pytest.mark.parametrize("kind", LOGS)
def test_results_come_first_and_a_healthy_run_keeps_them(kind: str, tmp_path: Path) -> None:
    cuda = log(tmp_path, kind, 0)
    metrics = gates(cuda)
    assert tuple(metric.name for metric in metrics) == LOGS[kind][1]
    assert all(metric.tolerance is not None and metric.tolerance > 0 for metric in metrics)
    for seed in range(1, 16):
        assert all(is_kept(metric, log(tmp_path, kind, seed)) for metric in metrics)
    worse = log(tmp_path, kind, 99, scale=0.6)
    assert not any(is_kept(metric, worse) for metric in metrics)


@pytest.mark.parametrize("kind", LOGS)
def test_what_too_few_values_cannot_say_has_to_be_filled_in(kind: str, tmp_path: Path) -> None:
    cuda = log(tmp_path, kind, 0, count=3)
    assert {metric.tolerance for metric in gates(cuda)} == {None}
    (tmp_path / "torchferry.accept.toml").write_text(
        initial.text(initial.facts(tmp_path), initial.logged(cuda, cuda.name)), encoding="utf-8"
    )
    with pytest.raises(Exception, match="is empty: fill in a number"):
        acceptfile.read(tmp_path / "torchferry.accept.toml")


def test_counters_and_rates_are_no_results(tmp_path: Path) -> None:
    for kind in LOGS:
        names = {metric.name for metric in proposed(log(tmp_path, kind, 0))}
        assert not names & {"epoch", "lr", "IoU", "maxDets", "mem", "Instances", "eval_runtime", "grad_norm", "data"}
    path = tmp_path / "silent.log"
    path.write_text(HEAD + "done\n")
    assert proposed(path) == ()
    assert "no metric that is known" in initial.text(initial.facts(tmp_path), initial.logged(path, "silent.log"))


def test_the_spread_of_values() -> None:
    assert spread([1.0, 2.0] * 7) is None
    assert spread([1.0] * 20) is None
    assert spread([9.0] * 8 + [1.0, 1.1] * 4) == 0.2
    assert spread([100.0, 101.0] * 10) == 2.0


def test_each_gate_says_what_it_would_take() -> None:
    for stage in STAGES:
        for part in ("", "anything"):
            gate = Gate(stage, f"{stage}.{part}".rstrip("."), GateStatus.NOT_JUDGED, say("-"), say("-"))
            if part and stage in (
                "environment",
                "syntax",
                "loads",
                "runs",
                "stability",
                "errors",
                "speed",
                "logs",
                "documents",
            ):
                continue  # these have one gate, or gates that are always judged
            assert what_it_takes(gate).render("en")
            assert what_it_takes(gate).render("zh") != what_it_takes(gate).render("en")
    left_out = what_it_takes(gate, is_left_out=True).render("en")
    assert left_out == f"take `{STAGES[-1]}` out of [gates.not-judged]"
