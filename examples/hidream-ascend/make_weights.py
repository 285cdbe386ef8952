"""Write the weights and the picture that the other programs read. Both are generated: nothing is downloaded."""

import os

import torch
from PIL import Image, ImageDraw
from safetensors.torch import save_file

from pipeline_image_editing import EditTransformer, PictureCodec, TextEncoder


def draw_picture(path, size=128):
    """A landscape of flat shapes: sky, sun, hills, a house."""
    image = Image.new("RGB", (size, size))
    draw = ImageDraw.Draw(image)
    for y in range(size):
        share = y / size
        draw.line([(0, y), (size, y)], fill=(int(90 + 120 * share), int(150 + 70 * share), int(225 - 60 * share)))
    draw.ellipse([84, 12, 112, 40], fill=(250, 214, 90))
    draw.ellipse([-40, 76, 90, 180], fill=(70, 130, 70))
    draw.ellipse([50, 88, 190, 200], fill=(52, 105, 62))
    draw.rectangle([30, 62, 62, 92], fill=(205, 190, 170))
    draw.polygon([(24, 64), (46, 44), (68, 64)], fill=(150, 62, 50))
    image.save(path)


def main():
    os.makedirs("weights", exist_ok=True)
    os.makedirs("assets", exist_ok=True)
    torch.manual_seed(0)
    encoder, transformer, codec = TextEncoder(), EditTransformer(), PictureCodec()
    save_file(encoder.state_dict(), "weights/text_encoder.safetensors")
    save_file(transformer.state_dict(), "weights/transformer.safetensors")
    save_file(codec.state_dict(), "weights/vae.safetensors")
    edited = {name: weight + 0.02 * torch.randn_like(weight) for name, weight in transformer.state_dict().items()}
    save_file(edited, "weights/transformer_e1_1.safetensors")

    lora = {}
    for name, module in transformer.named_modules():
        if isinstance(module, torch.nn.Linear) and name.startswith("blocks."):
            lora[f"{name}.lora_A.weight"] = torch.randn(4, module.in_features) / module.in_features**0.5
            lora[f"{name}.lora_B.weight"] = 0.05 * torch.randn(module.out_features, 4)
    lora["final_layer.weight"] = transformer.final_layer.weight.detach() + 0.01
    save_file(lora, "weights/e1_full_lora.safetensors")
    draw_picture("assets/test_1.png")
    print(f"weights of {sum(p.numel() for p in transformer.parameters())} parameters, assets/test_1.png")


if __name__ == "__main__":
    main()
