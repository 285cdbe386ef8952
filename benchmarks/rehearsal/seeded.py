"""Thirty mistakes, one at a time, in a migrated YOLOv5 v7.0: each must fail or be listed, with the line that has it.

    python benchmarks/rehearsal/seeded.py --source YOLOV5 [--only NAME]

YOLOV5 is a checkout of ultralytics/yolov5 v7.0. It is migrated to a temporary folder for each target that a mistake
speaks of; a mistake is an edit of one line, and the run is one epoch of `train.py` on generated images. Caught means
that the summary has an event at that line that says so, or that the run failed with that line in its traceback, or with the line of the
project where what it made is used.
"""

# ruff: noqa: E501 - a mistake is a row of a table

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

COMMAND = (
    "train.py --img 128 --batch 8 --epochs 1 --weights= --cfg models/yolov5n.yaml --device 0 --workers 0 --noplots"
)
TELLING = {"cuda-remnant", "cuda-question", "missing-api", "unverified-api", "missing-operator", "fallback"} | {
    "missing-dtype", "noted-dtype", "narrowed", "mixed-devices", "out-of-memory", "rank", "identity", "synchronisation"
}  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    """One edit.

    Attributes:
        name: What is wrong.
        file: File of the migrated project.
        old: Text of the line to change; the first occurrence.
        new: What it becomes.
        target: Where the run goes.
        options: More options of `torchferry rehearse`.
        profile: TOML of the user's own profile.
        command: What to run in place of `COMMAND`.
        wanted: Kinds of events that tell of it; a failed run with the line in its traceback does too.
    """

    name: str
    file: str
    old: str
    new: str
    target: str = "musa"
    options: tuple[str, ...] = ()
    profile: str = ""
    command: str = COMMAND
    wanted: frozenset[str] = frozenset()


def _m(name: str, file: str, old: str, new: str, wanted: str, **more: object) -> Mistake:
    return Mistake(name, file, old, new, wanted=frozenset(wanted.split()), **more)  # type: ignore[arg-type]


UTILS, LOSS, YOLO, TRAIN = "utils/torch_utils.py", "utils/loss.py", "models/yolo.py", "train.py"
DDP = "-m torch.distributed.run --nproc_per_node 2 --master_port 29655 " + COMMAND.replace("--device 0", "--device 0,1")
S80 = ("--card", "S80")

