"""Programs that every version of the plugin runs with the libraries of its time; see `matrix_programs.py`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.rehearsal.cases import inputs
from benchmarks.rehearsal.cases.table import Case, Edit, cases

SHARED = ("minGPT chargpt", "trainer", "accelerated", "diffusion", "timm_models", "detection", "deepspeed_zero")
"""Names of cases of `realworld.py` that are run here too."""

_NANOGPT = (
    "train.py --dataset={data} --compile=False --dtype=float32 --eval_iters=2 --eval_interval=4 --block_size=32 "
    "--batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --max_iters=6 --gradient_accumulation_steps=4 --dropout=0.1 "
    "--out_dir={out}"
)
_ON_GLOO = (
    Edit("train.py", "device = f'cuda:{ddp_local_rank}'", "device = 'cpu'"),
    Edit("train.py", "torch.cuda.set_device(device)", "pass"),
    Edit("train.py", "device_ids=[ddp_local_rank]", "device_ids=None"),
)
_FLOAT32 = (  # not every torch has a CPU that computes in float16
    Edit("main.py", 'torch.autocast("cuda", dtype=torch.float16)', 'torch.autocast("cpu", enabled=False)'),
    Edit("main.py", '"cuda"', '"cpu"'),
    Edit("main.py", "torch.cuda.amp.GradScaler(", "Scaler("),
)

_YOLO = (
    "train.py --img 64 --batch 4 --epochs 1 --data {data}/data.yaml --cfg models/yolov5n.yaml --weights= --workers 0 "
    "--noplots --noval --nosave --project {out} --name run"
)
ALONE = (  # without a network, and without what writes a log
    Edit("utils/loggers/__init__.py", "from torch.utils.tensorboard import SummaryWriter\n", ""),
    Edit("utils/loggers/__init__.py", "self.tb = SummaryWriter(str(s))", "self.tb = None"),
    Edit("utils/general.py", "import IPython\n", ""),
    Edit("models/common.py", "from IPython.display import display\n", ""),
    Edit("train.py", "        check_git_status()\n        check_requirements()\n", ""),
    Edit("train.py", "GIT_INFO = check_git_info()", "GIT_INFO = dict(remote=None, branch=None, commit=None)"),
    Edit("train.py", "amp = check_amp(model)", "amp = False"),
    # torch from 2.6 on loads no whole models unless it is told to
    Edit("utils/general.py", "torch.load(f, map_location", "torch.load(f, weights_only=False, map_location"),
    Edit("models/experimental.py", "map_location='cpu')", "map_location='cpu', weights_only=False)"),
    Edit(
        "utils/general.py",
        "    check_font('Arial.ttf' if is_ascii(data['names']) else 'Arial.Unicode.ttf', progress=True)",
        "    pass",
    ),
)
"""Edits of YOLOv5 v7.0 for a machine without a network and without what it logs with."""


def boxes(folder: Path) -> None:
    """Write pictures with boxes as YOLOv5 reads them."""
    import numpy as np
    from PIL import Image  # type: ignore[import-not-found, unused-ignore]

    random = np.random.default_rng(0)
    for part in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True)
        for number in range(8):
            pixels = random.integers(0, 255, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / part / f"{number}.png")
            rows = [f"{random.integers(0, 3)} {x:.3f} {y:.3f} 0.3 0.4" for x, y in random.uniform(0.3, 0.7, (2, 2))]
            (folder / "labels" / part / f"{number}.txt").write_text("\n".join(rows) + "\n")
    names = "names: {0: a, 1: b, 2: c}"
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\n{names}\n")


def of_versions() -> list[Case]:
    """Return the cases, on the target `npu`."""
    shared = [case for case in cases() if case.name in SHARED and case.target == "npu"]
    return [
        *shared,
        Case(
            "nanoGPT 2 ranks", "npu", "karpathy+nanoGPT", _NANOGPT, prepare=inputs.shakespeare, ranks=2,
            reference=_ON_GLOO, on_the_cpu="--backend=gloo",
        ),
        Case(
            "ResNet float16", "npu", "resnet_amp", "main.py", packages=("torchvision",), reference=_FLOAT32,
            tolerance=3e-2,
        ),
        Case(
            "YOLOv5", "npu", "ultralytics+yolov5", _YOLO, prepare=boxes, packages=("cv2", "pandas"), edits=ALONE,
            on_the_cpu="--device cpu", steps=3,
        ),
    ]  # fmt: skip
