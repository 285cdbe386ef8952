"""Small models and a step of training, for what looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and a feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.extra: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's result."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // 2) ** 0.5
        mask = torch.ones(length, length, device=x.device).triu(1).bool()
        attended = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        x = self.extra(x)
        result: Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return result


class GPT(nn.Module):
    """A language model with a mask of infinities, as such models have."""

    def __init__(self, words: int = 32, width: int = 16, blocks: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores for the next word."""
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(self.norm(x))
        return scores


class ConvNet(nn.Module):
    """Convolutions, running statistics and work in place."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 8, 3),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores of classes."""
        x = self.body(images) * 2
        x += 1
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class LSTM(nn.Module):
    """A recurrent model."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, values: Tensor) -> Tensor:
        """Return scores of classes."""
        scores: Tensor = self.head(self.lstm(values)[0][:, -1])
        return scores


def computes_lstm_under_autocast(dtype: torch.dtype) -> None:
    """Skip the test where this processor cannot: below AVX2, oneDNN has no such LSTM, and torch takes no other."""
    try:
        with torch.autocast("cpu", dtype):
            nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError as error:
        pytest.skip(f"torch on this processor computes no LSTM in {dtype}: {error}")


def words(device: str) -> Tensor:
    """Return a batch for GPT."""
    return torch.randint(0, 32, (4, 8), generator=torch.Generator().manual_seed(1)).to(device)


def next_word(scores: Tensor, batch: Tensor) -> Tensor:
    """Return the loss of GPT."""
    return functional.cross_entropy(scores[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def train(
    model: nn.Module,
    batch: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    steps: int = 3,
    before: Callable[[int], None] | None = None,
    **settings: Any,
) -> list[float]:
    """Train and return the losses; `before` is called with the number of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), **{"lr": 1e-3, **settings})
    losses = []
    for step in range(steps):
        if before is not None:
            before(step)
        optimizer.zero_grad()
        value = loss(model(batch), batch)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses
