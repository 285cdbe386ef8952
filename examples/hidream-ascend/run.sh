#!/bin/bash
# One picture with each model, on the first card.
set -e
export CUDA_VISIBLE_DEVICES=0
export DIFFUSERS_ATTENTION_TYPE=vanilla
python inference_e1_1.py "$@"
python inference.py "$@"