MISTAKES = [
    # CUDA left in place
    _m("is_available left", UTILS, "and torch.musa.is_available():  # prefer", "and torch.cuda.is_available():  # prefer", "cuda-question"),
    _m("device string left", UTILS, "arg = 'musa:0'", "arg = 'cuda:0'", "cuda-remnant"),
    _m("properties left", UTILS, "p = torch.musa.get_device_properties(i)", "p = torch.cuda.get_device_properties(i)", "cuda-remnant"),
    _m("GradScaler left", TRAIN, "torch.musa.amp.GradScaler(enabled=amp)", "torch.cuda.amp.GradScaler(enabled=True)", "cuda-remnant"),
    _m("autocast left", TRAIN, "with torch.musa.amp.autocast(amp):", "with torch.cuda.amp.autocast(True):", "cuda-remnant"),
    _m("memory left", TRAIN, "torch.musa.memory_reserved() / 1E9 if torch.musa.is_available()", "torch.cuda.memory_reserved() / 1E9 if torch.musa.is_available()", "cuda-remnant"),
    _m("empty_cache left", TRAIN, "    torch.musa.empty_cache()", "    torch.cuda.empty_cache()", "cuda-remnant"),
    _m("device_count left", TRAIN, "RANK == -1 and torch.musa.device_count() > 1", "RANK == -1 and torch.cuda.device_count() > 1", "cuda-question"),
    _m("synchronize left", "utils/general.py", "            torch.musa.synchronize()", "            torch.cuda.synchronize()", "cuda-remnant"),
    _m(".cuda() left", LOSS, "device = next(model.parameters()).device", "device = next(model.cuda().parameters()).device", "cuda-remnant"),
    _m("seed left", "utils/general.py", "torch.musa.manual_seed_all(seed)", "torch.cuda.manual_seed_all(seed)", "cuda-remnant"),
    _m("map_location left", TRAIN, "model = Model(cfg, ch=3", "torch.zeros(1).to('cuda'); model = Model(cfg, ch=3", "cuda-remnant"),
    # an API that the plugin lacks
    _m("memory_cached", TRAIN, "torch.musa.memory_reserved() / 1E9", "torch.musa.memory_cached() / 1E9", "missing-api"),
    _m("nvtx", TRAIN, "    torch.musa.empty_cache()", "    torch.musa.nvtx.range_push('x')", "missing-api"),
    _m("utilization", TRAIN, "    torch.musa.empty_cache()", "    print(torch.musa.utilization())", "missing-api"),
    _m("properties without an argument", UTILS, "torch.musa.get_device_properties(i)", "torch.musa.get_device_properties()", ""),
    _m("plugin module that does not exist", TRAIN, "import torch_musa", "import torch_musa.amp", "missing-api"),
    _m("OutOfMemoryError", TRAIN, "    torch.npu.empty_cache()", "    print(torch.npu.OutOfMemoryError)", "missing-api", target="npu"),
    _m("no major on npu's profiler", TRAIN, "    torch.npu.empty_cache()", "    torch.npu.nvtx.mark('x')", "missing-api", target="npu"),
    # dtypes
    _m("bfloat16 on a card without", TRAIN, "pred = model(imgs)  # forward", "pred = model(imgs.bfloat16().float())  # forward", "missing-dtype", options=S80),
    _m("float64 where it is limited", TRAIN, "pred = model(imgs)  # forward", "pred = model((imgs.double() * 2 / 2).float())  # forward", "noted-dtype", target="npu"),
    _m("float64 where it is narrowed", TRAIN, "pred = model(imgs)  # forward", "pred = model((imgs.double() * 1.1 / 1.1).float())  # forward", "narrowed", target="gcu"),
    # operators
    _m("operator that raises", TRAIN, "pred = model(imgs)  # forward", "torch.linalg.matrix_exp(imgs[0, 0, :4, :4]); pred = model(imgs)  # forward", "missing-operator"),
    _m("operator on the CPU instead", TRAIN, "pred = model(imgs)  # forward", "imgs.flatten().mode(); pred = model(imgs)  # forward", "fallback", target="npu"),
    # devices mixed
    _m("targets stay on the CPU", TRAIN, "compute_loss(pred, targets.to(device))", "compute_loss(pred, targets)", "mixed-devices"),
    _m("new tensor on the CPU", LOSS, "lcls = torch.zeros(1, device=self.device)", "lcls = torch.zeros(1)", "mixed-devices"),
    _m("numpy of a device tensor", TRAIN, "pred = model(imgs)  # forward", "imgs.numpy(); pred = model(imgs)  # forward", ""),
    # distributed
    _m("nccl", TRAIN, 'backend="mccl" if dist.is_mccl_available() else "gloo"', 'backend="nccl"', "", options=("--devices", "2"), command=DDP),
    _m("gloo for device tensors", TRAIN, 'backend="mccl" if dist.is_mccl_available() else "gloo"', 'backend="gloo"', "", options=("--devices", "2"), command=DDP),
    _m("more ranks than devices", TRAIN, "torch.musa.set_device(LOCAL_RANK)", "torch.musa.set_device(LOCAL_RANK + 1)", "", options=("--devices", "2"), command=DDP),
    # memory, identity
    _m("a batch that exceeds the card", TRAIN, "pred = model(imgs)  # forward", "pred = model(imgs.repeat(4, 1, 1, 1))[:1]  # forward", "out-of-memory", profile='extends = "S4000"\nmemory = "40MiB"\n'),
    _m("optimizer before the move", TRAIN, "    optimizer = smart_optimizer(model, opt.optimizer, hyp['lr0'], hyp['momentum'], hyp['weight_decay'])", "    model.cpu(); optimizer = smart_optimizer(model, opt.optimizer, hyp['lr0'], hyp['momentum'], hyp['weight_decay']); model.to(device)", "identity", profile='extends = "S4000"\nkeeps_parameter_identity = false\n'),
]  # fmt: skip


