"""The same with a model of a hub: transformers, peft, bitsandbytes. Only `finetune.py --model NAME` imports this file."""

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments


def load(name, bits, local_rank):
    """Return a model with adapters, quantised to 4 bits where asked."""
    quantised = None
    if bits == 4:
        quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(
        name,
        torch_dtype=torch.bfloat16,
        attn_implementation="flash_attention_2",
        quantization_config=quantised,
        device_map={"": f"cuda:{local_rank}"},
    )
    if bits == 4:
        model = prepare_model_for_kbit_training(model)
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))


def trainer(model, rows, folder, deepspeed=None):
    """Return the trainer of a model, on rows of tokens (T,); `deepspeed` is a file of DeepSpeed's settings."""
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        learning_rate=2e-4,
        bf16=True,
        tf32=True,
        optim="paged_adamw_8bit",
        ddp_backend="nccl",
        deepspeed=deepspeed,
        logging_steps=10,
    )
    return Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
