"""A small language model of ours with low-rank adapters, for machines without a hub: the same training loop, a few thousand weights."""

import torch
from torch import nn
from torch.nn import functional

try:
    from flash_attn import flash_attn_func
except ImportError:
    flash_attn_func = None


class LoraLinear(nn.Module):
    """A frozen linear layer, and beside it a product of two small matrices that is trained."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        self.scale = alpha / rank
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


class Attention(nn.Module):
    """Causal attention with several heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        if flash_attn_func is not None:
            return self.out(flash_attn_func(q, k, v, causal=True).flatten(2))
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        return self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm."""

    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TinyGPT(nn.Module):
    """A language model over bytes of a small alphabet."""

    def __init__(self, vocabulary=32, width=32, heads=2, layers=2, length=32):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        """Return the scores of the next token (B, T, vocabulary) for tokens (B, T)."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


def with_adapters(model, rank=4, alpha=8):
    """Freeze the model, and put adapters beside the projections of its attention."""
    model.requires_grad_(False)
    for block in model.blocks:
        block.attention.qkv = LoraLinear(block.attention.qkv, rank, alpha)
        block.attention.out = LoraLinear(block.attention.out, rank, alpha)
    model.head.requires_grad_(True)
    return model


def batches(count, size, length=32, vocabulary=32, seed=0):
    """Yield batches of made-up sentences (B, T + 1): each counts upwards in steps of one to three."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        first = torch.randint(0, vocabulary, (size, 1), generator=generator)
        step = torch.randint(1, 4, (size, 1), generator=generator)
        yield (first + step * torch.arange(length + 1)) % vocabulary
