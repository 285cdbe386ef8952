"""Small training programs of three kinds, and slowdowns that can be planted in them.

Each program is one file: data, model, steps. It is clean as it stands: worker processes load the data, what is computed
is computed in bfloat16, images stay in channels_last, and no step waits for a number.
"""

from __future__ import annotations

from typing import NamedTuple

_HEAD = """
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = sys.argv[1]
if DEVICE != "cpu":
    __import__("torch_" + DEVICE)
torch.manual_seed(0)
#TOP#

"""

_STEPS = """

def main():
    model = Model().to(DEVICE)#MODEL_LAYOUT#
    loader = DataLoader(Data(), batch_size=BATCH, num_workers=2, prefetch_factor=8, persistent_workers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for inputs, labels in loader:
        inputs = inputs.to(DEVICE, non_blocking=True)#INPUT_LAYOUT#
        labels = labels.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model.loss(inputs, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
"""

_LAST = ".to(memory_format=torch.channels_last)"

_CNN = """
BATCH = 8
IMAGES, LABELS = torch.randn(BATCH, 3, 32, 32), torch.randn(BATCH, 16, 8, 8)


class Data(Dataset):
    def __len__(self):
        return 10 * BATCH

    def __getitem__(self, index):
        return IMAGES[index % BATCH], LABELS[index % BATCH]


class Conv(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(outside)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = Conv(width, width)
        self.two = Conv(width, width)

    def forward(self, x):
        return x + self.two(self.one(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv(3, 16, 2)
        self.down = Conv(16, 32, 2)
        self.body = nn.Sequential(Bottleneck(32), Bottleneck(32))
        self.detect = nn.Conv2d(32, 16, 1)

    def forward(self, x):
        x = self.down(self.stem(x))#MIDDLE#
        return self.detect(self.body(x))

    def loss(self, images, labels):
        return F.mse_loss(self(images).float(), labels)#LOSS#
"""

_GPT = """
BATCH = 4
TOKENS = torch.randint(0, 512, (BATCH, 65))


class Data(Dataset):
    def __len__(self):
        return 10 * BATCH

    def __getitem__(self, index):
        return TOKENS[index % BATCH, :-1], TOKENS[index % BATCH, 1:]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.silu(self.up(self.norm_2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(512, 128)
        self.blocks = nn.ModuleList(Block(128) for _ in range(3))
        self.norm = nn.LayerNorm(128)
        self.head = nn.Linear(128, 512)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens, following):
        return F.cross_entropy(self(tokens).float().flatten(0, 1), following.flatten())#LOSS#
"""

_UNET = """
BATCH = 8
IMAGES, LABELS = torch.randn(BATCH, 3, 16, 16), torch.rand(BATCH, 1)


class Data(Dataset):
    def __len__(self):
        return 10 * BATCH

    def __getitem__(self, index):
        return IMAGES[index % BATCH], LABELS[index % BATCH]


class Block(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.norm = nn.GroupNorm(1, inside)
        self.one = nn.Conv2d(inside, outside, 3, padding=1)
        self.time = nn.Linear(64, outside)
        self.two = nn.Conv2d(outside, outside, 3, padding=1)
        self.skip = nn.Conv2d(inside, outside, 1)

    def forward(self, x, time):
        h = self.one(F.silu(self.norm(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.two(F.silu(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 64)
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.down_1 = Block(16, 32)
        self.down_2 = Block(32, 32)
        self.up_1 = Block(64, 32)
        self.leave = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x, time):
        time = F.silu(self.time(time))
        one = self.down_1(self.enter(x), time)#MIDDLE_ONE#
        two = self.down_2(F.avg_pool2d(one, 2), time)
        up = F.interpolate(two, scale_factor=2.0, mode="nearest")
        return self.leave(self.up_1(torch.cat([one, up], 1), time))

    def loss(self, images, time):
        noise = torch.randn_like(images)
        level = time[:, :, None, None]
        noisy = (1 - level) * images + level * noise
        return F.mse_loss(self(noisy, time).float(), noise)#LOSS#
"""


