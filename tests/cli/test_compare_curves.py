"""`torchferry compare curves` end to end: options, exit codes, files that are written, wrong use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.process import torchferry


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, factor in (("cuda", 1.0), ("near", 1.01), ("far", 1.2), ("below", 0.5)):
        lines = [
            f"TCAPPDLL 2025-05-20 10:11:12.1 - Epoch: 0 Iteration: {step} rank : {rank} "
            f"train.loss : {factor * (1 + rank) * (3 - step / 50):.6f} train.ips : 10.5 imgs/s\n"
            for step in range(100)
            for rank in (1, 0)
        ]
        (tmp_path / f"{name}.log").write_text("".join(lines), encoding="utf-8")
    return tmp_path


ENDS = [
    (["cuda.log", "near.log"], 0, "The target's curve agrees with the reference's."),
    (["cuda.log", "far.log"], 1, "The target's curve does not agree with the reference's: train loss"),
    (["cuda.log", "far.log", "--rtol", "0.25"], 0, "mean relative error 20 % <= 25 %"),
    (["cuda.log", "far.log", "--rule", "flagperf"], 1, "judged from 20 on"),
    (["cuda.log", "below.log", "--rule", "tecorigin"], 0, "this does not show that the target's curve agrees"),
    (["cuda.log", "near.log", "--metric", "train.loss", "--rank", "1"], 0, "only rank 1 is used"),
    (["cuda.log", "near.log", "--all-metrics"], 0, "train ips: meets"),
    (["cuda.log", "near.log", "--smooth", "window:20", "--last", "50"], 0, "smoothed before comparing: window:20"),
    (["cuda.log", "near.log", "--pattern", r"rank : 0 train.loss : (?P<value>\S+)"], 0, "loss: meets"),
    (["cuda.log", "near.log", "--pattern", r"train.loss : (\S+)", "--metric", "l"], 0, "l: meets"),
    (["cuda.log", "near.log", "--reference-run", "cuda.log"], 1, "are identical"),
    (["cuda.log", "near.log", "--lang", "zh"], 0, "目标曲线与参考曲线一致"),
    (["cuda.log", "near.log", "--list-metrics"], 0, "train ips, train loss"),
    (["--list-rules"], 0, "mean_absolute < 0.01 | mean_relative < 0.01"),
    (["cuda.log"], 2, "give two logs"),
    (["cuda.log", "none.log"], 2, "does not exist"),
    (["cuda.log", "near.log", "--rule", "flagpref"], 2, "did you mean `flagperf`"),
    (["cuda.log", "near.log", "--metric", "accuracy"], 2, "metrics in"),
    (["cuda.log", "near.log", "--pattern", "("], 2, "not a regular expression"),
    (["cuda.log", "near.log", "--pattern", "loss"], 2, "has no group for the value"),
    (["cuda.log", "near.log", "--rank", "7"], 2, "ranks in the log: 0, 1"),
    (["cuda.log", "near.log", "--plot", "a.png"], 2, "FILE.svg or FILE.html"),
    (["cuda.log", "near.log", "--plot", "none/a.svg"], 2, "cannot write"),
    (["cuda.log", "near.log", "--smooth", "ema:2"], 2, "is not a way of smoothing"),
    (["cuda.log", "near.log", "--rule", "spread"], 2, "two or more runs"),
    (["cuda.log", "near.log", "--from-step", "1000"], 2, "at or after step 1000"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), ENDS, ids=[" ".join(row[0]) for row in ENDS])
def test_ends(logs: Path, arguments: list[str], code: int, message: str) -> None:
    done = torchferry("compare", "curves", *arguments, cwd=logs)
    assert done.returncode == code, done.stderr
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("form", "begins"), [("json", "{"), ("csv", "metric,"), ("html", "<!doctype html>")])
def test_forms(logs: Path, form: str, begins: str) -> None:
    done = torchferry("compare", "curves", "cuda.log", "near.log", "-f", form, "-o", "out", cwd=logs)
    assert (done.returncode, done.stdout) == (0, "")
    assert (logs / "out").read_text(encoding="utf-8").startswith(begins)
    assert torchferry("compare", "curves", "cuda.log", "far.log", "-f", form, cwd=logs).returncode == 1


def test_json_on_standard_output_is_json_alone(logs: Path) -> None:
    done = torchferry(
        "compare", "curves", "cuda.log", "far.log", "-f", "json", "--plot", "a.svg", "--lang", "zh", cwd=logs
    )
    assert json.loads(done.stdout)["met"] is False
    assert (logs / "a.svg").read_text(encoding="utf-8").startswith("<svg")


def test_nothing_heavy_is_loaded(logs: Path) -> None:
    code = (
        "import sys; sys.argv = ['torchferry', 'cuda.log', 'near.log']\n"
        "from torchferry.cli.compare_curves import command\n"
        "try: command()\n"
        "except SystemExit: pass\n"
        "bad = {'torch', 'numpy', 'tensorboard', 'matplotlib', 'rich'} & set(sys.modules)\n"
        "sys.exit(repr(bad) if bad else 0)"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], cwd=logs, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
