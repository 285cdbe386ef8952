"""The model: embeddings, two layers of attention, a mean over the words."""

import torch
from torch import nn
from torch.nn import functional as F

from reviews import CLASSES, LENGTH, WORDS


class Layer(nn.Module):
    """Attention and two products, each beside what goes past it."""

    def __init__(self, wide, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.asked, self.joined = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.up, self.down = nn.Linear(wide, 2 * wide), nn.Linear(2 * wide, wide)

    def forward(self, x, there):
        batch, length, wide = x.shape
        q, k, v = self.asked(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=there[:, None, None, :])
        x = x + self.joined(mixed.transpose(1, 2).reshape(batch, length, wide))
        return x + self.down(F.gelu(self.up(self.after(x))))


class TextNet(nn.Module):
    """Says which class a text is of."""

    def __init__(self, wide=32, heads=4, layers=2):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, wide, padding_idx=0), nn.Embedding(LENGTH, wide)
        self.layers = nn.ModuleList(Layer(wide, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, len(CLASSES))

    def forward(self, words):
        there = words != 0
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for layer in self.layers:
            x = layer(x, there)
        weight = there.unsqueeze(-1).to(x.dtype)
        return self.head((self.norm(x) * weight).sum(1) / weight.sum(1))
