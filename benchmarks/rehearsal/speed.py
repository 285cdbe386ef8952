"""How much a step costs on the simulated card, against the same step on the plain CPU, in one run.

    python benchmarks/rehearsal/speed.py [--rounds 12] [--target NAME] [--plugin PATH.whl] [--only mlp transformer]

Steps of three models (convolutions, those in float16 by autocast against float32 on the CPU, a small transformer, an
MLP of tiny layers), one thread, processes that take
turns; then the start of a process, and a step of two ranks with DistributedDataParallel over gloo. Prints medians and
ratios; the time on the device says nothing about a card.

The device keeps freed memory for the next step (`csrc/memory.h`). The plain CPU is told to do the same here: by itself
malloc gives large blocks back to the kernel or not, as they happen to lie in the heap, and each page that comes back
is a fault. A step of the convolutions then has between 20 and 12,000 faults, which take up to as long as its work, and
two processes that compute the same differ by that alone. The faults of a step are printed, so that this can be seen,
its instructions where the kernel counts them, and the processor time of all its steps, which depend less, or not at
all, on what else the machine does.
`--plain-malloc` leaves the CPU its malloc, and the device what it does by itself.
`--ratios` prints one line of JSON alone: for each model the processor time of a step over the CPU's, the median of the
rounds that were run in turn.
`--count FOLDER` counts the instructions of the steps under callgrind instead, which no other program disturbs: minutes
for each side. callgrind's processor has no AVX-512, so that the CPU's kernels are those of AVX2. FOLDER keeps its
files, from which `callgrind_annotate` shows what the difference is made of.

With `--plugin` the card is the vendor's own plugin on a simulated driver, installed or from a wheel, and the start is
compared with the import of that plugin alone, with the simulated driver's libraries on the loader's path.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

STEPS = {"convolution": 3, "half": 3, "transformer": 12, "mlp": 80}
"""Steps of each model in a round."""

CPU = "cpu"
"""In place of a target: the plain CPU."""

MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""What `csrc/memory.h` sets, for the plain CPU."""

LIMITS = {"convolution": 1.05, "half": 2.00, "transformer": 1.20, "mlp": 1.25, "ddp": 1.15}
LIMITS_OF_PLUGINS = {"convolution": 1.10, "half": 2.00, "transformer": 1.35, "mlp": 1.40, "ddp": 1.35}
"""Of the vendor's own plugin, whose own work for each call is inside."""


def models(device: str) -> dict[str, Callable[[], Any]]:
    """Return a training step of each model."""
    import torch
    from torch import nn
    from torch.nn import functional

    def block(before: int, after: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        )

    def step(model: nn.Module, optimizer: Any, inputs: Any, targets: Any) -> Callable[[], Any]:
        def run() -> Any:
            optimizer.zero_grad()
            output = model(inputs)
            loss = functional.cross_entropy(output.flatten(0, -2), targets.flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        return run

    torch.manual_seed(0)
    sizes = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
    convolution = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(block(*size) for size in sizes),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, 10),
    ).to(device)
    sgd: Any = torch.optim.SGD
    convolution_step = step(
        convolution,
        sgd(convolution.parameters(), lr=0.01, momentum=0.9),
        torch.randn(2, 3, 64, 64).to(device),
        torch.randint(0, 10, (2,)).to(device),
    )

    def half_step() -> Any:
        if device == CPU:  # whose autocast knows no float16 before torch 2.4
            return convolution_step()
        with torch.autocast(device, torch.float16):
            return convolution_step()

    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    transformer = nn.Sequential(nn.Embedding(100, 64), encoder, nn.Linear(64, 100)).to(device)
    mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    tokens = torch.randint(0, 100, (4, 32)).to(device)
    return {
        "convolution": convolution_step,
        "half": half_step,
        "transformer": step(transformer, torch.optim.AdamW(transformer.parameters()), tokens, tokens),
        "mlp": step(
            mlp,
            sgd(mlp.parameters(), lr=0.01, momentum=0.9),
            torch.randn(8, 16).to(device),
            torch.randint(0, 4, (8,)).to(device),
        ),
    }


