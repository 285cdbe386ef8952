"""What the redirect costs: a training step with it and without it, beside the vendors' way of wrapping every factory.

    python benchmarks/shim/speed.py [--target NAME] [--rounds N]

On the simulated card, in one process and one run: a small GPT and a ResNet-18, each step timed three ways in turn, so
that what else the machine does falls on all three. `plain` names the card by itself; `redirected` is the same program
with `cuda` in place of it, under torchferry's redirect; `wrapped` is the same under wrappers made as torch_npu's
transfer_to_npu makes them (github.com/Ascend/pytorch torch_npu/contrib/transfer_to_npu.py: each listed function, with
every positional argument and the listed keywords searched for the word), written anew here. A figure is the least of a
few steps over that of the plain steps before and after it, and the median over rounds. It says nothing about any card.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "src"))

import torch
from torch import nn
from torch.nn import functional

from torchferry import rehearsal
from torchferry.shim import enable

KEYWORDS = ("device", "device_type", "map_location", "device_id", "device_ids")
"""Keyword arguments that transfer_to_npu looks at."""

FACTORIES = """
logspace randint hann_window rand full_like ones_like rand_like randperm arange frombuffer normal empty_strided
empty_like scalar_tensor tril_indices bartlett_window ones sparse_coo_tensor randn kaiser_window tensor triu_indices
as_tensor zeros randint_like full eye empty blackman_window zeros_like range sparse_csr_tensor randn_like from_file
linspace hamming_window empty_quantized load
"""
STEPS = 16
"""Steps that are timed after each change between the ways."""

METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros to pin_memory"


class Block(nn.Module):
    """A transformer layer in the manner of minGPT, whose mask is made at each step."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attend(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.ones(length, length, device=x.device, dtype=torch.bool).tril()
        scores = (parts[0] @ parts[1].transpose(-2, -1)) * (width // self.heads) ** -0.5
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ parts[2]
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: torch.Tensor = self.feed(self.norms[1](x))
        return x + fed


class Gpt(nn.Module):
    """A small GPT."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(128, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.head = nn.Linear(width, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(0, x.shape[1], dtype=torch.long, device=x.device)
        scores: torch.Tensor = self.head(self.blocks(self.tokens(x) + self.places(places)))
        return scores


class Residual(nn.Module):
    """A basic block of ResNet."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short = nn.Sequential()
        if stride != 1 or before != after:
            self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
        return torch.relu(inner + self.short(x))


def resnet18() -> nn.Module:
    """Return a ResNet-18 for images of 64 by 64."""
    widths, before, blocks = (64, 128, 256, 512), 64, []
    for number, width in enumerate(widths):
        for part in range(2):
            blocks.append(Residual(before, width, 2 if number and not part else 1))
            before = width
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def stepper(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, device: str) -> Callable[[], float]:
    """Return a function that does one training step, with its batch moved to the device, and gives its seconds."""
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        began = time.perf_counter()
        x, y = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return time.perf_counter() - began

    return step


def wrap_every_factory(card: str) -> Callable[[], None]:
    """Wrap functions as transfer_to_npu does, and return how to take it back."""
    taken: list[tuple[Any, str, Any]] = []

    def replaced(value: Any) -> Any:
        return value.replace("cuda", card) if isinstance(value, str) and "cuda" in value else value

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if args:
                listed = list(args)
                for place, value in enumerate(listed):
                    listed[place] = replaced(value)
                args = tuple(listed)
            if kwargs:
                for keyword in KEYWORDS:
                    value = kwargs.get(keyword)
                    if value is not None:
                        kwargs[keyword] = replaced(value)
            return function(*args, **kwargs)

        return call

    for owner, names in ((torch, FACTORIES), (torch.Tensor, METHODS), (nn.Module, "to to_empty")):
        for name in names.split():
            taken.append((owner, name, vars(owner).get(name)))
            setattr(owner, name, wrapped(getattr(owner, name)))

    def unwrap() -> None:
        for owner, name, before in taken:
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

    return unwrap


def measure(name: str, make: Callable[[], nn.Module], batch: tuple[torch.Tensor, torch.Tensor], rounds: int) -> None:
    """Print the ratios of one model."""
    card = rehearsal_device
    steps: dict[str, Callable[[], float]] = {}
    torch.manual_seed(0)
    steps["plain"] = stepper(make(), *batch, card)
    with enable():
        steps["redirected"] = stepper(make(), *batch, "cuda")
    unwrap = wrap_every_factory(card)
    steps["wrapped"] = stepper(make(), *batch, "cuda")
    unwrap()

    def timed(way: str) -> float:
        """Return the least seconds of a few steps, after one that does not count: the patches have just been made."""
        return min([steps[way]() for _ in range(1 + STEPS)][1:])

    def redirected() -> float:
        with enable():
            return timed("redirected")

    def wrapped() -> float:
        undo = wrap_every_factory(card)
        try:
            return timed("wrapped")
        finally:
            undo()

    ratios: dict[str, list[float]] = {"redirected": [], "wrapped": []}
    seconds: list[float] = []
    for _ in range(rounds):
        first, ours, theirs, second = timed("plain"), redirected(), wrapped(), timed("plain")
        between = (first + second) / 2
        seconds.append(between)
        ratios["redirected"].append(ours / between)
        ratios["wrapped"].append(theirs / between)
    ours, theirs = (statistics.median(ratios[way]) for way in ("redirected", "wrapped"))
    print(f"{name:<12} {statistics.median(seconds) * 1e3:8.2f} ms {ours:12.4f} {theirs:12.4f}", flush=True)


def main() -> None:
    """Measure the steps and the start."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="npu")
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    global rehearsal_device  # noqa: PLW0603 - a program with one device
    rehearsal_device = rehearsal.enable(arguments.target).backend.DEVICE_TYPE
    torch.set_num_threads(1)
    import torchferry.shim.install  # noqa: F401 - imported before the clock starts, as a program imports it once

    times = []
    for _ in range(20):
        began = time.perf_counter()
        redirect = enable()
        times.append(time.perf_counter() - began)
        redirect.disable()
    print(f"enable(): first {times[0] * 1e3:.1f} ms, then {statistics.median(times[1:]) * 1e3:.1f} ms")
    print(f"{'step':<12} {'plain':>11} {'redirected':>12} {'wrapped':>12}   (ratios to plain)")
    tokens = torch.randint(0, 256, (8, 64))
    measure("small GPT", Gpt, (tokens, tokens), arguments.rounds)
    images, labels = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    measure("ResNet-18", resnet18, (images, labels), arguments.rounds)


rehearsal_device = ""

if __name__ == "__main__":
    main()
