"""Fourteen small models as they are written today: the test bed of the laws of the numerics tools.

Each is a program of a few steps on the CPU, with its own parameters, batches and optimizer: what trains in it is what
trains in its large relatives, in sizes of a few hundred numbers. They share a folder with nothing: a model says what it
needs of torch, so that a fault in one operator is a fault in few of them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

WIDE = 16


class Program(NamedTuple):
    """A model that trains.

    Attributes:
        model: What is called; its parameters are what the optimizer has, and what else it names.
        loss: The loss of a step, of the model and the number of the step.
        optimizer: What makes the steps.
        after: What a step ends with, such as the update of a mean of the weights.
    """

    model: nn.Module
    loss: Callable[[nn.Module, int], Tensor]
    optimizer: torch.optim.Optimizer
    after: Callable[[], None] = lambda: None


def drawn(step: int, *shape: int) -> Tensor:
    """Return numbers of a step, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(100 + step))


def words(step: int, *shape: int, most: int = 32) -> Tensor:
    """Return whole numbers of a step."""
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(200 + step))


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDE))

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return scaled


def rotated(x: Tensor, begin: int = 0) -> Tensor:
    """Return queries or keys [batch, heads, length, width] with their positions in them."""
    half = x.shape[-1] // 2
    rates = 1.0 / (100.0 ** (torch.arange(half, device=x.device).float() / half))
    angles = torch.arange(begin, begin + x.shape[-2], device=x.device).float()[:, None] * rates
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class GroupedAttention(nn.Module):
    """Four heads of queries and two of keys, with a mask of infinities, as eager attention has it."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, length, _ = x.shape
        begin = past[0].shape[2] if past is not None else 0
        q = rotated(self.q(x).view(batch, length, 4, 4).transpose(1, 2), begin)
        k, v = self.kv(x).view(batch, length, 2, 2, 4).permute(2, 0, 3, 1, 4)
        k = rotated(k, begin)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        wide_k, wide_v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        scores = q @ wide_k.transpose(-1, -2) / 2.0
        hidden = torch.ones(length, k.shape[2], dtype=torch.bool, device=x.device).triu(1 + begin)
        mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ wide_v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDE)), (k, v)


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm, self.last = nn.Embedding(32, WIDE), RMSNorm(), RMSNorm()
        self.attention = GroupedAttention()
        self.gate, self.up, self.down = nn.Linear(WIDE, 24), nn.Linear(WIDE, 24), nn.Linear(24, WIDE)
        self.head = nn.Linear(WIDE, 32, bias=False)

    def forward(self, tokens: Tensor, past: Any = None) -> tuple[Tensor, Any]:
        x = self.embedding(tokens)
        mixed, past = self.attention(self.norm(x), past)
        x = x + mixed
        y = self.last(x)
        return self.head(x + self.down(functional.silu(self.gate(y)) * self.up(y))), past


def next_word(scores: Tensor, tokens: Tensor) -> Tensor:
    """Return the loss of a language model."""
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


def llama() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        tokens = words(step, 2, 8)
        return next_word(model(tokens)[0], tokens)

    model = Llama()
    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2, fused=True))


def cached() -> Program:
    """Words one by one, with what attention keeps, and the most likely of them."""

    def loss(model: nn.Module, step: int) -> Tensor:
        tokens, past = words(step, 2, 4), None
        total = torch.zeros(())
        for place in range(3):
            scores, past = model(tokens[:, place : place + 1], past)
            total = total + functional.cross_entropy(scores[:, 0].float(), tokens[:, place + 1])
            total = total + 0.1 * scores[:, 0].float().gather(1, scores[:, 0].argmax(-1, keepdim=True)).mean()
        return total

    model = Llama()
    return Program(model, loss, torch.optim.SGD(model.parameters(), 1e-1, momentum=0.9))


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDE, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(4))
        self.head = nn.Linear(WIDE, 8)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).float().softmax(-1).topk(2, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            out = out.index_add(0, rows, (expert(x[rows]) * weights[rows, place, None]).to(out.dtype))
        result: Tensor = self.head(out)
        return result


def moe() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        return functional.cross_entropy(model(drawn(step, 12, WIDE)).float(), words(step, 12, most=8))

    model = Experts()
    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2))


class Adapted(nn.Module):
    """Attention whose queries and values have adapters of low rank; all else is frozen, keys too."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        self.q_a, self.q_b = nn.Linear(WIDE, 2, bias=False), nn.Linear(2, WIDE, bias=False)
        self.v_a, self.v_b = nn.Linear(WIDE, 2, bias=False), nn.Linear(2, WIDE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x) + self.q_b(self.q_a(x)), self.k(x), self.v(x) + self.v_b(self.v_a(x))
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def lora() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        return functional.mse_loss(model(drawn(step, 2, 6, WIDE)).float(), drawn(step + 9, 2, 6, WIDE))

    model = Adapted()
    return Program(model, loss, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2))


