"""Faults planted in models on the simulated card: which tool names the first wrong operator, and which cries wolf.

    python benchmarks/numerics/faults.py [--peer FILE] [--yolov5 FOLDER] [--steps N] [--models NAME...]
        [--healthy] [--dtypes NAME...] [--plugin simulated|installed|WHEEL]

Each fault is an error of one operator that the rehearsal makes on the device: noise of three sizes, a wrong layout,
NaN, inputs of all products rounded to 10 bits; in forward, in backward alone, in the optimizer. The truth is the first
call of that operator in a run without faults: its name and its module. A tool has *found* the fault when it reports the
operator, and named it *first* when that is the first thing it reports, in the right module where it names modules.
Healthy runs in float32, bfloat16 and float16 (autocast) of N steps count false alarms. `LSTM AMP` has its faults under
autocast to float16 with a gradient scaler; `GPT 2 ranks` has them in the second of two processes under
DistributedDataParallel, where what the first one says is a false alarm. FILE is torch_musa's
`torch_musa/utils/compare_tool.py` (github.com/MooreThreads/torch_musa), run on the same steps. FOLDER is YOLOv5 v7.0
(github.com/ultralytics/yolov5), whose smallest model and own loss are trained. With `--plugin` the device is that of
the vendor's own plugin on the simulated driver.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.numerics.workload import Gpt, peer_module
from torchferry import rehearsal
from torchferry.numerics import CompareWithCPU, NanInfTracker
from torchferry.numerics.framework.attribution import Attribution
from torchferry.numerics.framework.operators import operator
from torchferry.rehearsal.driver.native import TakenOver
from torchferry.rehearsal.driver.session import ShippedSession
from torchferry.rehearsal.native import Native
from torchferry.rehearsal.session import Session

TARGET = "npu"
YOLO = "YOLOv5"
_DTYPES = ["float32", "bfloat16", "float16"]


class Vit(nn.Module):
    """A vision transformer."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
        return scores


class Unet(nn.Module):
    """A denoising network: group norms, SiLU, attention in the middle, skips, upsampling."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, 2 * width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 2 * width, 3, 2, 1))
        self.middle = nn.MultiheadAttention(2 * width, 2, batch_first=True)
        self.up = nn.Sequential(nn.GroupNorm(4, 2 * width), nn.SiLU(), nn.ConvTranspose2d(2 * width, width, 4, 2, 1))
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.enter(x)
        low = self.down(first) + self.time(x.flatten(1).mean(1, keepdim=True))[:, :, None, None]
        tokens = low.flatten(2).transpose(1, 2)
        low = low + self.middle(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(low.shape)
        noise: Tensor = self.leave(torch.cat((self.up(low), first), 1))
        return noise


class Recurrent(nn.Module):
    """An LSTM of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 32, 2, batch_first=True), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(x)[0][:, -1])
        return scores


