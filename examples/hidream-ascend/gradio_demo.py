import gradio as gr
import torch
from safetensors.torch import load_file

from instruction_refinement import refine_instruction
from lora import merge_lora
from pipeline_image_editing import EditTransformer, ImageEditingPipeline

print("Loading models...")
transformer = EditTransformer()
transformer.load_state_dict(load_file("weights/transformer.safetensors"))
lora_ckpt = load_file("weights/e1_full_lora.safetensors", device="cuda")
reload_keys = {
    "editing": {k: v for k, v in lora_ckpt.items() if "lora" not in k},
    "refine": {k: v.clone() for k, v in transformer.state_dict().items() if k in lora_ckpt},
}
merge_lora(transformer, lora_ckpt)
pipe = ImageEditingPipeline.from_pretrained("weights", transformer=transformer, torch_dtype=torch.bfloat16)
pipe = pipe.to("cuda", torch.bfloat16)
print("Models loaded successfully!")


def process_image(input_image, instruction, seed, guidance_scale, image_guidance_scale, steps, refine_strength):
    refined_instruction = refine_instruction(instruction)
    generator = torch.Generator("cuda").manual_seed(int(seed))
    result = pipe(
        prompt=refined_instruction,
        negative_prompt="low resolution, blur",
        image=input_image.resize((128, 128)),
        guidance_scale=guidance_scale,
        image_guidance_scale=image_guidance_scale,
        num_inference_steps=int(steps),
        generator=generator,
        refine_strength=refine_strength,
        reload_keys=reload_keys,
    ).images[0]
    return result.resize(input_image.size), refined_instruction


demo = gr.Interface(
    fn=process_image,
    inputs=[
        gr.Image(type="pil", label="Input Image"),
        gr.Textbox(label="Editing Instruction"),
        gr.Slider(0, 10000, 3, label="Seed"),
        gr.Slider(1, 10, 5, label="Instruction Following Strength"),
        gr.Slider(1, 10, 3, label="Image Preservation Strength"),
        gr.Slider(10, 50, 28, label="Steps"),
        gr.Slider(0, 1, 0.3, label="Refine Strength"),
    ],
    outputs=[gr.Image(type="pil", label="Output Image"), gr.Textbox(label="Refined Instruction")],
    title="Image Editing",
)

if __name__ == "__main__":
    demo.launch()
