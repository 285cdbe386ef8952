import argparse
import json
import logging
import os

import torch
from PIL import Image
from safetensors import safe_open

from pipeline_image_editing import EditTransformer, ImageEditingPipeline

logging.basicConfig(level=logging.INFO, format="%(levelname)s - %(message)s", handlers=[logging.StreamHandler()])

MODEL_PATH = "weights"


def load_weights(path):
    with safe_open(path, framework="pt", device="cpu") as f:
        return {name: f.get_tensor(name) for name in f.keys()}


def init_models():
    """Load all models onto the card."""
    global pipe, reload_keys
    logging.info("Loading models...")
    transformer = EditTransformer()
    src_dict = load_weights(f"{MODEL_PATH}/transformer.safetensors")
    edit_dict = load_weights(f"{MODEL_PATH}/transformer_e1_1.safetensors")
    reload_keys = {"editing": edit_dict, "refine": src_dict}
    transformer.load_state_dict(edit_dict, strict=True)

    pipe = ImageEditingPipeline.from_pretrained(
        MODEL_PATH,
        transformer=transformer,
        torch_dtype=torch.bfloat16,
    ).to("cuda", torch.bfloat16)

    logging.info("Models loaded successfully!")
    logging.info(f"Current CUDA memory: {torch.cuda.memory_summary(device='cuda', abbreviated=True)}")
    return pipe, reload_keys


def edit_image(image_path, instruction, negative_instruction="low quality, blurry, distorted",
               guidance_scale=3.0, img_guidance_scale=1.5, steps=28, refine_strength=0.3, seed=3):
    img = Image.open(image_path)
    original_size = img.size
    processed_img = img.resize((128, 128))
    logging.info(f"Instruction: {instruction}")
    result = pipe(
        prompt=instruction,
        negative_prompt=negative_instruction,
        image=processed_img,
        guidance_scale=guidance_scale,
        image_guidance_scale=img_guidance_scale,
        num_inference_steps=int(steps),
        generator=torch.Generator("cuda").manual_seed(int(seed)),
        refine_strength=refine_strength,
        reload_keys=reload_keys,
    )
    metadata = {"instruction": instruction, "steps": steps, "seed": seed, "original_size": original_size}
    return result.images[0].resize(original_size), metadata


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", default="assets/test_1.png")
    parser.add_argument("--instruction", default="Convert the image into a Ghibli style.")
    parser.add_argument("--output", default="results/e1_1.png")
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--offload", action="store_true", help="keep each part on the CPU until it computes")
    args = parser.parse_args()

    init_models()
    if args.offload:
        pipe.enable_model_cpu_offload()
    edited, metadata = edit_image(args.image, args.instruction, steps=args.steps)
    os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
    edited.save(args.output)
    with open(f"{os.path.splitext(args.output)[0]}.json", "w", encoding="utf-8") as f:
        json.dump(metadata, f, indent=4)
    logging.info(f"Saved {args.output}")


if __name__ == "__main__":
    main()
