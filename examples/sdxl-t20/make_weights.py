"""Write the checkpoint, the two tokenizer folders and a LoRA file that the program reads. All are generated."""

import json
import os

import torch

from library.sdxl_models import SdxlUNet, TextEncoder, VaeDecoder

WORDS = "a photo of cat dog house tree in the snow on hill at night red blue small big blurry painting".split()


def main(folder="models"):
    torch.manual_seed(0)
    for tokenizer in ("tokenizer", "tokenizer_2"):
        os.makedirs(f"{folder}/{tokenizer}", exist_ok=True)
        with open(f"{folder}/{tokenizer}/vocab.json", "w", encoding="utf-8") as file:
            json.dump({word: number for number, word in enumerate(WORDS, 2)}, file)
    models = TextEncoder(), TextEncoder(), VaeDecoder(), SdxlUNet()
    torch.save([model.state_dict() for model in models], f"{folder}/sdxl.pt")
    lora = {}
    for name, module in models[3].named_modules():
        if name.endswith(("to_q", "to_k", "to_v", "to_out")):
            key = "lora_unet_" + name.replace(".", "_")
            lora[f"{key}.lora_down.weight"] = torch.randn(4, module.in_features) / module.in_features**0.5
            lora[f"{key}.lora_up.weight"] = torch.randn(module.out_features, 4)
            lora[f"{key}.alpha"] = torch.tensor(4.0)
    torch.save(lora, f"{folder}/style.pt")
    print(f"{folder}: sdxl.pt with {sum(p.numel() for model in models for p in model.parameters())} parameters, style.pt")


if __name__ == "__main__":
    main()
