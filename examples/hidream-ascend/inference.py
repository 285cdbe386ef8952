import argparse
import os

import torch
from PIL import Image
from safetensors.torch import load_file

from instruction_refinement import refine_instruction
from lora import merge_lora
from pipeline_image_editing import EditTransformer, ImageEditingPipeline

# Set to True to enable instruction refinement and the LoRA weights
ENABLE_REFINE = True

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=28)
parser.add_argument("--output", default="results/full.png")
args = parser.parse_args()

print("Loading models...")
transformer = None
reload_keys = None
if ENABLE_REFINE:
    transformer = EditTransformer()
    transformer.load_state_dict(load_file("weights/transformer.safetensors"))
    lora_ckpt = load_file("weights/e1_full_lora.safetensors", device="cuda")
    src_state_dict = transformer.state_dict()
    reload_keys = [k for k in lora_ckpt if "lora" not in k]
    reload_keys = {
        "editing": {k: v for k, v in lora_ckpt.items() if k in reload_keys},
        "refine": {k: v.clone() for k, v in src_state_dict.items() if k in reload_keys},
    }
    print(f"LoRA merged into {merge_lora(transformer, lora_ckpt)} layers")

pipe = ImageEditingPipeline.from_pretrained("weights", transformer=transformer, torch_dtype=torch.bfloat16)
pipe = pipe.to("cuda", torch.bfloat16)
print("Models loaded successfully!")

test_image = Image.open("assets/test_1.png")
original_width, original_height = test_image.size
test_image = test_image.resize((128, 128))

instruction = "Convert the image into a Ghibli style."
refined_instruction = refine_instruction(instruction)

image = pipe(
    prompt=refined_instruction,
    negative_prompt="low resolution, blur",
    image=test_image,
    guidance_scale=5.0,
    image_guidance_scale=4.0,
    num_inference_steps=args.steps,
    generator=torch.Generator("cuda").manual_seed(3),
    refine_strength=0.3 if ENABLE_REFINE else 0.0,
    reload_keys=reload_keys,
).images[0]

image = image.resize((original_width, original_height))
os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
image.save(args.output)
print(f"Image saved to {args.output}")