def main() -> int:
    """Run the mistakes and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", type=Path, required=True, help="checkout of ultralytics/yolov5 v7.0")
    parser.add_argument("--only", default="", help="part of a mistake's name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seeded-") as name:
        work = Path(name)
        data = _data(work / "data")
        caught = total = 0
        for mistake in MISTAKES:
            if arguments.only in mistake.name:
                total += 1
                verdict = _try(mistake, arguments.source, work, data)
                caught += not verdict.startswith("MISSED")
                print(f"{mistake.target:5} {mistake.name:40} {verdict}", flush=True)
        print(f"{caught} of {total} caught")
    return 0 if caught == total else 1


def _data(folder: Path) -> Path:
    import numpy as np
    from PIL import Image  # type: ignore[import-not-found, unused-ignore]

    random = np.random.default_rng(0)
    for part, count in (("train", 16), ("val", 8)):
        (folder / "images" / part).mkdir(parents=True)
        (folder / "labels" / part).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(random.integers(0, 255, (128, 128, 3), dtype=np.uint8)).save(
                folder / f"images/{part}/{i}.jpg"
            )
            (folder / f"labels/{part}/{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n1 0.3 0.3 0.2 0.2\n")
    path = folder / "data.yaml"
    path.write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [a, b]\n")
    return path


def _try(mistake: Mistake, source: Path, work: Path, data: Path) -> str:
    migrated = work / mistake.target
    if not migrated.is_dir():
        _torchferry("migrate", str(source), "-t", mistake.target, "--out", str(migrated))
    project = work / "project"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(migrated, project)
    path = project / mistake.file
    text = path.read_text(encoding="utf-8")
    if mistake.old not in text:
        return "MISSED: the line to change is not there"
    line = text[: text.index(mistake.old)].count("\n") + 1
    path.write_text(text.replace(mistake.old, mistake.new, 1), encoding="utf-8")
    options = list(mistake.options)
    if mistake.profile:
        (work / "card.toml").write_text(mistake.profile)
        options += ["--profile", str(work / "card.toml")]
    report = work / "summary.json"
    report.unlink(missing_ok=True)
    command = [*mistake.command.split(), "--data", str(data), "--project", str(work / "runs")]
    done = _torchferry(
        "rehearse", "-t", mistake.target, *options, "--summary-file", str(report), "--", "python", *command, cwd=project
    )
    place = (mistake.file, line)
    for event in json.loads(report.read_text())["events"]:
        if event["kind"] in mistake.wanted and (event["file"].removeprefix(f"{project}/"), event["line"]) == place:
            return f"listed: {event['kind']} {event['subject']}, line {line}" + ("; failed" if done.returncode else "")
    if done.returncode and f'{path}", line {line}' in done.stderr + done.stdout:
        return f"failed at line {line}: {_last_error(done.stderr)}"
    used = re.findall(rf'File "{re.escape(str(project))}/([^"]+)", line (\d+)', done.stderr + done.stdout)
    if done.returncode and used:
        return f"failed where it is used, {used[-1][0]}:{used[-1][1]}: {_last_error(done.stderr)}"
    return f"MISSED: exit code {done.returncode}; {_last_error(done.stderr)}"


def _last_error(text: str) -> str:
    errors = [each for each in text.splitlines() if "Error" in each and not each.startswith((" ", "torchferry"))]
    return errors[0][:110] if errors else ""


def _torchferry(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled", "MPLBACKEND": "agg"}
    command = [sys.executable, "-m", "torchferry", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600)


if __name__ == "__main__":
    sys.exit(main())
