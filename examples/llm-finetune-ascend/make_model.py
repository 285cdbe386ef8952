"""Write a tiny Llama with made-up weights into a folder, in place of a model of the hub: python make_model.py tiny-llama"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
size = dict(vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2, max_position_embeddings=64)
LlamaForCausalLM(LlamaConfig(**size, num_attention_heads=4, num_key_value_heads=2)).save_pretrained(sys.argv[1])
