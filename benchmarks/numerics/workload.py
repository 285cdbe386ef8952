"""The step that the tools are measured on, and how: pairs of steps, with the tool and without it, in one process."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """A transformer layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        result: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return result


class Gpt(nn.Module):
    """4 layers of width 256, 128 places, 5.3 million parameters."""

    def __init__(self, words: int = 4096, width: int = 256, heads: int = 4, layers: int = 4, length: int = 128) -> None:
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens(x) + self.places[:, : x.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(self.norm(x))
        return scores


def gpt_step(device: str) -> Callable[[], Tensor]:
    """Return a function that trains a GPT for a step on 8 texts, with AdamW."""
    torch.manual_seed(0)
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    x, y = torch.randint(0, 4096, (8, 128)).to(device), torch.randint(0, 4096, (8, 128)).to(device)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class Ratio(NamedTuple):
    """How much a step costs with a tool, over the step without it: quartiles of pairs.

    Attributes:
        wall: Of the time on the clock.
        cpu: Of the time of the processor.
    """

    wall: tuple[float, float, float]
    cpu: tuple[float, float, float]

    def __str__(self) -> str:
        low, middle, high = self.wall
        return f"{middle:7.3f} ({low:.3f} .. {high:.3f})   processor {self.cpu[1]:7.3f}"


def paired(plain: Callable[[], object], variant: Callable[[], object], pairs: int, warm: int = 2) -> Ratio:
    """Time pairs of a plain step and one with the tool, and return the ratios."""
    for _ in range(warm):
        plain()
        variant()
    gc.collect()
    wall, cpu = [], []
    for _ in range(pairs):
        times = []
        for function in (plain, variant):
            begun, used = time.perf_counter(), time.process_time()
            function()
            times.append((time.perf_counter() - begun, time.process_time() - used))
        wall.append(times[1][0] / times[0][0])
        cpu.append(times[1][1] / times[0][1])
    return Ratio(_quartiles(wall), _quartiles(cpu))


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def peer_module(path: Path) -> Any:
    """Return torch_musa's `compare_tool.py`, which needs nothing of torch_musa's."""
    spec = importlib.util.spec_from_file_location("compare_tool", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def under_peer(step: Callable[[], object], tool: Callable[[], Any]) -> Callable[[], object]:
    """Return the step under a tool of the peer, which prints to nowhere."""
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for all steps

    def run() -> None:
        with contextlib.redirect_stdout(nowhere), tool():
            step()

    return run


def msprobe(step: Callable[[], object], folder: Path) -> Callable[[], object]:
    """Return the step under msprobe's statistics (level L1) of all calls of its list; it makes the folder."""
    module: Any = importlib.import_module("msprobe.pytorch")
    settings = {
        "task": "statistics",
        "dump_path": str(folder),
        "rank": [],
        "step": [],
        "level": "L1",
        "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    }
    folder.mkdir()
    config = folder / "config.json"
    config.write_text(json.dumps(settings))
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        debugger = module.PrecisionDebugger(config_path=str(config))

    def run() -> None:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            debugger.start()
            step()
            debugger.stop()
            debugger.step()

    return run
