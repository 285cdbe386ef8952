"""LoRA weights: a low-rank product is added to each linear layer that they name."""


def merge_lora(transformer, lora, alpha=4):
    """Add the products into the weights; returns how many layers changed."""
    merged = 0
    for name, module in transformer.named_modules():
        if f"{name}.lora_A.weight" in lora:
            down, up = lora[f"{name}.lora_A.weight"], lora[f"{name}.lora_B.weight"]
            module.weight.data += alpha / down.shape[0] * (up @ down).to(module.weight.device, module.weight.dtype)
            merged += 1
    return merged