class Diffusion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, WIDE, 2, 2)
        self.time = nn.Sequential(nn.Linear(8, WIDE), nn.SiLU(), nn.Linear(WIDE, 3 * WIDE))
        self.norm = nn.LayerNorm(WIDE, elementwise_affine=False)
        self.attention = nn.MultiheadAttention(WIDE, 2, batch_first=True)
        self.out = nn.Linear(WIDE, 12)

    def forward(self, noisy: Tensor, time: Tensor) -> Tensor:
        rates = torch.exp(-math.log(100.0) * torch.arange(4) / 4)
        angles = time[:, None] * rates
        shift, scale, gate = self.time(torch.cat((angles.cos(), angles.sin()), -1)).chunk(3, -1)
        x = self.patch(noisy).flatten(2).transpose(1, 2)
        y = self.norm(x) * (1 + scale[:, None]) + shift[:, None]
        x = x + gate[:, None] * self.attention(y, y, y, need_weights=False)[0]
        return functional.pixel_shuffle(self.out(x).transpose(1, 2).unflatten(2, (2, 2)), 2)


def dit() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        clean, noise, time = drawn(step, 2, 3, 4, 4), drawn(step + 50, 2, 3, 4, 4), torch.tensor([0.2, 0.7])
        noisy = (1 - time)[:, None, None, None] * clean + time[:, None, None, None] * noise
        return functional.mse_loss(model(noisy, time * 1000).float(), noise - clean)

    model = Diffusion()
    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2, foreach=True))


