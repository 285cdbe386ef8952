"""Does `torchferry accept` judge YOLOv5 v7.0 by the mAP of its `val.py`? As it is, and with faults.

    python -m benchmarks.acceptance.yolov5 [--corpus DIR] [--target npu] [--keep DIR] [--epochs 20]

DIR (or $TORCHFERRY_CORPUS) has the checkout `ultralytics+yolov5` at v7.0; nothing is fetched. The data are squares,
discs and triangles on noise, and the smallest model is trained on them on the CPU for some minutes. `val.py` of the
original runs on the CPU, which is the baseline; a copy is migrated and judged on the simulated card: no gate may be
red. Then a fault is planted at a time, and its gate has to be red. A slower step is judged on this machine's CPU: a
rehearsal says nothing of speed. Exit code 1: a gate is not as it has to be.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.acceptance.faults import ran, shown
from benchmarks.rehearsal.cases.table import Edit
from benchmarks.rehearsal.cases.versions import ALONE
from benchmarks.rehearsal.realworld import edit_files
from torchferry.acceptance import evidence

SOURCE = "ultralytics+yolov5"
PACKAGES = ("cv2", "matplotlib", "pandas", "seaborn", "torchvision", "tqdm")
METRIC = "mAP50-95"
SIZE = 96
"""Pixels of an image's side."""

IMAGES = {"train": 256, "val": 220}
"""How many; memory is judged over 200 calls of a model, which sees an image at a time."""

_HERE = (
    Edit("utils/metrics.py", "np.trapz(", "np.trapezoid("),  # numpy from 2.4 on has it under its new name only
    Edit("train.py", "nbs = 64", "nbs = 16"),  # so few images make too few steps otherwise
    Edit("val.py", "plots=True,", "plots=False,"),  # a plot fetches its font
    Edit("val.py", "    check_requirements(exclude=('tensorboard', 'thop'))\n", ""),  # it installs packages
)
_VAL = ["val.py", "--weights=weights.pt", "--data=shapes/shapes.yaml", f"--img={SIZE}", "--workers=0", "--project=out"]
_README = f"python {' '.join(_VAL)} --device=0"
_FAILING = _README.replace("val.py", "absent.py")

FILE = """
schema = 1
[source]
url = "https://github.com/ultralytics/yolov5"
commit = "v7.0"
licence = "GPL-3.0"
priority = "official"
[model]
name = "YOLOv5"
variant = "n, trained on shapes"
[data]
name = "shapes"
[baseline]
device = "this machine's CPU"
date = 2026-01-31
versions = { torch = "TORCH" }
log = "baseline.log"
[[baseline.metrics]]
name = "METRIC"
value = VALUE
direction = "±"
tolerance = 0.0005
unit = "share"
[runs.target]
command = COMMAND
time-limit = "20 min"
[gates.migration]
allow = ["CNT101", "DEP101", "DEP102", "DEP105", "DST105", "LIB101", "LIB113", "PRC101"]
[gates.memory]
growth-per-step = "32 KiB"
growth-per-1000-steps = 2.0
[gates.speed]
seconds-per-step = SECONDS
at-least = 0.5
[gates.logs]
lines = { speed = 'Speed: .* inference', results = 'Results saved to' }
[gates.documents]
required = ["README.md", "LICENSE"]
commands = ["README"]
[gates.not-judged]
environment = "the doctor has tests of its own"
"""
"""A person decides what may remain of the migration: the image for CUDA, exports to TensorRT, DataParallel,
and torchvision's `nms`. `val.py` keeps what it found in each image on the card until its end, 11 KiB an image of the
17 MiB that it takes: it is no leak, and the file says how much may come.
"""

_CALL = "            preds, train_out = model(im) if compute_loss else (model(im, augment=augment), None)\n"


def _beside_the_model(before: str = "", after: str = "") -> tuple[Edit, ...]:
    lines = [f"            {line}\n" if line else "" for line in (before, after)]
    return (Edit("val.py", _CALL, _CALL.join(lines)),)


@dataclass(frozen=True)
class Fault:
    """A fault: the gate that has to be red, the edits that plant it, and options of `accept`."""

    gate: str
    edits: tuple[Edit, ...] = ()
    options: tuple[str, ...] = ()


