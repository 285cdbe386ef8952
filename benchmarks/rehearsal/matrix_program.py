"""One small training for each part of a plugin that trainings need; prints losses.

    python matrix_program.py npu:torch_npu:hccl cnn gpt    # the device, the plugin's package, its collectives
    python matrix_program.py cpu cnn gpt

The same program on the CPU of the same torch says what they should be. Written for torch 2.1 and later.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional

DEVICE, PLUGIN, COLLECTIVES = (*(sys.argv[1] if len(sys.argv) > 1 else "cpu").split(":"), "", "gloo")[:3]

STEPS = 6


def tell(*words: str) -> None:
    """Print a line at once, since several ranks write to the same place."""
    os.write(1, (" ".join(words) + "\n").encode())


def random(*sizes: int, step: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(step))


def labels(count: int, classes: int, step: int) -> torch.Tensor:
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(step))


def start(device: torch.device) -> Iterator[float]:
    """A tensor goes to the device and comes back; there are streams, events and memory."""
    namespace: Any = getattr(torch, device.type)
    if PLUGIN:
        first, second = namespace.Event(enable_timing=True), namespace.Event(enable_timing=True)
        first.record()
        with namespace.stream(namespace.Stream()):
            torch.ones(3, device=device)
        second.record()
        namespace.synchronize()
        assert first.elapsed_time(second) >= 0
        assert namespace.memory_allocated() >= 0
        assert namespace.device_count() > 0
    yield (random(4, 4, step=0).to(device) @ random(4, 4, step=1).to(device)).cpu().sum().item()


def train(model: nn.Module, device: torch.device, loss_of: Callable[[nn.Module, int], torch.Tensor]) -> Iterator[float]:
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(STEPS):
        loss = loss_of(model, step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


def cnn(device: torch.device) -> Iterator[float]:
    """Convolution, batch norm, pooling, AdamW, clipping."""

    def loss_of(model: nn.Module, step: int) -> torch.Tensor:
        images = random(16, 3, 16, 16, step=step).to(device)
        return functional.cross_entropy(model(images), labels(16, 10, step).to(device))

    yield from train(convolutions(), device, loss_of)


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.before_attention(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        result: torch.Tensor = x + self.mlp(self.before_mlp(x))
        return result


class Gpt(nn.Module):
    """A language model of two layers, whose output layer is its embedding."""

    def __init__(self, words: int = 97, width: int = 48, length: int = 24) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width), Block(width), nn.LayerNorm(width))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        result: torch.Tensor = self.head(self.blocks(self.words(text) + self.places(places)))
        return result


def gpt(device: torch.device) -> Iterator[float]:
    """Embedding, layer norm, fused attention, GELU, tied weights, AdamW, clipping."""

    def loss_of(model: nn.Module, step: int) -> torch.Tensor:
        text = labels(8 * 25, 97, step).view(8, 25).to(device)
        return functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())

    yield from train(Gpt(), device, loss_of)


def half_precision(device: torch.device) -> Any:
    """Return autocast to float16; on the CPU of a torch that has none, nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autocast(device.type, torch.float16):
                return torch.autocast(device.type, torch.float16)
    except RuntimeError:
        return contextlib.nullcontext()


def amp(device: torch.device) -> Iterator[float]:
    """Float16 autocast and the plugin's own gradient scaler."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = getattr(torch, device.type).amp.GradScaler(init_scale=1024.0) if PLUGIN else None
    for step in range(STEPS):
        cast = half_precision(device)
        with cast:
            made = model(random(16, 3, 8, 8, step=step).to(device))
        if step == 0 and made.dtype != torch.float16:
            assert device.type == "cpu", made.dtype
            tell("REFERENCE float32")
        loss = functional.cross_entropy(made.float(), labels(16, 10, step).to(device))
        optimizer.zero_grad()
        if scaler is None:
            loss.mul(1024.0).backward()  # type: ignore[no-untyped-call]
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.grad.div_(1024.0)
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        yield loss.item()


def ddp(device: torch.device) -> Iterator[float]:
    """Two ranks, several buckets, over the plugin's collectives."""
    rank = int(os.environ["RANK"])
    if PLUGIN:
        getattr(torch, DEVICE).set_device(rank)
        device = torch.device(DEVICE, rank)
    torch.distributed.init_process_group(COLLECTIVES)
    model = nn.parallel.DistributedDataParallel(convolutions().to(device), bucket_cap_mb=0.01)

    def loss_of(model: nn.Module, step: int) -> torch.Tensor:
        images = random(8, 3, 16, 16, step=2 * step + rank).to(device)
        return functional.cross_entropy(model(images), labels(8, 10, 2 * step + rank).to(device))

    for loss in train(model, device, loss_of):
        if rank == 0:
            yield loss
    gathered: list[Any] = [None, None]
    torch.distributed.all_gather_object(gathered, list(range(100 * (rank + 1))))
    assert list(map(len, gathered)) == [100, 200]
    # torch 2.1 waits for gloo's threads with Python's lock held when the model is the last that holds the group
    del model
    gc.collect()
    torch.distributed.destroy_process_group()


PROGRAMS = {function.__name__: function for function in (start, cnn, gpt, amp, ddp)}

if __name__ == "__main__":
    if PLUGIN:
        importlib.import_module(PLUGIN)
    for name in sys.argv[2:]:
        tell("PROGRAM", name)
        torch.manual_seed(0)
        try:
            for each in PROGRAMS[name](torch.device(DEVICE)):
                tell("LOSS", repr(each))
        except Exception as error:
            tell("FAILED", type(error).__name__, str(error).partition("\n")[0])