def start(target: str, plugin: str, devices: int = 1, *, races: bool = False) -> str:
    """Return the device of a worker."""
    import torch

    torch.set_num_threads(1)
    if target == CPU:
        return CPU
    from torchferry.rehearsal import enable

    return enable(target, devices=devices, plugin=plugin, races=races).backend.DEVICE_TYPE


def instructions_counter() -> Callable[[], float]:
    """Return what reads how many instructions this process ran; it answers 0 where the kernel does not count them."""
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return lambda: 0.0
    # struct perf_event_attr: hardware, its size, instructions; with threads, without the kernel and the hypervisor
    attributes = struct.pack("IIQQQQQ", 0, 128, 1, 0, 0, 0, 1 << 1 | 1 << 5 | 1 << 6).ljust(128, b"\0")
    file = ctypes.CDLL(None).syscall(number, attributes, 0, -1, -1, 0)
    return (lambda: float(struct.unpack("Q", os.read(file, 8))[0])) if file >= 0 else lambda: 0.0


def worker(target: str, plugin: str, only: list[str], *, races: bool) -> None:
    """Run rounds of steps as long as lines come in, and print their times, page faults and instructions."""
    count = instructions_counter()
    steps = {name: run for name, run in models(start(target, plugin, races=races)).items() if name in only}
    for run in steps.values():
        for _ in range(3):
            run()
    print("ready", flush=True)
    for line in sys.stdin:
        measured: dict[str, dict[str, list[float]]] = {}
        for name in line.split():
            run = steps[name]
            times, faults, instructions = [], [], []
            processor_before = time.process_time()
            for _ in range(STEPS[name]):
                faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                instructions_before = count()
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
                instructions.append(count() - instructions_before)
                faults.append(float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before))
            processor = [(time.process_time() - processor_before) / STEPS[name]]
            measured[name] = {"times": times, "faults": faults, "instructions": instructions, "processor": processor}
        print(json.dumps(measured), flush=True)


def rank(target: str, plugin: str, number: int, store: str) -> None:
    """Time steps of one of two ranks: a transformer layer's worth of parameters, reduced in every step."""
    import torch
    import torch.distributed as dist

    device = start(target, plugin, 2)
    collective = "gloo"
    if target != CPU:
        from torchferry.backends.registry import load

        collective = load(target.partition("@")[0]).COLLECTIVE
    dist.init_process_group(collective, init_method=f"file://{store}", rank=number, world_size=2)
    where = torch.device(device) if target == CPU else torch.device(device, number)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).to(where)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    inputs = torch.randn(64, 256).to(where)
    times = []
    for _ in range(60):
        dist.barrier()
        began = time.perf_counter()
        optimizer.zero_grad()
        wrapped(inputs).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    if number == 0:
        print(json.dumps(times[10:]), flush=True)
    dist.destroy_process_group()


def main() -> int:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--target", default="npu")
    parser.add_argument("--plugin", default="simulated", help="`installed`, or a wheel of the vendor's own plugin")
    parser.add_argument("--only", nargs="*", choices=[*STEPS, "start", "ddp"], help="what to measure, without the rest")
    parser.add_argument("--races", action="store_true", help="with the search for races, in the steps of one process")
    parser.add_argument("--plain-malloc", action="store_true", help="leave the plain CPU the malloc that it has")
    parser.add_argument("--count", type=Path, metavar="FOLDER", help="count instructions under callgrind, and no times")
    parser.add_argument("--ratios", action="store_true", help="print nothing but ratios of processor time, as JSON")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    wanted = arguments.only or [*STEPS, "start", "ddp"]
    if arguments.worker is not None:
        target, *rest = arguments.worker
        if rest:
            rank(target, arguments.plugin, int(rest[0]), rest[1])
        else:
            worker(target, arguments.plugin, wanted, races=arguments.races)
        return 0
    malloc = {} if arguments.plain_malloc else MALLOC
    setting = Setting(arguments.target, arguments.plugin, malloc, arguments.races)
    models_wanted = [name for name in STEPS if name in wanted]
    if arguments.ratios:
        print(json.dumps(_processor_ratios(_steps(setting, arguments.rounds, models_wanted))))
        return 0
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    if arguments.count:
        _report_count(setting, models_wanted, arguments.count)
        return 0
    if models_wanted:
        _report_steps(_steps(setting, arguments.rounds, models_wanted), setting)
    if "start" in wanted:
        _report_start(setting)
    if "ddp" in wanted:
        _report_ddp(setting)
    return 0