NOISE, README, SLOWER = "1 % noise in the checkpoint", "a command of the README that fails", "a slower step"
FAULTS = {
    NOISE: Fault(f"numbers.{METRIC}"),
    "noise of the card": Fault(
        f"numbers.{METRIC}", options=("--fault", "op=aten.convolution,kind=noise,scale=0.05", "--only", "numbers")
    ),
    "NaN from step 50 on": Fault(
        f"numbers.{METRIC}", _beside_the_model(before="im = im * (float('nan') if batch_i >= 50 else 1)")
    ),
    "a leak": Fault(
        "memory.growth",
        (
            *_beside_the_model(after="kept.append(im.clone())"),
            Edit("val.py", "    for batch_i, (im,", "    kept = []\n    for batch_i, (im,"),
        ),
    ),
    "a line that is not logged": Fault(
        "logs.speed", (Edit("val.py", "LOGGER.info(f'Speed: ", "LOGGER.debug(f'Speed: "),)
    ),
    README: Fault("documents.command-1", (Edit("README.md", _README, _FAILING),)),
}

_DAMAGE = """
import torch
torch.manual_seed(0)
checkpoint = torch.load("weights.pt", map_location="cpu", weights_only=False)
for value in checkpoint["model"].state_dict().values():
    if value.is_floating_point():
        value.mul_(1 + 0.01 * torch.randn(value.shape))
torch.save(checkpoint, "weights.pt")
"""


