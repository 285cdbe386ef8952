"""LoRA: a product of two thin matrices is added to each linear layer of the UNet that the file names."""

import torch


def merge(unet, weights, multiplier, dtype, device):
    """Add the products into the weights; returns how many layers changed."""
    merged = 0
    for name, module in unet.named_modules():
        key = "lora_unet_" + name.replace(".", "_")
        if key + ".lora_up.weight" in weights:
            up, down = (weights[f"{key}.lora_{part}.weight"].to(device, torch.float32) for part in ("up", "down"))
            scale = multiplier * weights[key + ".alpha"].item() / down.shape[0]
            module.weight.data = (module.weight.data.float() + scale * up @ down).to(dtype)
            merged += 1
    return merged
