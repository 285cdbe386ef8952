"""A small program, told by its arguments what is to be different, and recorded in this process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from torchferry.numerics.recording import Recorder
from torchferry.numerics.rundiff.comparison import RunComparison, compare
from torchferry.numerics.runlog.record import read_record


class Told(NamedTuple):
    """What the program is told."""

    device: str = "cpu"
    order: int = 1
    seed: int = 0
    eps: float = 1e-5
    dropout: float = 0.1
    rate: float = 1e-3
    weight: float = 0.0
    scale: float = 1.0
    fused: bool = True
    optimizer: str = "AdamW"
    autocast: str = ""
    wrapped: bool = False
    gelu: float = 0.0
    gelu_from: int = 0
    batch: int = 4
    model_seed: int = 0
    steps: int = 4
    product: torch.dtype | None = None
    halved: float | None = None
    relu: bool = False


class Halved(nn.Linear):
    """A layer that computes two products and their sum; the second is off by `error`."""

    error = 0.0

    def forward(self, x: Tensor) -> Tensor:
        half = self.in_features // 2
        first = functional.linear(x[..., :half], self.weight[:, :half], self.bias)
        return first + functional.linear(x[..., half:], self.weight[:, half:] * (1 + self.error))


class Attention(nn.Module):
    def __init__(self, told: Told) -> None:
        super().__init__()
        self.qkv = (nn.Linear if told.halved is None else Halved)(32, 96)
        self.out = nn.Linear(32, 32)
        if isinstance(self.qkv, Halved):
            self.qkv.error = told.halved or 0.0
        self.told = told

    def forward(self, x: Tensor) -> Tensor:
        many, length, wide = x.shape
        q, k, v = self.qkv(x).view(many, length, 3, 2, wide // 2).permute(2, 0, 3, 1, 4).unbind(0)
        if self.told.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            hidden = torch.ones(length, length, device=x.device, dtype=torch.bool).triu(1)
            scores = (q @ k.transpose(-1, -2)) / (wide // 2) ** 0.5
            y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        result: Tensor = self.out(y.transpose(1, 2).reshape(many, length, wide))
        return result


class Block(nn.Module):
    def __init__(self, told: Told) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32, eps=told.eps)
        self.attention = Attention(told)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
        self.dropout = nn.Dropout(told.dropout)
        self.told, self.calls = told, 0

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm(x)))
        y = (functional.relu if self.told.relu else functional.gelu)(self.up(x))
        if self.told.gelu and self.calls >= self.told.gelu_from:
            y.data.mul_(1 + self.told.gelu)
        self.calls += 1
        result: Tensor = x + self.down(y)
        return result


class Language(nn.Module):
    def __init__(self, told: Told) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList([Block(told._replace(gelu=told.gelu if place == 2 else 0.0)) for place in range(3)])
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(self.norm(x))
        return result


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


USUAL = Told()


def record(folder: Path, told: Told = USUAL, **options: Any) -> Path:
    """Train for a few steps under a recorder, and return its folder."""
    torch.manual_seed(told.model_seed)
    model: nn.Module = Language(told)
    with torch.no_grad():
        model.blocks[1].up.weight[3, 5] += told.weight  # type: ignore[index,union-attr]
    model = model.to(told.device)
    optimizer = getattr(torch.optim, told.optimizer)(model.parameters(), lr=told.rate)
    network = Wrapper(model) if told.wrapped else model
    data = torch.randint(0, 64, (64, 17), generator=torch.Generator().manual_seed(7))
    order = torch.randperm(64, generator=torch.Generator().manual_seed(told.order))
    torch.manual_seed(told.seed)
    random.seed(0)
    np.random.seed(0)
    with Recorder(folder, **options) as recorder:
        for step in range(told.steps):
            batch = data[order[step * told.batch :][: told.batch]].to(told.device)
            dtype = getattr(torch, told.autocast or "bfloat16")
            with torch.autocast(told.device, dtype, enabled=bool(told.autocast)):
                loss = (
                    functional.cross_entropy(network(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()) * told.scale
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            recorder.step()
    return folder


def compared(folder: Path, one: Told, two: Told, **options: Any) -> RunComparison:
    """Record two programs and compare them."""
    a, b = record(folder / "a", one, **options), record(folder / "b", two, **options)
    return compare(read_record(a), read_record(b))