class PlantedModel(NamedTuple):
    """A program of one kind.

    Attributes:
        name: What it is called in the table.
        text: The part of the program that is its own.
        images: Whether it computes on images.
        parameter: A matrix of its parameters.
    """

    name: str
    text: str
    images: bool
    parameter: str


MODELS = (
    PlantedModel("YOLO-like CNN", _CNN, True, "self.detect.weight.flatten(1)"),
    PlantedModel("GPT", _GPT, False, "self.head.weight"),
    PlantedModel("diffusion UNet", _UNET, True, "self.time.weight"),
)


class Slowdown(NamedTuple):
    """What is planted.

    Attributes:
        name: What it is called in the table.
        changes: Texts of the program and what replaces them.
        target: The target that is asked about.
        rehearsed: Whether it needs the simulated card, on which an operator can be missing.
        images: Whether it can only be planted in a program on images.
        compared: What the first cause that `profile compare` names must contain; empty where it cannot name it.
        advised: The kind of advice that must come first; empty where nothing is to be advised.
    """

    name: str
    changes: tuple[tuple[str, str], ...]
    compared: str
    advised: str
    target: str = "npu"
    rehearsed: bool = False
    images: bool = False


_SLOW_SILU = """
LIBRARY = torch.library.Library("aten", "IMPL")


def slow_silu(x):
    time.sleep(0.02)
    return x * torch.sigmoid(x)


LIBRARY.impl("silu", slow_silu, "CPU")
"""

SLOWDOWNS = (
    Slowdown("a slow operator", (("#TOP#", _SLOW_SILU),), "aten::silu", "slow-operator"),
    Slowdown("twice the batch", (("BATCH = 8", "BATCH = 16"), ("BATCH = 4", "BATCH = 8")), "has inputs of", ""),
    Slowdown(
        "mixed precision off",
        (("        with torch.autocast(DEVICE, dtype=torch.bfloat16):\n    ", ""),),
        "computes in",
        "mixed-precision",
    ),
    Slowdown(
        "the host waits in the step",
        (("        optimizer.step()\n", "        optimizer.step()\n        log(loss.item())\n"),
         ("\n\ndef main", "\n\ndef log(value):\n    time.sleep(0.05)\n\n\ndef main")),
        "numbers read",
        "host-wait",
    ),
    Slowdown(
        "no workers, slow data",
        (("num_workers=2, ", ""), ("prefetch_factor=8, ", ""), (", persistent_workers=True", ""),
         ("    def __getitem__(self, index):\n", "    def __getitem__(self, index):\n        time.sleep(0.01)\n")),
        "next batch",
        "loader-workers",
    ),
    Slowdown(
        "an operator goes to the CPU",
        (("#LOSS#", " + torch.linalg.eigvalsh(PARAMETER @ PARAMETER.T).sum() * 1e-6"),),
        "eigh",
        "cpu-fallback",
        rehearsed=True,
    ),
    Slowdown(
        "channels_last lost",
        (("#MIDDLE#", "\n        x = x.contiguous()"), ("#MIDDLE_ONE#", ".contiguous()")),
        "channels_last",
        "layout-lost",
        target="musa",
        images=True,
    ),
)  # fmt: skip


def program(model: PlantedModel, slowdown: Slowdown | None = None, *, layout: bool = True) -> str:
    """Return the text of a program.

    Args:
        model: Its kind.
        slowdown: What is planted; None for nothing.
        layout: Whether images are kept in channels_last.
    """
    text = _HEAD + model.text + _STEPS
    for old, new in slowdown.changes if slowdown is not None else ():
        text = text.replace(old, new)
    last = _LAST if model.images and layout else ""
    filled = {"#MODEL_LAYOUT#": last, "#INPUT_LAYOUT#": last, "PARAMETER": model.parameter}
    for mark, new in filled.items():
        text = text.replace(mark, new)
    for mark in ("#TOP#", "#MIDDLE#", "#MIDDLE_ONE#", "#LOSS#"):
        text = text.replace(mark, "")
    return text.lstrip()