class Residual(nn.Module):
    """Convolutions with running statistics and work in place, as detectors have."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
        self.inner = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(inplace=True))
        self.pool, self.head = nn.MaxPool2d(5, 1, 2), nn.Conv2d(32, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x)
        x = x + self.inner(x)
        scores: Tensor = self.head(torch.cat((x, self.pool(x)), 1)).mean((2, 3))
        return scores


Criterion = Callable[[Any, Tensor], Tensor]


def next_word(out: Tensor, data: Tensor) -> Tensor:
    return functional.cross_entropy(out.float().flatten(0, 1), data.flatten())


def distance(out: Tensor, data: Tensor) -> Tensor:
    return (out.float() - 0.5).pow(2).mean()


@dataclass(frozen=True)
class Model:
    """A model, its data, and the operators in which faults are planted, in forward and in backward.

    Attributes:
        dtype: What it trains in while it has faults; healthy it trains in all three.
        criterion: Makes the loss for a module.
        ranks: Processes that train together; the last has the faults.
    """

    make: Callable[[], nn.Module]
    data: Callable[[], Tensor]
    forward: str
    backward: str
    dtype: torch.dtype = torch.float32
    criterion: Callable[[nn.Module], Criterion] = lambda module: distance
    ranks: int = 1


def images(size: int = 16) -> Tensor:
    return torch.rand(4, 3, size, size)


def yolov5(folder: Path) -> Model:
    """Return YOLOv5's smallest model with its loss, from a copy of its repository."""
    sys.path.insert(0, str(folder))
    import yaml
    from models.yolo import DetectionModel  # type: ignore[import-not-found]
    from utils.loss import ComputeLoss  # type: ignore[import-not-found]

    logging.getLogger("yolov5").setLevel(logging.ERROR)
    settings = yaml.safe_load((folder / "data/hyps/hyp.scratch-low.yaml").read_text(encoding="utf-8"))

    def make() -> nn.Module:
        module: nn.Module = DetectionModel(str(folder / "models/yolov5n.yaml"), nc=4)
        module.hyp = settings
        return module.train()

    def criterion(module: nn.Module) -> Criterion:
        image, kind = torch.arange(8) // 2, torch.arange(8) % 4
        boxes = torch.cat((torch.stack((image, kind), 1), 0.3 + 0.4 * torch.rand(8, 4)), 1)
        boxes = boxes.to(next(module.parameters()).device)
        whole = ComputeLoss(module)

        def loss(out: Any, data: Tensor) -> Tensor:
            result: Tensor = whole(out, boxes)[0].sum()
            return result

        return loss

    return Model(make, lambda: images(64), "convolution", "native_batch_norm_backward", criterion=criterion)


GPT = Model(
    lambda: Gpt(64, 64, 4, 2, 32),
    lambda: torch.randint(0, 64, (4, 32)),
    "addmm",
    "native_layer_norm_backward",
    criterion=lambda module: next_word,
)
LSTM = Model(Recurrent, lambda: torch.rand(4, 12, 16), "addmm", "_thnn_fused_lstm_cell_backward_impl")
MODELS = {
    "GPT": GPT,
    "ViT": Model(Vit, images, "addmm", "native_layer_norm_backward"),
    "UNet": Model(Unet, images, "convolution", "native_group_norm_backward"),
    "LSTM": LSTM,
    "LSTM AMP": replace(LSTM, dtype=torch.float16),
    "ConvNet": Model(Residual, images, "convolution", "silu_backward"),
    "GPT 2 ranks": replace(GPT, ranks=2),
}


Train = Callable[[], None]


def prepared(model: Model, device: str, steps: int, dtype: torch.dtype) -> Train:
    """Make a model and its data, and return a function that trains it for some steps."""
    torch.manual_seed(0)
    module, data = model.make().to(device), model.data().to(device)
    criterion = model.criterion(module)
    if model.ranks > 1:
        module = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=dtype is torch.float16)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=dtype, enabled=dtype is not torch.float32):
                out = module(data)
                loss = criterion(out, data)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return train


class Calls(TorchDispatchMode):
    """The calls of each operator: their modules and phases, in order, each once."""

    def __init__(self, attribution: Attribution) -> None:
        super().__init__()
        self.places: dict[str, dict[tuple[str, str], None]] = {}
        self._attribution = attribution

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = operator(func)
        where = self._attribution.where(known)
        self.places.setdefault(known.base, {})[where.module, where.phase] = None
        return func(*args, **(kwargs or {}))


def truth(model: Model, device: str, dtype: torch.dtype) -> dict[str, list[tuple[str, str]]]:
    """Return module and phase of the calls of each operator in a healthy run, the first one first."""
    train = prepared(model, device, 2, dtype)
    attribution = Attribution()
    attribution.start()
    calls = Calls(attribution)
    with calls:
        train()
    attribution.stop()
    return {base: list(places) for base, places in calls.places.items()}


@dataclass(frozen=True)
class Report:
    """What a tool said: operators in order, each with its module, which is empty where the tool names none."""

    said: tuple[tuple[str, str], ...]


Tool = Callable[[Train], Report]


