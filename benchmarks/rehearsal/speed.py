"""How much a step costs on the simulated card, against the same step on the plain CPU, in one run.

    python benchmarks/rehearsal/speed.py [--rounds 12] [--target NAME]

Steps of three models (convolutions, those in float16 by autocast against float32 on the CPU, a small transformer, an
MLP of tiny layers), one thread, processes that take
turns; then the start of a process, and a step of two ranks with DistributedDataParallel over gloo. Prints medians and
ratios; the time on the device says nothing about a card.

The device keeps freed memory for the next step (`csrc/memory.h`). The plain CPU is told to do the same here: by itself
malloc gives large blocks back to the kernel or not, as they happen to lie in the heap, and each page that comes back
is a fault. A step of the convolutions then has between 20 and 12,000 faults, which take up to as long as its work, and
two processes that compute the same differ by that alone. The faults of a step are printed, so that this can be seen,
and its instructions where the kernel counts them, which do not depend on what else the machine does.
`--plain-malloc` leaves the CPU its malloc, and the device what it does by itself.
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
from collections.abc import Callable
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
        with torch.autocast(device, torch.float16, enabled=device != CPU):
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


def start(target: str, devices: int = 1) -> str:
    """Return the device of a worker."""
    import torch

    torch.set_num_threads(1)
    if target == CPU:
        return CPU
    from torchferry.rehearsal import enable

    return enable(target, devices=devices).backend.DEVICE_TYPE


def instructions_counter() -> Callable[[], float]:
    """Return what reads how many instructions this process ran; it answers 0 where the kernel does not count them."""
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return lambda: 0.0
    # struct perf_event_attr: hardware, its size, instructions; with threads, without the kernel and the hypervisor
    attributes = struct.pack("IIQQQQQ", 0, 128, 1, 0, 0, 0, 1 << 1 | 1 << 5 | 1 << 6).ljust(128, b"\0")
    file = ctypes.CDLL(None).syscall(number, attributes, 0, -1, -1, 0)
    return (lambda: float(struct.unpack("Q", os.read(file, 8))[0])) if file >= 0 else lambda: 0.0


def worker(target: str) -> None:
    """Run rounds of steps as long as lines come in, and print their times, page faults and instructions."""
    count = instructions_counter()
    steps = models(start(target))
    for run in steps.values():
        for _ in range(3):
            run()
    print("ready", flush=True)
    for _ in sys.stdin:
        measured: dict[str, dict[str, list[float]]] = {}
        for name, run in steps.items():
            times, faults, instructions = [], [], []
            for _ in range(STEPS[name]):
                faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                instructions_before = count()
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
                instructions.append(count() - instructions_before)
                faults.append(float(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before))
            measured[name] = {"times": times, "faults": faults, "instructions": instructions}
        print(json.dumps(measured), flush=True)


def rank(target: str, number: int, store: str) -> None:
    """Time steps of one of two ranks: a transformer layer's worth of parameters, reduced in every step."""
    import torch
    import torch.distributed as dist

    device = start(target, 2)
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
    parser.add_argument("--plain-malloc", action="store_true", help="leave the plain CPU the malloc that it has")
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        if len(arguments.worker) > 1:
            rank(arguments.worker[0], int(arguments.worker[1]), arguments.worker[2])
        else:
            worker(arguments.worker[0])
        return 0
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    malloc = {} if arguments.plain_malloc else MALLOC
    _report_steps(_steps(arguments.target, arguments.rounds, malloc))
    _report_start(arguments.target)
    _report_ddp(arguments.target, malloc)
    return 0


def _spawn(*values: str, malloc: dict[str, str], **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", *values]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    if values[0] == CPU:
        environment |= malloc
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, **more
    )


@dataclass(frozen=True)
class Steps:
    """What the steps of a model took in one process: seconds, page faults and instructions of each."""

    times: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    instructions: list[float] = field(default_factory=list)


def _steps(target: str, rounds: int, malloc: dict[str, str]) -> dict[str, dict[str, Steps]]:
    workers = {name: _spawn(name, malloc=malloc, stdin=subprocess.PIPE) for name in (CPU, target)}
    steps: dict[str, dict[str, Steps]] = {name: {model: Steps() for model in STEPS} for name in workers}
    for process in workers.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for _ in range(rounds):
        for name, process in workers.items():
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            for model, values in json.loads(process.stdout.readline()).items():
                steps[name][model].times.extend(values["times"])
                steps[name][model].faults.extend(values["faults"])
                steps[name][model].instructions.extend(values["instructions"])
    for process in workers.values():
        process.communicate()
    return steps


def _report_steps(steps: dict[str, dict[str, Steps]]) -> None:
    (_, host), (target, device) = steps.items()
    for model in STEPS:
        _print(model, target, host[model].times, device[model].times)
        faults = [statistics.median(side[model].faults) for side in (host, device)]
        before, after = (statistics.median(side[model].instructions) for side in (host, device))
        counted = f"x{after / before:.3f}" if before else "not counted here"
        print(f"{'':12} page faults of a step: cpu {faults[0]:.0f}, {target} {faults[1]:.0f}; instructions {counted}")


def _print(what: str, target: str, host: list[float], device: list[float]) -> None:
    before, after = statistics.median(host), statistics.median(device)
    tenth = sorted(device)[len(device) // 10] / sorted(host)[len(host) // 10]
    print(
        f"{what:12} cpu {before * 1e3:8.3f} ms   {target} {after * 1e3:8.3f} ms   x{after / before:.2f} "
        f"(fastest tenth x{tenth:.2f}, limit {LIMITS[what]:.2f}), n = {len(host)}"
    )


def _report_start(target: str) -> None:
    code = "import sys, time; began = time.perf_counter(); import torch{}; print(time.perf_counter() - began)"
    enabled = f"; from torchferry.rehearsal import enable; enable({target!r})"
    times: dict[str, list[float]] = {"": [], enabled: []}
    for _ in range(7):
        for more, values in times.items():
            done = subprocess.run([sys.executable, "-c", code.format(more)], capture_output=True, text=True, check=True)
            values.append(float(done.stdout))
    before, after = (statistics.median(values) for values in times.values())
    more = f"+{after - before:.2f} s (limit 0.50)"
    print(f"start        import torch {before:.2f} s   with the device {after:.2f} s   {more}")


def _report_ddp(target: str, malloc: dict[str, str]) -> None:
    times: dict[str, list[float]] = {CPU: [], target: []}
    for turn in range(4):
        for name, values in times.items():
            with tempfile.TemporaryDirectory() as folder:
                store = str(Path(folder) / f"store-{turn}")
                ranks = [_spawn(name, str(number), store, malloc=malloc) for number in range(2)]
                values.extend(json.loads(ranks[0].communicate()[0]))
                ranks[1].communicate()
    _print("ddp", target, times[CPU], times[target])


if __name__ == "__main__":
    sys.exit(main())
