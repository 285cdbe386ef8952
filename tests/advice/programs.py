"""Training programs: three to which nothing is to be said, and places at which something can be done worse."""

from __future__ import annotations

CLEAN_CNN = """
import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3)
        self.b = nn.Conv2d(8, 8, 3)
        self.c = nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return self.c(self.b(self.a(x))).mean((2, 3))


def main(data, test_data):
    model = Net().to("cuda", memory_format=torch.channels_last)
    train_loader = DataLoader(data, 8, num_workers=8, pin_memory=True, persistent_workers=True)
    test_loader = DataLoader(test_data, 8)
    optimizer = torch.optim.Adagrad(model.parameters())
    model = nn.parallel.DistributedDataParallel(model)
    for epoch in range(9):
        total = torch.zeros((), device="cuda")
        for step, (images, labels) in enumerate(train_loader):
            images = images.to("cuda", memory_format=torch.channels_last, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(images), labels.to("cuda", non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
            if step % 100 == 0:
                print(loss.item())
        print(total.item(), sum(evaluate(model, batch).item() for batch in test_loader))
        torch.cuda.synchronize()
"""

CLEAN_GPT = """
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Trainer:
    def train(self):
        torch.set_float32_matmul_precision("high")
        self.model = torch.compile(self.model, backend="eager")
        iterations = 0
        while True:
            for micro_step in range(4):
                with torch.amp.autocast("cuda", dtype=torch.bfloat16):
                    loss = self.model(*self.batch())
                loss.backward()
            self.optimizer.step()
            iterations += 1
            if iterations % 10:
                continue
            print(f"{iterations}: {loss.item():.3f}")
"""

CLEAN_FUNCTIONS = """
import torch


class Scaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer):
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()


class OwnOperator(torch.autograd.Function):
    @staticmethod
    def backward(ctx, gradient):
        return gradient.cpu().to("cuda")


def evaluate(model, batches):
    return [model(batch).argmax().item() for batch in batches]


def profile(model, x):
    for _ in range(10):
        model(x).sum().backward()
        torch.cuda.synchronize()


def train(model, optimizer, batches, names):
    scaler = Scaler()
    for batch in batches:
        rows = [name.item for name in names]
        scaler(model(batch).mean(), optimizer)
"""

CLEAN = {"cnn": CLEAN_CNN, "gpt": CLEAN_GPT, "functions": CLEAN_FUNCTIONS}

WORSE: dict[str, tuple[str, str, str, str, str, str]] = {
    # what: the program, a text of it, what stands there instead, the target, the kind, what the edit writes
    "no workers": ("cnn", "num_workers=8, ", "", "npu", "loader-workers", "persistent_workers=True, num_workers=4)"),
    "one worker": ("cnn", "num_workers=8", "num_workers=1", "npu", "loader-workers", "num_workers=4"),
    "pageable": ("cnn", ", pin_memory=True", "", "musa", "pinned-memory", "persistent_workers=True, pin_memory=True)"),
    "workers start anew": (
        "cnn", ", persistent_workers=True", "", "npu", "persistent-workers", "pin_memory=True, persistent_workers=True)"
    ),
    "item": ("cnn", "total += loss.detach()", "total += loss.item()", "npu", "host-wait", "total += loss.detach()"),
    "print": ("cnn", "total += loss.detach()", "print(f'{loss}')", "npu", "host-wait", ""),
    "to the host": ("cnn", "total += loss.detach()", "losses.append(loss.cpu())", "gcu", "host-wait", ""),
    "first rank": (
        "cnn", "total += loss.detach()", "if rank == 0:\n                bar.set(loss.item())", "npu", "host-wait", ""
    ),
    "synchronize": ("cnn", "total += loss.detach()", "torch.cuda.synchronize()", "npu", "host-wait", ""),
    "helper": ("functions", "rows = [name.item for name in names]", "evaluate(model, [batch])", "npu", "host-wait", ""),
    "behind a scaler": ("functions", "rows = [name.item for name in names]", "model(0).item()", "npu", "host-wait", ""),
    "float32": ("cnn", 'with torch.autocast("cuda", dtype=torch.bfloat16):', "if True:", "npu", "mixed-precision", ""),
    "TF32": (
        "cnn", 'with torch.autocast("cuda", dtype=torch.bfloat16):', "if True:", "musa", "float32-switch",
        "torch.backends.mudnn.allow_tf32 = True",
    ),
    "emulated dtype": ("gpt", "unused", "", "sdaa", "mixed-dtype", "dtype=torch.float16"),
    "NCHW": ("cnn", "memory_format=torch.channels_last", "copy=False", "musa", "channels-last", ""),
    "AdamW": (
        "cnn", "torch.optim.Adagrad(model.parameters())", "torch.optim.AdamW(model.parameters(), lr=1.0)", "npu",
        "fused-optimizer", "torch_npu.optim.NpuFusedAdamW(model.parameters(), lr=1.0)",
    ),
    "fused of torch": (
        "cnn", "torch.optim.Adagrad(model.parameters())", "torch.optim.AdamW(model.parameters(), fused=True)", "npu",
        "fused-optimizer", "",
    ),
    "lazy device": ("cnn", "unused", "", "ptex", "optimizer-step", "torch_gcu.optimizer_step(optimizer)"),
    "compile": (
        "gpt", ', backend="eager"', "", "sdaa", "compile-backend",
        'torch.compile(self.model, backend="teco_inductor")',
    ),
    "plain attention": (
        "gpt", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", "(q @ k.transpose(-2, -1)).softmax(-1) @ v",
        "npu", "attention", "",
    ),
    "unused parameters": (
        "cnn", "DistributedDataParallel(model)", "DistributedDataParallel(model, find_unused_parameters=True)", "npu",
        "unused-parameters", "find_unused_parameters=False",
    ),
    "flash attention": (
        "gpt", "import torch.nn", "import flash_attn\nimport torch.nn", "npu", "without-flash-attention", ""
    ),
    "polling": (
        "cnn", "total += loss.detach()", "import subprocess; subprocess.run(['nvidia-smi'])", "npu", "polling", ""
    ),
}  # fmt: skip


def worse(what: str) -> tuple[str, str, str, str]:
    """Return a program, the target, the kind of advice, and a text that the edit writes; empty for no edit."""
    name, old, new, target, kind, written = WORSE[what]
    assert old == "unused" or old in CLEAN[name]
    return CLEAN[name].replace(old, new), target, kind, written