def compare(every: bool) -> Tool:
    """Return torchferry's comparison."""

    def use(train: Train) -> Report:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            with CompareWithCPU(every=every, verbose=False) as tool:
                train()
            document = tool.document()
        rows = document["operators"]
        said = [row for row in rows if row["status"] in {"fail", "warn"}]
        return Report(tuple((_base(row["operator"]), row["module"]) for row in said))

    return use


def nan(level: Any) -> Tool:
    """Return torchferry's tracker."""

    def use(train: Train) -> Report:
        with contextlib.redirect_stderr(io.StringIO()), NanInfTracker(level=level) as tool:
            train()
        found = [one for finding in tool.document()["findings"] for one in finding["origins"]]
        return Report(tuple((_base(one["operator"]), one["module"]) for one in found))

    return use


def peers(path: Path) -> Iterator[tuple[str, Tool]]:
    """Yield torch_musa's tools."""
    module = peer_module(path)

    def used(make: Callable[[], Any], mark: str) -> Tool:
        def use(train: Train) -> Report:
            out = io.StringIO()
            with contextlib.redirect_stdout(out), make():
                train()
            said: list[tuple[str, str]] = []
            name = ""
            for line in out.getvalue().splitlines():
                found = re.search(r"torch\.ops\.\w+\.(\w+)", line)
                name = found.group(1) if found else name
                if mark in line and said[-1:] != [(name, "")]:
                    said.append((name, ""))
            return Report(tuple(said))

        return use

    yield (
        "torch_musa CompareWithCPU",
        used(lambda: module.CompareWithCPU(atol=1e-3, rtol=1e-3, verbose=False), "[ERROR]"),
    )
    yield "torch_musa NanInfTracker", used(module.NanInfTracker, "[WARNING]")


def _base(name: str) -> str:
    return name.split(".")[1]


PRODUCTS = ("addmm", "mm", "bmm", "baddbmm", "convolution")
"""Operators whose inputs the device can round."""


def plant(native: Native | TakenOver, base: str, kind: str, scale: float) -> None:
    """Let an operator be wrong from its first call on, or mend it."""
    if kind == "rounding":
        native.set_rounding(matmul=int(scale), convolution=int(scale))
        return
    native.set_rounding(matmul=0, convolution=0)
    native.set_fault(f"aten::{base}", kind, scale, 0)


Scores = dict[str, Counter[str]]
"""What each tool did over all runs: faults that were planted, found, found first, and false alarms."""


def judge(name: str, model: Model, options: argparse.Namespace, session: Session | ShippedSession) -> Scores:
    """Run every tool on every fault of a model, and on healthy runs, in this process or in this and others."""
    native = session.operators if isinstance(session, ShippedSession) else session.native
    device = session.backend.DEVICE_TYPE
    rank = distributed.get_rank() if model.ranks > 1 else 0
    comparisons: dict[str, Tool] = {"compare": compare(False), "compare --every": compare(True)}
    trackers: dict[str, Tool] = {"nan": nan("watch"), "nan --level operator": nan("operator")}
    if options.peer is not None:
        (one, two) = peers(options.peer)
        comparisons[one[0]], trackers[two[0]] = one[1], two[1]
    scores: Scores = {tool: Counter() for tool in (*comparisons, *trackers)}
    calls = truth(model, device, model.dtype)
    faults = [
        *((model.forward, "noise", scale) for scale in (1e-1, 1e-2, 1e-3)),
        (model.backward, "noise", 1e-2),
        ("_foreach_addcdiv_", "noise", 1e-2),
        (model.forward, "stride", 0.0),
        *([(model.forward, "rounding", 10.0)] if model.dtype is torch.float32 else []),  # float16 has these bits only
        (model.forward, "nan", 0.0),
        (model.backward, "nan", 0.0),
    ]
    for base, kind, scale in [] if options.healthy else faults:
        if rank == model.ranks - 1:
            plant(native, base, kind, scale)
        for tool, use in (trackers if kind == "nan" else comparisons).items():
            *others, report = gathered(use(prepared(model, device, 2, model.dtype)), model.ranks)
            found = any(said == base for said, _ in report.said)
            wrong = next(one for one in calls if one in PRODUCTS) if kind == "rounding" else base
            first = bool(report.said) and report.said[0] in {(wrong, calls[wrong][0][0]), (wrong, "")}
            alarms = [said for other in others for said, _ in other.said]
            scores[tool].update(planted=1, found=found, first=first, alarms=len(alarms))
            what = f"{kind} {scale:g}" if scale else kind
            say(
                rank,
                f"{name:11s} {base:35s} {what:12s} {tool:25s}",
                f"{'found' if found else 'MISSED':7s} {'first' if first else '-':5s}",
                f"{report.said[:1] if report.said and not first else ''} {alarms[:6] or ''}",
            )
        plant(native, base, "none", 0.0)
    for dtype in (getattr(torch, one) for one in options.dtypes):
        for tool, use in {**comparisons, **trackers}.items():
            reports = gathered(use(prepared(model, device, options.steps, dtype)), model.ranks)
            alarms = [said for report in reports for said, _ in report.said]
            scores[tool]["alarms"] += len(alarms)
            what = ", ".join(sorted(set(alarms))[:6])
            say(rank, f"{name:11s} healthy {dtype!s:15s} {tool:25s} {len(alarms)} alarms {what}")
    return scores


