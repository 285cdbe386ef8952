"""Two recorded runs laid beside each other: does `compare diff` call healthy runs the same, and faulty ones different?

    python benchmarks/numerics/two_runs.py [--yolov5 FOLDER] [--steps N] [--models NAME...] [--dtypes NAME...]

The models, and YOLOv5, are those of `faults.py`; both runs are on the simulated card with the same seeds. Healthy pairs
differ in rounding alone: *again* in nothing, *kernels* has its second run without oneDNN, in *parts* every linear layer
and convolution of the second run is computed in two halves that are added. In float32, and under autocast to bfloat16
and float16, of N steps each. A faulty pair has *kernels* as well, and an operator that is wrong from the eleventh step
on: noise of three sizes in forward, and of 1 % in backward. It is *found* when the runs are different, and not before
that step, and *named* when the first difference is there in a module that calls the operator. Each pair is judged by
the limits of its dtype, and by `--envelope`, a third record of the first run with `--perturb`. It says nothing about a
card.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.numerics.faults import MODELS, TARGET, Model, plant, prepared, truth, yolov5
from torchferry import rehearsal
from torchferry.numerics.recording import Recorder
from torchferry.numerics.rundiff.comparison import RunComparison, compare
from torchferry.numerics.runlog.record import read_record
from torchferry.rehearsal.session import Session

YOLO = "YOLOv5"
DTYPES = ("float32", "bfloat16", "float16")
WRONG_FROM = 10
"""The step, from 0, in which a fault begins."""


def in_parts(weight: Tensor, x: Tensor, dim: int, whole: Callable[..., Tensor], *rest: Any) -> Tensor:
    """Compute a product in two halves of what it sums over."""
    half = weight.shape[1] // 2
    first, second = x.split([half, weight.shape[1] - half], dim)
    bias, *others = rest
    done: Tensor = whole(first, weight[:, :half], bias, *others) + whole(second, weight[:, half:], None, *others)
    return done


@contextlib.contextmanager
def parts() -> Iterator[None]:
    """Let every linear layer and convolution add two halves."""
    layer: Any = nn.Linear
    convolutional: Any = nn.Conv2d
    linear, convolution = layer.forward, convolutional._conv_forward

    def halved(self: nn.Linear, x: Tensor) -> Tensor:
        return in_parts(self.weight, x, -1, functional.linear, self.bias)

    def halved_convolution(self: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.groups != 1 or self.padding_mode != "zeros" or self.in_channels < 2:
            whole: Tensor = convolution(self, x, weight, bias)
            return whole
        told = (self.stride, self.padding, self.dilation)
        return in_parts(weight, x, 1, functional.conv2d, bias, *told)

    layer.forward, convolutional._conv_forward = halved, halved_convolution
    try:
        yield
    finally:
        layer.forward, convolutional._conv_forward = linear, convolution


HEALTHY: dict[str, Callable[[], Any]] = {
    "again": contextlib.nullcontext,
    "kernels": lambda: torch.backends.mkldnn.flags(enabled=False),
    "parts": parts,
}


class Judge:
    """Records pairs of runs of one model and lays them beside each other."""

    def __init__(self, name: str, model: Model, session: Session, folder: Path, steps: int) -> None:
        self.name, self.model, self.session, self.folder, self.steps = name, model, session, folder, steps
        self.device = session.backend.DEVICE_TYPE
        self._runs = 0

    def record(
        self, dtype: torch.dtype, around: Any, fault: tuple[str, float] | None = None, perturb: bool = False
    ) -> Path:
        """Train and record; a fault is planted when its step comes."""
        self._runs += 1
        folder, native = self.folder / f"{self.name}-{self._runs}", self.session.native
        train = prepared(self.model, self.device, self.steps, dtype)
        recorder, done = Recorder(folder, first=self.steps, perturb=perturb), Counter[str]()

        def stepped(*_: object) -> None:
            done["steps"] += 1
            if fault is not None and done["steps"] == WRONG_FROM:
                plant(native, fault[0], "noise", fault[1])

        hook = register_optimizer_step_post_hook(stepped)
        try:
            with around:
                recorder.start(by_optimizer=True)
                train()
                result = recorder.stop()
        finally:
            hook.remove()
            if fault is not None:
                plant(native, fault[0], "none", 0.0)
        assert result["steps"] == self.steps, result
        return folder

    def judge(self, dtype: torch.dtype) -> dict[str, Counter[str]]:
        """Judge all pairs in a dtype, and print a line for each."""
        scores = {one: Counter[str]() for one in STANDARDS}
        plain = self.record(dtype, contextlib.nullcontext())
        spread = self.record(dtype, contextlib.nullcontext(), perturb=True)
        for way, around in HEALTHY.items():
            other = self.record(dtype, around())
            for standard, found in compared(plain, other, spread).items():
                scores[standard].update(healthy=1, alarms=not found.same)
                self.say(dtype, way, standard, "the same" if found.same else "different", found)
        calls = truth(self.model, self.device, dtype)
        forward, backward = self.model.forward, self.model.backward
        for base, scale in ((forward, 1e-1), (forward, 1e-2), (forward, 1e-3), (backward, 1e-2)):
            other = self.record(dtype, HEALTHY["kernels"](), (base, scale))
            for standard, found in compared(plain, other, spread).items():
                first = found.first
                seen = not found.same and (first is None or first.step >= WRONG_FROM)
                named = first is not None and first.step == WRONG_FROM and first.module in dict(calls[base])
                scores[standard].update(faults=1, found=seen, named=named)
                verdict = f"{'found' if seen else 'MISSED'}{' named' if named else ''}"
                self.say(dtype, f"{base} {scale:g}", standard, verdict, found)
        return scores

    def say(self, dtype: torch.dtype, what: str, standard: str, verdict: str, found: RunComparison) -> None:
        """Print what came of a pair."""
        first = found.first
        where = "" if first is None else f"step {first.step} {first.phase} {first.module} {first.operator}"
        limits = "" if first is None else f"{first.error:.1e} > {first.limit:.1e}"
        kind = str(dtype).removeprefix("torch.")
        print(f"{self.name:9s} {kind:9s} {what:40s} {standard:10s} {verdict:13s} {where} {limits}".rstrip(), flush=True)


STANDARDS = ("by dtype", "envelope")


def compared(a: Path, b: Path, spread: Path) -> dict[str, RunComparison]:
    """Lay two records beside each other, by each standard."""
    first, second = read_record(a), read_record(b)
    return dict(zip(STANDARDS, (compare(first, second), compare(first, second, read_record(spread))), strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    alone = [name for name, model in MODELS.items() if model.ranks == 1 and model.dtype is torch.float32]
    parser.add_argument("--yolov5", type=Path, help="a copy of the repository; left out, the model is skipped")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--models", nargs="+", default=[*alone, YOLO], choices=[*alone, YOLO])
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, choices=DTYPES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    session = rehearsal.enable(TARGET, devices=1, plugin="simulated")
    total = {(dtype, standard): Counter[str]() for dtype in options.dtypes for standard in STANDARDS}
    for name in options.models:
        if name == YOLO and options.yolov5 is None:
            print(f"{YOLO} skipped: give a copy of its repository with --yolov5", flush=True)
            continue
        model = yolov5(options.yolov5) if name == YOLO else MODELS[name]
        for dtype in options.dtypes:
            with tempfile.TemporaryDirectory() as folder:
                judge = Judge(name, model, session, Path(folder), options.steps)
                for standard, score in judge.judge(getattr(torch, dtype)).items():
                    total[dtype, standard].update(score)
    print("\ndtype     standard    healthy  false alarms  faults  found  named")
    for (dtype, standard), score in total.items():
        row = (score["healthy"], score["alarms"], score["faults"], score["found"], score["named"])
        print("{:9s} {:10s} {:8d} {:13d} {:7d} {:6d} {:6d}".format(dtype, standard, *row))


if __name__ == "__main__":
    main()
