import logging
import os

import gradio as gr
import torch

from inference_e1_1 import load_weights
from pipeline_image_editing import EditTransformer, ImageEditingPipeline

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger(__name__)

MODEL_PATH = "weights"


def init_models():
    global pipe, reload_keys
    transformer = EditTransformer()
    edit_dict = load_weights(f"{MODEL_PATH}/transformer_e1_1.safetensors")
    reload_keys = {"editing": edit_dict, "refine": load_weights(f"{MODEL_PATH}/transformer.safetensors")}
    transformer.load_state_dict(edit_dict, strict=True)
    pipe = ImageEditingPipeline.from_pretrained(
        MODEL_PATH, transformer=transformer, torch_dtype=torch.bfloat16
    ).to("cuda", torch.bfloat16)
    logger.info("Models loaded!")
    logger.info(f"Current CUDA memory: {torch.cuda.memory_summary(device='cuda', abbreviated=True)}")


def edit_image(img, instruction, guidance_scale, img_guidance_scale, steps, refine_strength, seed):
    if not img: return None, "Upload an image first."
    try:
        result = pipe(
            prompt=instruction, negative_prompt="", image=img.resize((128, 128)),
            guidance_scale=guidance_scale, image_guidance_scale=img_guidance_scale,
            num_inference_steps=int(steps), generator=torch.Generator("cuda").manual_seed(int(seed)),
            refine_strength=refine_strength, reload_keys=reload_keys,
        )
        os.makedirs("results", exist_ok=True)
        result.images[0].save("results/demo.png")
        return result.images[0].resize(img.size), f"Success: '{instruction}'"
    except Exception as e:
        return None, f"Error: {e}"


init_models()

with gr.Blocks(title="Image Editor") as demo:
    with gr.Row():
        img_input = gr.Image(label="Upload Image", type="pil")
        img_output = gr.Image(label="Result")
    instruction = gr.Textbox(label="Instruction", placeholder="e.g., Convert to Ghibli style")
    guidance = gr.Slider(1, 20, 3, label="Guidance Scale")
    img_guidance = gr.Slider(1, 10, 1.5, label="Image Guidance")
    steps = gr.Slider(10, 50, 28, label="Steps")
    refine = gr.Slider(0, 1, 0.3, label="Refine Strength")
    seed = gr.Number(label="Seed", value=3, precision=0)
    status = gr.Textbox(label="Status", interactive=False)
    gr.Button("Edit").click(edit_image, [img_input, instruction, guidance, img_guidance, steps, refine, seed], [img_output, status])

if __name__ == "__main__":
    demo.launch(server_port=7860)