class Scan(nn.Module):
    """A selective scan: a recurrence whose steps depend on what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.conv = nn.Linear(WIDE, 2 * WIDE), nn.Conv1d(WIDE, WIDE, 3, padding=2, groups=WIDE)
        self.steps, self.parts, self.out = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, 8), nn.Linear(WIDE, WIDE)
        self.decay = nn.Parameter(torch.log(torch.arange(1, 5).float()).repeat(WIDE, 1))

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.inside(x).chunk(2, -1)
        x = functional.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        delta = functional.softplus(self.steps(x))
        b, c = self.parts(x).chunk(2, -1)
        state = x.new_zeros(x.shape[0], WIDE, 4)
        rows = []
        for place in range(x.shape[1]):
            kept = torch.exp(-delta[:, place, :, None] * self.decay.exp())
            state = kept * state + (delta[:, place] * x[:, place])[..., None] * b[:, place, None]
            rows.append((state * c[:, place, None]).sum(-1))
        result: Tensor = self.out(torch.stack(rows, 1) * functional.silu(gate))
        return result


def mamba() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        return functional.mse_loss(model(drawn(step, 2, 5, WIDE)).float(), drawn(step + 9, 2, 5, WIDE))

    model = Scan()
    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2))


class Spectral(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift, self.drop = nn.Linear(1, 4), nn.Linear(4, 1)
        self.weight = nn.Parameter(torch.randn(4, 4, 5, dtype=torch.complex64) / 4)

    def forward(self, x: Tensor) -> Tensor:
        modes = torch.fft.rfft(self.lift(x).float().transpose(1, 2))
        mixed = torch.einsum("bim,iom->bom", modes[..., :5], self.weight)
        result: Tensor = self.drop(torch.tanh(torch.fft.irfft(mixed, n=x.shape[1])).transpose(1, 2))
        return result


def fft() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        return functional.mse_loss(model(drawn(step, 2, 16, 1)).float(), drawn(step + 9, 2, 16, 1))

    model = Spectral()
    return Program(model, loss, torch.optim.Adam(model.parameters(), 1e-2))


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 1))
        self.up = nn.Sequential(nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, logarithm = self.down(x).chunk(2, 1)
        logarithm = logarithm.clamp(-10, 10)
        return self.up(mean + torch.exp(0.5 * logarithm) * torch.randn_like(mean)), mean, logarithm


def vae() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        x = drawn(step, 2, 3, 8, 8)
        again, mean, logarithm = (part.float() for part in model(x))
        result: Tensor = functional.l1_loss(again, x) + 1e-2 * (mean**2 + logarithm.exp() - 1 - logarithm).mean()
        return result

    model = Variational()
    return Program(model, loss, torch.optim.Adam(model.parameters(), 1e-2))


class Speech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lstm, self.head = (
            nn.Conv1d(4, 8, 3, padding=1),
            nn.LSTM(8, 8, batch_first=True),
            nn.Linear(8, 6),
        )

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.relu(self.conv(x)).transpose(1, 2)
        with torch.autocast("cpu", enabled=False):  # not every processor has this layer in less than float32
            hidden = self.lstm(hidden.float())[0]
        result: Tensor = self.head(hidden).float().log_softmax(-1)
        return result


def ctc() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        likely = model(drawn(step, 2, 4, 10)).transpose(0, 1)
        targets = 1 + words(step, 2, 4, most=5)
        return functional.ctc_loss(likely, targets, torch.tensor([10, 9]), torch.tensor([4, 3]), zero_infinity=True)

    model = Speech()
    return Program(model, loss, torch.optim.SGD(model.parameters(), 1e-1, momentum=0.9, nesterov=True))


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.images, self.texts = nn.Linear(12, 8), nn.EmbeddingBag(32, 8)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: Tensor, texts: Tensor) -> Tensor:
        a, b = functional.normalize(self.images(images), dim=-1), functional.normalize(self.texts(texts), dim=-1)
        return self.scale.exp() * a.float() @ b.float().T


def contrastive() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        scores = model(drawn(step, 6, 12), words(step, 6, 3))
        labels = torch.arange(6)
        return (functional.cross_entropy(scores, labels) + functional.cross_entropy(scores.T, labels)) / 2

    model = Towers()
    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2))


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.boxes, self.classes = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(images)
        cells = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"), -1).reshape(1, 16, 2)
        boxes = self.boxes(x).flatten(2).transpose(1, 2).float()
        corners = torch.cat((cells + boxes[..., :2].sigmoid(), boxes[..., 2:].exp().clamp(max=4.0)), -1)
        return corners, self.classes(x).flatten(2).transpose(1, 2).float()


def overlaps(boxes: Tensor, target: Tensor) -> Tensor:
    """Return the intersection over union of boxes [n, 4] with one."""
    first = torch.maximum(boxes[:, :2], target[:2])
    last = torch.minimum(boxes[:, :2] + boxes[:, 2:], target[:2] + target[2:])
    both = (last - first).clamp(min=0).prod(-1)
    return both / (boxes[:, 2:].prod(-1) + target[2:].prod() - both + 1e-6)


def detector() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        boxes, classes = model(drawn(step, 2, 3, 16, 16))
        total = torch.zeros(())
        for image in range(2):
            target = torch.tensor([1.0, 0.5, 2.0, 2.5])
            near = overlaps(boxes[image], target)
            best = near.detach().topk(3).indices
            total = total + functional.smooth_l1_loss(boxes[image, best], target.expand(3, 4)) - near[best].mean()
            wanted = torch.zeros(16, dtype=torch.int64).index_fill(0, best, 1)
            total = total + functional.cross_entropy(classes[image], wanted)
        return total

    model = Detector()
    return Program(model, loss, torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9, weight_decay=1e-4))


class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(16, 3)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        x = functional.leaky_relu(self.first(nodes))
        begin, end = edges
        degree = torch.bincount(end, minlength=len(nodes)).clamp(min=1)
        summed = torch.zeros_like(x).index_add(0, end, x[begin])
        result: Tensor = self.second(torch.cat((x, summed / degree[:, None]), -1))
        return result


def graph() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        edges = words(step, 2, 20, most=10)
        return functional.cross_entropy(model(drawn(step, 10, 6), edges).float(), words(step, 10, most=3))

    model = Graph()
    return Program(model, loss, torch.optim.RMSprop(model.parameters(), 1e-2))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.head(functional.dropout(self.body(images).flatten(1), 0.2, self.training))
        return result


def ema() -> Program:
    """A mean of the weights beside the weights, as teachers have."""
    model, mean = Convolutions(), Convolutions().requires_grad_(False)

    def after() -> None:
        with torch.no_grad():
            torch._foreach_lerp_(list(mean.parameters()), [p.detach() for p in model.parameters()], 0.1)

    def loss(called: nn.Module, step: int) -> Tensor:
        images = drawn(step, 4, 3, 6, 6)
        with torch.no_grad():
            taught = mean(images).float()
        scores = called(images).float()
        likely = functional.kl_div(scores.log_softmax(-1), taught.softmax(-1), reduction="batchmean")
        return functional.cross_entropy(scores, words(step, 4, most=4), label_smoothing=0.1) + likely

    return Program(model, loss, torch.optim.AdamW(model.parameters(), 1e-2), after)


class Sequences(nn.Module):
    """A layer as torch has it ready, over sequences of several lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, WIDE, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(WIDE, 2, 24, dropout=0.1, batch_first=True, norm_first=True)
        self.head = nn.Linear(WIDE, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        empty = tokens == 0
        x = self.layer(self.embedding(tokens), src_key_padding_mask=empty)
        weights = (~empty).to(x.dtype)[..., None]
        result: Tensor = self.head((x * weights).sum(1) / weights.sum(1))
        return result


def encoder() -> Program:
    def loss(model: nn.Module, step: int) -> Tensor:
        tokens = (1 + words(step, 3, 6, most=31)) * (torch.arange(6) < torch.tensor([[6], [4], [3]]))
        return functional.cross_entropy(model(tokens).float(), words(step, 3, most=2))

    model = Sequences()
    return Program(model, loss, torch.optim.NAdam(model.parameters(), 1e-2))


ZOO: dict[str, Callable[[], Program]] = {
    make.__name__: make
    for make in (
        llama, cached, moe, lora, dit, mamba, fft, vae, ctc, contrastive, detector, graph, ema, encoder,
    )
}  # fmt: skip
DTYPES = ("float32", "bfloat16", "float16")


def trained(name: str, dtype: str = "float32", steps: int = 2, ended: Callable[[], None] = lambda: None) -> list[float]:
    """Train a model of the zoo and return its losses.

    Args:
        name: Of the model.
        dtype: Of autocast; `float32` for none.
        steps: How many.
        ended: Called when a step has ended.
    """
    torch.manual_seed(0)
    program = ZOO[name]()
    losses = []
    for step in range(steps):
        kind = getattr(torch, "bfloat16" if dtype == "float32" else dtype)
        with torch.autocast("cpu", kind, enabled=dtype != "float32"):
            loss = program.loss(program.model, step)
        program.optimizer.zero_grad()
        loss.backward()
        program.optimizer.step()
        program.after()
        losses.append(loss.item())
        ended()
    return losses


class Fault(TorchDispatchMode):
    """A kernel that is wrong: it lies below the tools, which see what it gives.

    Attributes:
        calls: Calls of the operator so far.
    """

    def __init__(self, operator: str, kind: str = "scale", nth: int = 0) -> None:
        super().__init__()
        self._operator, self._kind, self._nth = operator, kind, nth
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.name().removeprefix("aten::").partition(".")[0] == self._operator:
            self.calls += 1
            if self.calls > self._nth:
                given = [out, *(out if isinstance(out, (list, tuple)) else ()), *(args[0] if out is None else ())]
                made = [part for part in given if isinstance(part, Tensor)]
                _WRONG[self._kind](made[1] if self._kind == "index" and len(made) > 1 else made[0])
        return out


_WRONG: dict[str, Callable[[Tensor], Any]] = {
    "scale": lambda out: out.mul_(1.05),
    "sign": lambda out: out.neg_(),
    "tail": lambda out: out.view(-1)[-max(1, out.numel() // 4) :].zero_(),
    "bias": lambda out: out.add_(0.05 * out.abs().mean()),
    "stale": lambda out: out.copy_(out.roll(1, 0)),
    "index": lambda out: out.copy_((out + 1) % 4),
    "flip": lambda out: out[(0,) * out.dim()].logical_not_(),
    "one": lambda out: out[(0,) * out.dim()].add_(1),
    "nan": lambda out: out.view(-1)[:1].fill_(math.nan),
}


class Planted(NamedTuple):
    """A fault, and what is to be named for it.

    Attributes:
        model: Of the zoo.
        operator: The kernel that is wrong.
        kind: In which way.
        nth: From which call on.
        named: The operator or the phase of the row that a comparison of records names first; empty for the same.
    """

    model: str
    operator: str
    kind: str
    nth: int = 0
    named: str = ""


FAULTS = tuple(
    Planted(*row)
    for row in (
        ("llama", "bmm", "scale"), ("llama", "_softmax", "bias"), ("llama", "silu", "scale"),
        ("llama", "rsqrt", "scale"), ("llama", "cat", "stale"), ("llama", "masked_fill", "scale"),
        ("llama", "embedding", "stale"), ("llama", "mm", "tail"), ("llama", "nll_loss_forward", "scale"),
        ("llama", "silu_backward", "scale"), ("llama", "_softmax_backward_data", "tail"),
        ("llama", "embedding_dense_backward", "tail"), ("llama", "_fused_adamw_", "scale", 0, "update"),
        ("llama", "cos", "sign"), ("llama", "triu", "flip"), ("cached", "argmax", "index"),
        ("cached", "gather", "stale"), ("cached", "cat", "stale", 3), ("moe", "topk", "index"),
        ("moe", "index_add", "scale"), ("moe", "nonzero", "one"), ("moe", "eq", "flip"), ("moe", "index", "stale"),
        ("moe", "index_put", "scale"), ("moe", "_softmax", "scale"),
        ("lora", "_scaled_dot_product_flash_attention_for_cpu", "scale"),
        ("lora", "_scaled_dot_product_flash_attention_for_cpu_backward", "scale"), ("lora", "addmm", "bias", 1),
        ("lora", "mse_loss", "scale"), ("dit", "native_layer_norm", "scale"), ("dit", "convolution", "bias"),
        ("dit", "pixel_shuffle", "stale"), ("dit", "sin", "sign"), ("dit", "native_layer_norm_backward", "scale"),
        ("dit", "_foreach_addcdiv_", "scale", 0, "update"), ("dit", "silu", "sign"), ("mamba", "softplus", "scale"),
        ("mamba", "exp", "scale"), ("mamba", "convolution", "tail"), ("mamba", "stack", "stale"),
        ("mamba", "softplus_backward", "scale"), ("mamba", "convolution_backward", "scale"),
        ("mamba", "exp", "bias", 3), ("fft", "_fft_r2c", "scale"), ("fft", "_fft_c2r", "scale"),
        ("fft", "tanh", "scale"), ("fft", "bmm", "scale"), ("fft", "tanh_backward", "scale"),
        ("vae", "native_group_norm", "scale"), ("vae", "clamp", "bias"), ("vae", "convolution", "tail", 2),
        ("vae", "exp", "scale"), ("vae", "native_group_norm_backward", "scale"), ("ctc", "_log_softmax", "bias"),
        ("ctc", "_ctc_loss", "scale"), ("ctc", "_ctc_loss_backward", "tail"), ("ctc", "relu", "bias"),
        ("contrastive", "linalg_vector_norm", "scale"), ("contrastive", "_embedding_bag", "scale"),
        ("contrastive", "div", "scale"), ("contrastive", "exp", "scale"), ("contrastive", "mm", "tail"),
        ("detector", "native_batch_norm", "scale"), ("detector", "max_pool2d_with_indices", "scale"),
        ("detector", "max_pool2d_with_indices", "index"), ("detector", "maximum", "bias"),
        ("detector", "prod", "scale"), ("detector", "topk", "index"), ("detector", "smooth_l1_loss", "scale"),
        ("detector", "index_fill", "one"), ("detector", "sigmoid", "scale"),
        ("detector", "threshold_backward", "tail"), ("graph", "index_add", "scale"), ("graph", "bincount", "one"),
        ("graph", "leaky_relu", "scale"), ("graph", "leaky_relu_backward", "scale"),
        ("ema", "_foreach_lerp_", "scale"), ("ema", "hardswish", "scale"), ("ema", "xlogy", "scale"),
        ("ema", "mul", "scale"), ("ema", "mean", "scale"), ("ema", "hardswish_backward", "sign"),
        ("encoder", "bmm", "scale"), ("encoder", "relu", "bias"), ("encoder", "eq", "flip"),
        ("encoder", "sum", "scale"), ("encoder", "addmm", "scale", 2),
    )
)  # fmt: skip
"""A fault for each way in which kernels were wrong, in each family of operators; a sixth of them is in the tests."""


@contextlib.contextmanager
def planted(operator: str, kind: str = "scale", nth: int = 0) -> Iterator[Fault]:
    """Within the context an operator gives wrong results, from its `nth` call on."""
    with Fault(operator, kind, nth) as fault:
        yield fault