def shapes(folder: Path) -> None:
    """Write images with one or two squares, discs and triangles, their labels, and YOLOv5's description of both."""
    from PIL import Image, ImageDraw  # type: ignore[import-not-found, unused-ignore]

    random = np.random.default_rng(0)
    for part, count in IMAGES.items():
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for number in range(count):
            image = Image.fromarray(random.integers(0, 100, (SIZE, SIZE, 3), dtype=np.uint8))
            draw = ImageDraw.Draw(image)
            rows = []
            for left in (0, SIZE // 2)[: 1 + number % 2]:
                label, side = int(random.integers(3)), int(random.integers(24, SIZE // 2 - 4))
                x, y = left + int(random.integers(SIZE // 2 - side)), int(random.integers(SIZE - side))
                colour = tuple(random.integers(120, 256, 3).tolist())
                if label == 2:
                    draw.polygon([(x, y + side), (x + side, y + side), (x + side // 2, y)], fill=colour)
                else:
                    (draw.ellipse if label else draw.rectangle)((x, y, x + side, y + side), fill=colour)
                middle = f"{(x + side / 2) / SIZE:.5f} {(y + side / 2) / SIZE:.5f}"
                rows.append(f"{label} {middle} {side / SIZE:.5f} {side / SIZE:.5f}")
            image.save(folder / "images" / part / f"{number:03}.png")
            (folder / "labels" / part / f"{number:03}.txt").write_text("\n".join(rows) + "\n")
    text = "path: shapes\ntrain: images/train\nval: images/val\nnames: {0: square, 1: disc, 2: triangle}\n"
    (folder / "shapes.yaml").write_text(text)


def prepared(source: Path, original: Path, epochs: int) -> str:
    """Copy the checkout, train its smallest model on the CPU and measure it; return the accept file."""
    shutil.copytree(source, original, ignore=shutil.ignore_patterns(".git"))
    edit_files(original, (*ALONE, *_HERE))
    shapes(original / "shapes")
    settings = (original / "data/hyps/hyp.scratch-low.yaml").read_text(encoding="utf-8")
    settings = re.sub(r"(?m)^mosaic: \S+", "mosaic: 0.0", settings)
    settings = re.sub(r"(?m)^warmup_epochs: \S+", "warmup_epochs: 1.0", settings)
    (original / "shapes/hyp.yaml").write_text(settings, encoding="utf-8")
    command = ["train.py", f"--img={SIZE}", "--batch=16", f"--epochs={epochs}", "--data=shapes/shapes.yaml"]
    command += ["--cfg=models/yolov5n.yaml", "--weights=", "--workers=0", "--noplots", "--noautoanchor"]
    command += ["--hyp=shapes/hyp.yaml", "--device=cpu", "--project=trained", "--name=run", "--noval"]
    ran(original, sys.executable, *command)
    shutil.move(original / "trained/run/weights/last.pt", original / "weights.pt")
    shutil.rmtree(original / "trained")
    log = ran(original, sys.executable, *_VAL, "--device=cpu")
    (original / "baseline.log").write_text(log, encoding="utf-8")
    readme = original / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8") + f"\n```bash\n{_README}\n```\n", encoding="utf-8")
    value = next(line.split()[-1] for line in log.splitlines() if line.split()[:1] == ["all"])
    torch_version = ran(original, sys.executable, "-c", "import torch; print(torch.__version__)").strip()
    text = FILE.replace("METRIC", METRIC).replace("VALUE", value).replace("TORCH", torch_version)
    return text.replace('README"]', _README + '"]')


def accept(root: Path, text: str, device: str, seconds: float, *options: str) -> dict[str, float | None]:
    """Judge a folder; return the red gates, each with its value."""
    command = [sys.executable, *_VAL, "--batch-size=1", f"--device={device}"]
    text = text.replace("COMMAND", json.dumps(command)).replace("SECONDS", str(seconds))
    (root / "torchferry.accept.toml").write_text(text, encoding="utf-8")
    ran(root, sys.executable, "-m", "torchferry", "accept", *options, codes=(0, 1))
    gates = evidence.read(root / "evidence")["gates"]
    return {gate["gate"]: gate.get("value") for gate in gates if gate["status"] == "red"}


def judged(original: Path, text: str, target: str, name: str, fault: Fault) -> int:
    """Migrate a copy with a fault planted and judge it; return 1 where the gates are not as they have to be."""
    root = original.with_name("-".join(["migrated", *name.split()]))
    shutil.copytree(original, root)
    edit_files(root, fault.edits)
    if name == NOISE:
        ran(root, sys.executable, "-c", _DAMAGE)
    if name == README:
        text = text.replace(_README, _FAILING)
    ran(root, sys.executable, "-m", "torchferry", "migrate", ".", "-t", target, "-q", codes=(0, 1))
    red = accept(root, text, "0", 1.0, "--rehearse", "-t", target, *fault.options)
    return shown("YOLOv5", [name] if fault.gate else [], {fault.gate} - {""}, list(red))


def slower(original: Path, text: str, target: str) -> int:
    """Judge the speed on the CPU, as it is and with a slower step; return how many verdicts are wrong."""
    plain, slow = (original.with_name(name) for name in ("plain", "slow"))
    for root in (plain, slow):
        shutil.copytree(original, root)
    edit_files(slow, _beside_the_model(after="__import__('time').sleep(0.2)"))
    only = ("-t", target, "--only", "speed")
    share = accept(plain, text, "cpu", 1e-6, *only)["speed"]  # far too slow for this: its value says how slow
    assert share is not None
    seconds = 1e-6 / share
    wrong = shown("YOLOv5", [], set(), list(accept(plain, text, "cpu", seconds, *only)))
    return wrong + shown("YOLOv5", [SLOWER], {"speed"}, list(accept(slow, text, "cpu", seconds, *only)))


def main() -> int:
    """Judge, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=Path(os.environ.get("TORCHFERRY_CORPUS", "absent")))
    parser.add_argument("--target", default="npu")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--epochs", type=int, default=20, help="of the training on the CPU")
    arguments = parser.parse_args()
    source = arguments.corpus / SOURCE
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not source.is_dir() or absent:
        print(f"skipped: {', '.join(absent) + ' not installed' if absent else f'{source} is not there'}")
        return 0
    with tempfile.TemporaryDirectory() as name:
        original = (arguments.keep or Path(name)) / "original"
        text = prepared(source, original, arguments.epochs)
        print("| program | faults | red gates | wrong |\n|---|---|---|---|")
        wrong = judged(original, text, arguments.target, "none", Fault(""))
        for fault, what in FAULTS.items():
            wrong += judged(original, text, arguments.target, fault, what)
        wrong += slower(original, text, arguments.target)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
