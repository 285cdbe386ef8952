"""One metric of any log: what is found, how it is read, and what is refused rather than guessed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.process import torchferry
from torchferry.acceptance.metrics import ABOUT, AT_LEAST, AT_MOST, MetricBound, find_values, judge
from torchferry.core.errors import UsageError

TEXT = "epoch 1 mIoU: 84.10\nepoch 2 mIoU: 85.01\nepoch 3 mIoU: 84.97 %\n"
YOLO = (
    "       Class     Images  Instances          P          R      mAP50  mAP50-95: 100%|████| 4/4 00:01\r"
    "                 Class     Images  Instances          P          R      mAP50   mAP50-95: 100%|####| 4/4 [00:01]\n"
    "                   all        128        929      0.669       0.661      0.712      0.475\n"
    "                person         61        254       0.80        0.7        0.8        0.5\n"
)
MARKDOWN = "| model | mIoU | note |\n|:---|---:|---|\n| **all** | 84.96% | - |\n"
LINES = '{"step": 1, "mIoU": 0.21}\n{"step": 2, "mIoU": 0.8512}\n'
CSV = "epoch,val/mIoU,val/loss\n1,0.84,0.4\n2,0.8512,0.3\n"
CLASSES = "class mIoU\nroad 0.9\nsky 0.8\n"
EPOCHS = "epoch mIoU\n1 0.4\n2 0.9\n"


@pytest.mark.parametrize(
    ("text", "metric", "numbers"),
    [
        (TEXT, "mIoU", [84.10, 85.01, 84.97]),
        (YOLO, "mAP50-95", [0.475]),
        (YOLO, "mAP50", [0.712]),
        (YOLO, "R", [0.661]),
        (MARKDOWN, "mIoU", [84.96]),
        (LINES, "mIoU", [0.21, 0.8512]),
        (CSV, "val_mIoU", [0.84, 0.8512]),
        (EPOCHS, "mIoU", [0.4, 0.9]),
        ("| mIoU | 84.96% |\n", "mIoU", [84.96]),
        ("Test: Acc@1 75.10 (74.2) Acc@5 92.0\n", "Acc@1", [75.10]),
        ("val mIoU=1,234.5\n", "val mIoU", [1234.5]),
        ("mIoU: nan\n", "mIoU", [math.nan]),
        ("step 1 7,430.9 tokens/s\nstep 2 81 tokens/s\n", "tokens/s", [7430.9, 81]),
        ("1.5 s/it, 12 it/s\nit/s: 13\n", "it/s", [12, 13]),
        ("progress mIoU: 100%|####| 4/4 [00:01<00:00]\n", "mIoU", []),
        ("mIoU: 40\nbaseline mIoU: 85.1\n", "mIoU", [40]),
        ("paper mIoU: 85.1\n", "mIoU", []),
        ("loss 3\nbest loss 0.1\n", "loss", [3]),
        ("best mIoU: 85.1 at epoch 3\n", "mIoU", [85.1]),
        ("val loss 2 best loss 1\n", "loss", [2]),
        ("loss 3\nval loss 0.1\n", "loss", [3]),
        ("train loss 3 val loss 0.1\n", "val loss", [0.1]),
        ("mIoUx: 3\nxmIoU: 4\nval/mIoU: 5\nmIoU50 6\n", "mIoU", []),
        ("[rank0]: loss 0.5\n[rank1]: loss 0.7\n", "loss", [0.5]),
        ("[rank0]: step 1 loss [rank1]: step 1 loss 0.7\n0.5\n[rank0]: step 2 loss 0.4\n", "loss", [0.5, 0.4]),
        ("[rank1]: loss 0.7[rank0]: loss 0.5\n\n", "loss", [0.5]),
        ("[rank0]:| a | mIoU |\n[rank1]:| a | mIoU |\n[rank0]:| all | 85 |\n[rank1]:| all | 84 |\n", "mIoU", [85.0]),
    ],
)
def test_what_is_found(text: str, metric: str, numbers: list[float], tmp_path: Path) -> None:
    log = tmp_path / ("log.csv" if text is CSV else "log.txt")
    log.write_text(text, encoding="utf-8")
    assert [value.number for value in find_values(log, metric)] == pytest.approx(numbers, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "metric", "bound", "met", "value"),
    [
        (TEXT, "mIoU", MetricBound(AT_LEAST, 84.96), True, 84.97),
        (TEXT, "mIoU", MetricBound(AT_LEAST, 85.0), False, 84.97),
        (TEXT, "mIoU", MetricBound(AT_LEAST, 85.0, of="best"), True, 85.01),
        (TEXT, "mIoU", MetricBound(AT_LEAST, 0.8496), True, 0.8497),
        (TEXT, "mIoU", MetricBound(AT_LEAST, 85.4, 0.5), True, 84.97),
        (TEXT, "mIoU", MetricBound(ABOUT, 84.9, 0.1), True, 84.97),
        (LINES, "mIoU", MetricBound(AT_LEAST, 85.12, log_unit="share"), True, 85.12),
        (LINES, "mIoU", MetricBound(AT_LEAST, 0.85), True, 0.8512),
        (LINES, "mIoU", MetricBound(AT_LEAST, 90.0), False, 85.12),  # refused either way: no need to ask
        ("mIoU 0.3\nmIoU 9.1\nmIoU 45.2\n", "mIoU", MetricBound(AT_LEAST, 45.0), True, 45.2),  # learns from below 1 %
        ("mIoU 0.76\nmIoU 76.1\n", "mIoU", MetricBound(AT_LEAST, 76.0, log_unit="%"), True, 76.1),
        ("loss 0.2\nloss 76.1\n", "loss", MetricBound(AT_MOST, 80.0), True, 76.1),
        ("loss 3.2\n", "loss", MetricBound(AT_MOST, 0.5), False, 3.2),  # a loss is no share
        ("mIoU: nan\n", "mIoU", MetricBound(AT_LEAST, 0.0), False, math.nan),
        ("other: 3\n", "mIoU", MetricBound(AT_LEAST, 0.0), False, None),
    ],
)
def test_verdicts(text: str, metric: str, bound: MetricBound, met: bool, value: float | None, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text, encoding="utf-8")
    verdict = judge(log, metric, bound)
    assert verdict.met is met
    assert verdict.value == (None if value is None else pytest.approx(value, nan_ok=True))


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (LINES, MetricBound(AT_LEAST, 84.96)),  # 0.8512 may be a share, or a percentage of a model that learnt nothing
        ("mIoU: 85.1\nmIoU: 0.851\n", MetricBound(AT_LEAST, 84.96)),  # both units in one log
        ("mIoU: 0.76\nmIoU: 76.1\n", MetricBound(AT_LEAST, 76.0)),
        ("mIoU: 0.76\nmIoU: 0.0\nmIoU: 76.1\n", MetricBound(AT_LEAST, 76.0, of="best")),
        ("mIoU: 0.9\nmIoU: 12%\n", MetricBound(AT_LEAST, 10.0)),  # the sign behind one of them alone
        ("mIoU: 6.1\nmIoU: 0.05\n", MetricBound(AT_MOST, 5.5, of="best")),
        (CLASSES, MetricBound(AT_LEAST, 0.5)),  # no row for all
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(text: str, bound: MetricBound, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError):
        judge(log, "mIoU", bound)


@given(st.text(alphabet="mIoU :|%.0123456789\n-eE+na", max_size=200))
def test_no_text_ends_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    log = tmp_path_factory.getbasetemp() / "any.txt"
    log.write_text(text, encoding="utf-8")
    try:
        verdict = judge(log, "mIoU", MetricBound(AT_LEAST, 84.96))
    except UsageError:
        return
    assert not verdict.met or (verdict.value is not None and verdict.value >= 84.96)


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(CSV, encoding="utf-8")
    done = torchferry("accept", "metric", "log.csv", "-m", "mIoU", "--at-least", "84%", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        1,
        "NOT MET: mIoU, wanted >= 84 %\n  `mIoU` never appears in log.csv; the nearest names there: val/mIoU\n",
    )
    done = torchferry(
        "accept", "metric", "log.csv", "-m", "val/mIoU", "--at-least", "85.12%", "--log-unit", "share", cwd=tmp_path
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (
        0,
        "MET: val/mIoU is 85.12 % (the last of 2), wanted >= 85.12 %",
    )
    for options, said in (
        ((), "give exactly one of"),
        (("--at-least", "x"), "is not a number"),
        (("--about", "1"), "needs --tolerance"),
        (("--at-least", "1", "--pattern", "("), "is not a regular expression"),
    ):
        done = torchferry("accept", "metric", "log.csv", "-m", "mIoU", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr


def test_what_may_be_of_training_or_of_validation_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("train loss 3.0 val loss 0.1\n")
    with pytest.raises(UsageError, match="train loss, val loss"):
        find_values(log, "loss")


@pytest.mark.parametrize(
    ("text", "metric", "bound", "said"),
    [
        ("psnr: inf\n", "psnr", MetricBound(AT_LEAST, 30.0), "infinite"),
        ("loss: -inf\n", "loss", MetricBound(AT_MOST, 3.0), "infinite"),
        ("acc: 512 of 600\n", "acc", MetricBound(AT_LEAST, 84.0), "probably another figure"),
    ],
)
def test_figures_that_cannot_be(text: str, metric: str, bound: MetricBound, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    verdict = judge(log, metric, bound)
    assert (verdict.met, said in str(verdict.reason)) == (False, True), verdict
