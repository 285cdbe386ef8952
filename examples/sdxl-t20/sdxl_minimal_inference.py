"""Pictures from words, with as little code as possible: two text encoders, a UNet, Euler steps, a VAE, LoRA."""

import argparse
import os

import numpy as np
import torch
from PIL import Image

from library import sdxl_models
from networks import lora

HEIGHT = WIDTH = 128

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPE = torch.float16

parser = argparse.ArgumentParser()
parser.add_argument("--ckpt_path", default="/data/models/stable-diffusion-xl-base-1.0/sdxl.pt")
parser.add_argument("--prompt", default="a photo of a cat")
parser.add_argument("--negative_prompt", default="")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--output_dir", default="results")
parser.add_argument("--lora_weights", nargs="*", default=[], help="each is path;multiplier")
parser.add_argument("--interactive", action="store_true")
args = parser.parse_args()

text_encoder_1_name = "/data/models/stable-diffusion-xl-base-1.0/tokenizer"
text_encoder_2_name = "/data/models/stable-diffusion-xl-base-1.0/tokenizer_2"

text_model1, text_model2, vae, unet = sdxl_models.load_models(args.ckpt_path, DEVICE)
unet.to(DEVICE, dtype=DTYPE).eval()
vae_dtype = torch.float32 if DTYPE == torch.float16 else DTYPE  # a VAE overflows in float16
vae.to(DEVICE, dtype=vae_dtype).eval()
text_model1.to(DEVICE, dtype=DTYPE).eval()
text_model2.to(DEVICE, dtype=DTYPE).eval()

unet.set_use_memory_efficient_attention(True, False)

tokenizer1 = sdxl_models.Tokenizer(text_encoder_1_name)
tokenizer2 = sdxl_models.Tokenizer(text_encoder_2_name)

for weights_file in args.lora_weights:
    weights_file, _, multiplier = weights_file.partition(";")
    weights = torch.load(weights_file, map_location=DEVICE)
    print(f"LoRA merged into {lora.merge(unet, weights, float(multiplier or 1), DTYPE, DEVICE)} layers")

betas = torch.linspace(0.00085**0.5, 0.0120**0.5, 1000) ** 2
all_sigmas = ((1 - torch.cumprod(1 - betas, 0)) / torch.cumprod(1 - betas, 0)) ** 0.5


def encode(text):
    hidden1, _ = text_model1(tokenizer1(text).to(DEVICE))
    hidden2, pooled = text_model2(tokenizer2(text).to(DEVICE))
    return torch.cat([hidden1, hidden2], dim=2), pooled


@torch.no_grad()
def generate_image(prompt, negative_prompt, seed, guidance_scale=7):
    sizes = torch.tensor([[HEIGHT, WIDTH, 0, 0, HEIGHT, WIDTH]], device=DEVICE, dtype=DTYPE) / 1024
    context, pooled = encode(prompt)
    uncond_context, uncond_pooled = encode(negative_prompt)
    contexts = torch.cat([uncond_context, context])
    vectors = torch.cat([torch.cat([uncond_pooled, sizes], dim=1), torch.cat([pooled, sizes], dim=1)])

    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    timesteps = torch.linspace(999, 0, args.steps).long()
    sigmas = torch.cat([all_sigmas[timesteps], torch.zeros(1)])
    latents = torch.randn((1, 4, HEIGHT // 8, WIDTH // 8), generator=generator, device=DEVICE, dtype=torch.float32)
    latents = latents.to(DTYPE) * (sigmas[0] ** 2 + 1).sqrt().item()
    for step, t in enumerate(timesteps.to(DEVICE)):
        sigma, after = sigmas[step].item(), sigmas[step + 1].item()
        noise = unet((latents / (sigma**2 + 1) ** 0.5).repeat(2, 1, 1, 1), t, contexts, vectors)
        uncond, cond = noise.chunk(2)
        latents = latents + (uncond + guidance_scale * (cond - uncond)) * (after - sigma)

    image = vae.decode((latents / sdxl_models.VAE_SCALE_FACTOR).to(vae_dtype))
    image = (image / 2 + 0.5).clamp(0, 1).cpu().permute(0, 2, 3, 1).float().numpy()
    os.makedirs(args.output_dir, exist_ok=True)
    path = os.path.join(args.output_dir, f"image_{seed}.png")
    Image.fromarray((image[0] * 255).round().astype(np.uint8)).save(path)
    print(f"saved {path}")


if not args.interactive:
    generate_image(args.prompt, args.negative_prompt, args.seed)
else:
    while prompt := input("prompt: "):
        generate_image(prompt, input("negative prompt: "), int(input("seed: ") or args.seed))
print("Done!")
