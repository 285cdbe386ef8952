"""Small models in the shape of SDXL: two text encoders, a UNet with cross-attention, the decoder of a VAE, a tokenizer."""

import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

try:
    import xformers.ops as xops
except ImportError:
    xops = None

WIDTH, CONTEXT, POOLED, TOKENS = 32, 32, 16, 24
VAE_SCALE_FACTOR = 0.13025


class Tokenizer:
    """Words to numbers by the vocabulary of a folder; what is not in it is number 1, and 0 fills up."""

    def __init__(self, folder):
        with open(os.path.join(folder, "vocab.json"), encoding="utf-8") as file:
            self.vocabulary = json.load(file)

    def __call__(self, text):
        ids = [self.vocabulary.get(word, 1) for word in text.lower().split()][:TOKENS]
        return torch.tensor([ids + [0] * (TOKENS - len(ids))])


class TextEncoder(nn.Module):
    def __init__(self, words=64, width=POOLED):
        super().__init__()
        self.embed, self.mix, self.norm = nn.Embedding(words, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        hidden = self.norm(hidden + F.gelu(self.mix(hidden)))
        return hidden, hidden.mean(1)


class CrossAttention(nn.Module):
    def __init__(self, heads=2):
        super().__init__()
        self.heads, self.memory_efficient = heads, False
        self.to_q, self.to_out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.to_k, self.to_v = nn.Linear(CONTEXT, WIDTH), nn.Linear(CONTEXT, WIDTH)

    def forward(self, x, context):
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in (self.to_q(x), self.to_k(context), self.to_v(context)))
        if self.memory_efficient and xops is not None:
            return self.to_out(xops.memory_efficient_attention(q, k, v).flatten(-2))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """A convolution that knows the time, then cross-attention to the text."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.time, self.attention = nn.Linear(WIDTH, WIDTH), CrossAttention()

    def forward(self, x, time, context):
        x = x + self.conv(F.silu(self.norm(x) + self.time(time)[:, :, None, None]))
        tokens = x.flatten(2).transpose(1, 2)
        return x + self.attention(tokens, context).transpose(1, 2).unflatten(2, x.shape[-2:])


class SdxlUNet(nn.Module):
    """The noise in the latents (n, 4, h, w), from their time, the text (n, tokens, 32) and a vector of sizes (n, 22)."""

    def __init__(self, depth=2):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 4, 3, padding=1)
        self.label = nn.Linear(POOLED + 6, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def set_use_memory_efficient_attention(self, xformers, mem_eff):
        for block in self.blocks:
            block.attention.memory_efficient = xformers or mem_eff

    def forward(self, latents, t, context, vector):
        angles = t.float() * torch.exp(-math.log(10000) * torch.arange(WIDTH // 2, device=latents.device) / (WIDTH // 2))
        time = torch.cat([angles.cos(), angles.sin()]).to(latents.dtype) + self.label(vector)
        x = self.enter(latents)
        for block in self.blocks:
            x = block(x, time, context)
        return latents + self.leave(F.silu(x))


class VaeDecoder(nn.Module):
    """Latents (n, 4, h, w) to pictures (n, 3, 8h, 8w) between -1 and 1."""

    def __init__(self):
        super().__init__()
        self.enter, self.middle, self.leave = (nn.Conv2d(*sizes, 3, padding=1) for sizes in ((4, 16), (16, 16), (16, 3)))

    def decode(self, latents):
        x = F.silu(self.enter(latents))
        for layer in (self.middle, self.middle, self.leave):
            x = layer(F.interpolate(F.silu(x), scale_factor=2.0, mode="nearest"))
        return torch.tanh(x)


def load_models(path, device):
    """The two text encoders, the VAE and the UNet of one checkpoint."""
    models = TextEncoder(), TextEncoder(), VaeDecoder(), SdxlUNet()
    for model, weights in zip(models, torch.load(path, map_location=device)):
        model.load_state_dict(weights)
    return models
