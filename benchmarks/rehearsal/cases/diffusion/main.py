"""Sample from a tiny random Stable Diffusion and train its UNet for some steps, with diffusers."""

import argparse

import torch
from diffusers import AutoencoderKL, DDIMScheduler, DDPMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from record import keep
from transformers import CLIPTextConfig, CLIPTextModel


def pipeline():
    """Return a pipeline with random weights and no tokenizer: prompts come as embeddings."""
    unet = UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    vae = AutoencoderKL(
        block_out_channels=(32, 64),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
    )
    text = CLIPTextModel(
        CLIPTextConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=100)
    )
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=None,
        unet=unet,
        scheduler=DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def main():
    """Sample, then train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    pipe = pipeline().to("cuda")
    tokens = torch.randint(0, 100, (2, 77), device="cuda")
    prompt, negative = pipe.text_encoder(tokens)[0].chunk(2)
    generator = torch.Generator("cuda").manual_seed(3)
    image = pipe(
        prompt_embeds=prompt, negative_prompt_embeds=negative, num_inference_steps=4, generator=generator
    ).images[0]
    image.save(f"{options.out}/image.png")

    noise_schedule = DDPMScheduler()
    optimizer = torch.optim.SGD(pipe.unet.parameters(), lr=1e-2, momentum=0.9)
    pipe.unet.enable_gradient_checkpointing()
    pipe.unet.train()
    for _ in range(2):
        latents = pipe.vae.encode(torch.randn(2, 3, 32, 32).to("cuda")).latent_dist.sample() * 0.18
        noise = torch.randn_like(latents)
        steps = torch.randint(0, 1000, (2,), device=latents.device)
        noisy = noise_schedule.add_noise(latents.detach(), noise, steps)
        predicted = pipe.unet(noisy, steps, encoder_hidden_states=prompt.detach().repeat(2, 1, 1)).sample
        loss = torch.nn.functional.mse_loss(predicted, noise)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pipe.unet.parameters(), 1.0)
        optimizer.step()
    keep("last", predicted)


if __name__ == "__main__":
    main()