def gathered(report: Report, ranks: int) -> list[Report]:
    """Return the reports of all ranks."""
    reports = [report] * ranks
    if ranks > 1:
        distributed.all_gather_object(reports, report)
    return reports


def say(rank: int, *parts: str) -> None:
    """Print a line once."""
    if rank == 0:
        print(*parts, flush=True)


def one_rank(rank: int, name: str, options: argparse.Namespace, folder: str) -> None:
    """Judge in one process of several; the first writes the scores down."""
    torch.set_num_threads(1)
    model = MODELS[name]
    session = rehearsal.enable(TARGET, devices=model.ranks, plugin=options.plugin)
    torch.get_device_module(session.backend.DEVICE_TYPE).set_device(rank)
    distributed.init_process_group(
        str(session.backend.COLLECTIVE), init_method=f"file://{folder}/store", rank=rank, world_size=model.ranks
    )
    scores = judge(name, model, options, session)
    if rank == 0:
        (Path(folder) / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    distributed.destroy_process_group()


def in_processes(name: str, options: argparse.Namespace) -> Scores:
    """Judge a model that several processes train."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(one_rank, (name, options, folder), nprocs=MODELS[name].ranks)
        written = json.loads((Path(folder) / "scores.json").read_text(encoding="utf-8"))
    return {tool: Counter(score) for tool, score in written.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--yolov5", type=Path, help="a copy of the repository; left out, the model is skipped")
    parser.add_argument("--plugin", default="simulated", help="`installed` or a wheel, for the vendor's own")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--healthy", action="store_true", help="leave the faults out")
    parser.add_argument("--dtypes", nargs="+", default=_DTYPES, choices=_DTYPES, help="of the healthy runs")
    parser.add_argument("--models", nargs="+", default=[*MODELS, YOLO], choices=[*MODELS, YOLO])
    options = parser.parse_args()
    torch.set_num_threads(1)
    total: Scores = {}
    # a child of a rehearsal takes part in it: models of several processes come before this one starts its own
    for name in sorted(options.models, key=lambda name: name == YOLO or MODELS[name].ranks == 1):
        if name == YOLO and options.yolov5 is None:
            print(f"{YOLO} skipped: give a copy of its repository with --yolov5", flush=True)
            continue
        model = yolov5(options.yolov5) if name == YOLO else MODELS[name]
        if model.ranks > 1:
            scores = in_processes(name, options)
        else:
            scores = judge(name, model, options, rehearsal.enable(TARGET, devices=1, plugin=options.plugin))
        for tool, score in scores.items():
            total.setdefault(tool, Counter()).update(score)
    print(f"\n{'tool':28s} faults  found  first  false alarms")
    for tool, score in total.items():
        print(f"{tool:28s} {score['planted']:6d} {score['found']:6d} {score['first']:6d} {score['alarms']:13d}")


if __name__ == "__main__":
    main()