@dataclass(frozen=True)
class Setting:
    """What is compared with the plain CPU.

    Attributes:
        target: The rehearsal's target.
        plugin: Which plugin of the target's: `simulated`, `installed`, or a wheel.
        malloc: Environment variables for the plain CPU.
        races: Whether races are looked for on the device.
    """

    target: str
    plugin: str
    malloc: dict[str, str]
    races: bool = False

    @property
    def limits(self) -> dict[str, float]:
        """The most that a step should take, as a multiple of the CPU's."""
        return LIMITS if self.plugin == "simulated" else LIMITS_OF_PLUGINS


def _spawn(
    setting: Setting, *values: str, only: Iterable[str] = (), under: Iterable[str] = (), **more: Any
) -> subprocess.Popen[str]:
    command = [
        *under,
        sys.executable,
        __file__,
        "--plugin",
        setting.plugin,
        "--worker",
        *values,
        *(["--only", *only] * bool(only)),
        *(["--races"] * setting.races),
    ]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    if values[0] == CPU:
        environment |= setting.malloc
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, **more
    )


@dataclass(frozen=True)
class Steps:
    """What the steps of a model took in one process: seconds, page faults, instructions; processor time of a round."""

    times: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    instructions: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def _round(process: subprocess.Popen[str], models_wanted: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """Let a worker run steps of the models, and return what it measured."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(" ".join(models_wanted) + "\n")
    process.stdin.flush()
    measured: dict[str, dict[str, list[float]]] = json.loads(process.stdout.readline())
    return measured


def _steps(setting: Setting, rounds: int, wanted: list[str]) -> dict[str, dict[str, Steps]]:
    names = CPU, setting.target
    workers = {name: _spawn(setting, name, only=wanted, stdin=subprocess.PIPE) for name in names}
    steps: dict[str, dict[str, Steps]] = {name: {model: Steps() for model in wanted} for name in workers}
    for name, process in workers.items():
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            sys.exit(f"the steps of {name} do not start: `--worker {name} --only {' '.join(wanted)}` says why")
    for _ in range(rounds):
        for name, process in workers.items():
            for model, values in _round(process, wanted).items():
                steps[name][model].times.extend(values["times"])
                steps[name][model].faults.extend(values["faults"])
                steps[name][model].instructions.extend(values["instructions"])
                steps[name][model].processor.extend(values["processor"])
    for process in workers.values():
        process.communicate()
    return steps


def _report_count(setting: Setting, wanted: list[str], folder: Path) -> None:
    """Print the instructions of a step under callgrind on both sides."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {name: _count(setting, name, wanted, folder) for name in (CPU, setting.target)}
    (_, host), (target, device) = counts.items()
    for model in wanted:
        before, after = (side[model] / STEPS[model] for side in (host, device))
        print(
            f"{model:12} instructions of a step: cpu {before:,.0f}, {target} {after:,.0f}: x{after / before:.3f} "
            f"(limit {setting.limits[model]:.2f})"
        )


def _count(setting: Setting, name: str, wanted: list[str], folder: Path) -> dict[str, int]:
    """Return how many instructions callgrind counts in a round of each model on one side."""
    counts = {}
    kept = folder / f"{name.partition('@')[0]}.out"
    under = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={kept}"]
    with _spawn(setting, name, only=wanted, under=under, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        def control(*words: str) -> None:
            subprocess.run(["callgrind_control", *words, str(process.pid)], check=True, capture_output=True)

        for number, model in enumerate(wanted, 1):
            control("--instr=on")
            _round(process, [model])
            control("--instr=off")
            control(f"--dump={model}")
            part = kept.with_name(f"{kept.name}.{number}")
            (total,) = (line for line in part.read_text(encoding="utf-8").splitlines() if line.startswith("totals:"))
            counts[model] = int(total.split()[1])
    return counts


def _processor_ratios(steps: dict[str, dict[str, Steps]]) -> dict[str, float]:
    """Return the processor time of a step over the CPU's for each model: the median of rounds next to each other."""
    host, device = steps.values()
    pairs = {model: zip(host[model].processor, device[model].processor, strict=True) for model in host}
    return {model: statistics.median(after / before for before, after in each) for model, each in pairs.items()}


def _report_steps(steps: dict[str, dict[str, Steps]], setting: Setting) -> None:
    (_, host), (target, device) = steps.items()
    ratios = _processor_ratios(steps)
    for model in host:
        _print(model, setting, host[model].times, device[model].times)
        faults = [statistics.median(side[model].faults) for side in (host, device)]
        before, after = (statistics.median(side[model].instructions) for side in (host, device))
        counted = f"x{after / before:.3f}" if before else "not counted here"
        print(
            f"{'':12} page faults of a step: cpu {faults[0]:.0f}, {target} {faults[1]:.0f}; instructions {counted}; "
            f"processor time x{ratios[model]:.3f}"
        )


def _print(what: str, setting: Setting, host: list[float], device: list[float]) -> None:
    before, after = statistics.median(host), statistics.median(device)
    tenth = sorted(device)[len(device) // 10] / sorted(host)[len(host) // 10]
    print(
        f"{what:12} cpu {before * 1e3:8.3f} ms   {setting.target} {after * 1e3:8.3f} ms   x{after / before:.2f} "
        f"(fastest tenth x{tenth:.2f}, limit {setting.limits[what]:.2f}), n = {len(host)}"
    )


_START = (
    "import sys, time; began = time.perf_counter(); import torch{}; "
    "print(time.perf_counter() - began, time.process_time())"
)


def _report_start(setting: Setting) -> None:
    alone, path, limit = "", {}, 0.50
    if setting.plugin != "simulated":
        alone, path, limit = *_plugin_alone(setting), 1.50
    enabled = f"; from torchferry.rehearsal import enable; enable({setting.target!r}, plugin={setting.plugin!r})"
    times: dict[str, list[tuple[float, float]]] = {alone: [], enabled: []}
    for _ in range(7):
        for more, values in times.items():
            done = subprocess.run(
                [sys.executable, "-c", _START.format(more)],
                capture_output=True,
                text=True,
                check=True,
                env=os.environ | (path if more == alone else {}),
            )
            wall, processor = map(float, done.stdout.split()[-2:])
            values.append((wall, processor))
    for index, what in enumerate(("start", "  processor")):
        before, after = (statistics.median(value[index] for value in values) for values in times.values())
        print(
            f"{what:12} import torch{' and the plugin alone' * bool(alone)} {before:.2f} s   "
            f"with the device {after:.2f} s   +{after - before:.2f} s (limit {limit:.2f})"
        )


def _plugin_alone(setting: Setting) -> tuple[str, dict[str, str]]:
    """Return what imports a plugin without torchferry, and the variables with which it finds the driver's libraries."""
    from torchferry.backends.registry import choose
    from torchferry.rehearsal.config import prepare
    from torchferry.rehearsal.driver import building
    from torchferry.rehearsal.driver.description import load_driver

    backend = choose(setting.target.partition("@")[0]).backend
    driver = load_driver(backend)
    shipped = prepare(setting.target, "", 0, None, (), setting.plugin).shipped
    assert driver is not None
    assert shipped is not None
    folder = str(building.driver_folder(driver))
    homes = dict.fromkeys(driver.homes, folder)
    found = {"LD_LIBRARY_PATH": folder, "PYTHONPATH": shipped.folder, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return f"; import {backend.PLUGIN}", homes | found


def _report_ddp(setting: Setting) -> None:
    times: dict[str, list[float]] = {CPU: [], setting.target: []}
    for turn in range(4):
        for name, values in times.items():
            with tempfile.TemporaryDirectory() as folder:
                store = str(Path(folder) / f"store-{turn}")
                ranks = [_spawn(setting, name, str(number), store) for number in range(2)]
                values.extend(json.loads(ranks[0].communicate()[0]))
                ranks[1].communicate()
    _print("ddp", setting, times[CPU], times[setting.target])


if __name__ == "__main__":
    sys.exit(main())
