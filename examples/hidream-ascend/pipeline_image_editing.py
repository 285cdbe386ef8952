"""A pipeline that edits a picture by an instruction: text encoder, transformer, VAE, flow matching in latents."""

import math
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import load_file
from torch import nn

try:
    from flash_attn import flash_attn_func
except ImportError:
    flash_attn_func = None

CHANNELS = 24
WIDTH = 64


def attention(q, k, v):
    """Attention of (batch, tokens, heads, channels): flash-attn where it is installed, otherwise torch's own."""
    if flash_attn_func is not None:
        return flash_attn_func(q, k, v)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


class TextEncoder(nn.Module):
    """Bytes of the instruction to 64 tokens."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, texts):
        rows = [list(text.encode())[:64] for text in texts]
        ids = torch.tensor([row + [32] * (64 - len(row)) for row in rows], device=self.embed.weight.device)
        return self.layer(self.embed(ids))


class Block(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.w1, self.w2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (layer(h).unflatten(-1, (self.heads, -1)) for layer in (self.to_q, self.to_k, self.to_v))
        x = x + self.to_out(attention(q, k, v).flatten(-2))
        return x + self.w2(F.silu(self.w1(self.norm2(x))))


class EditTransformer(nn.Module):
    """The velocity of the latents, from noisy latents, latents of the picture, time and text."""

    def __init__(self, depth=2):
        super().__init__()
        self.proj_in = nn.Linear(2 * CHANNELS, WIDTH)
        self.time = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.final_layer = nn.Linear(WIDTH, CHANNELS)

    def forward(self, latents, picture, time, text):
        height, width = latents.shape[-2:]
        x = self.proj_in(torch.cat([latents, picture], 1).flatten(2).transpose(1, 2))
        freqs = torch.exp(-math.log(10000) * torch.arange(WIDTH // 2, device=x.device) / (WIDTH // 2))
        angles = time[:, None].float() * 1000 * freqs
        x = x + self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))[:, None]
        x = torch.cat([text, x], 1)
        for block in self.blocks:
            x = block(x)
        edit = self.final_layer(x[:, text.shape[1] :]).transpose(1, 2).unflatten(2, (height, width))
        return (latents - picture) / time[:, None, None, None].to(x.dtype) + 0.35 * edit


class PictureCodec(nn.Module):
    """The VAE: cosines of low frequency in tiles of 8 x 8, so that it needs no training."""

    def __init__(self):
        super().__init__()
        n = torch.arange(8.0)
        basis = torch.stack([torch.cos(math.pi * (n + 0.5) * k / 8) * math.sqrt((1 if k == 0 else 2) / 8) for k in range(8)])
        low = sorted(((i, j) for i in range(8) for j in range(8)), key=sum)[: CHANNELS // 3]
        tiles = torch.zeros(CHANNELS, 3, 8, 8)
        for index, (i, j) in enumerate(low):
            for colour in range(3):
                tiles[index * 3 + colour, colour] = torch.outer(basis[i], basis[j])
        self.tiles = nn.Parameter(tiles)

    def encode(self, image):
        return F.conv2d(image, self.tiles, stride=8) / 4

    def decode(self, latents):
        return F.conv_transpose2d(latents * 4, self.tiles, stride=8)


def randn_tensor(shape, generator, device, dtype):
    """Noise of a generator: drawn where the generator lives, then moved, as libraries of diffusion models do."""
    where = generator.device if generator is not None else device
    return torch.randn(shape, generator=generator, device=where, dtype=torch.float32).to(device, dtype)


class ImageEditingPipeline:
    """Text encoder, transformer and VAE, and the loop over the steps."""

    def __init__(self, text_encoder, transformer, vae):
        self.text_encoder, self.transformer, self.vae = text_encoder, transformer, vae
        self.offload = None

    @classmethod
    def from_pretrained(cls, folder, transformer=None, torch_dtype=torch.float32):
        parts = []
        for name, part in (("text_encoder", TextEncoder()), ("transformer", transformer), ("vae", PictureCodec())):
            if part is None or name != "transformer":
                part = part or EditTransformer()
                part.load_state_dict(load_file(f"{folder}/{name}.safetensors"))
            parts.append(part.to(torch_dtype).eval())
        return cls(*parts)

    def to(self, device, dtype):
        for part in (self.text_encoder, self.transformer, self.vae):
            part.to(device, dtype)
        return self

    def enable_model_cpu_offload(self, device="cuda"):
        """Keep each part on the CPU until it computes. For cards with little memory."""
        self.offload = torch.device(device)
        return self.to("cpu", self.transformer.proj_in.weight.dtype)

    def _part(self, part):
        return part if self.offload is None else part.to(self.offload)

    def _done(self, part):
        if self.offload is not None:
            part.to("cpu")

    @torch.no_grad()
    def __call__(self, prompt, negative_prompt, image, guidance_scale, image_guidance_scale, num_inference_steps, generator,
                 refine_strength=0.0, reload_keys=None):
        vae, encoder = self._part(self.vae), self._part(self.text_encoder)
        device, dtype = vae.tiles.device, vae.tiles.dtype
        pixels = torch.from_numpy(np.asarray(image.convert("RGB"), dtype=np.float32) / 127.5 - 1).permute(2, 0, 1)[None]
        picture = vae.encode(pixels.to(device, dtype))
        text = encoder([negative_prompt, negative_prompt, prompt])
        self._done(self.text_encoder)

        transformer = self._part(self.transformer)
        if reload_keys:
            transformer.load_state_dict(reload_keys["editing"], strict=False)
        latents = randn_tensor(picture.shape, generator, device, dtype)
        times = torch.linspace(1, 0, num_inference_steps + 1)
        for step in range(num_inference_steps):
            if reload_keys and step == int((1 - refine_strength) * num_inference_steps):
                transformer.load_state_dict(reload_keys["refine"], strict=False)
            time = times[step].to(device).expand(3)
            v_plain, v_image, v_full = transformer(latents.expand(3, -1, -1, -1), picture.expand(3, -1, -1, -1), time, text).chunk(3)
            velocity = v_plain + image_guidance_scale * (v_image - v_plain) + guidance_scale * (v_full - v_image)
            latents = latents + (times[step + 1] - times[step]).to(device, dtype) * velocity
        self._done(self.transformer)
        pixels = vae.decode(latents.to(vae.tiles.dtype))[0].float().clamp(-1, 1)
        self._done(self.vae)
        array = ((pixels.permute(1, 2, 0) + 1) * 127.5).round().to(torch.uint8).cpu().numpy()
        return SimpleNamespace(images=[Image.fromarray(array)])
