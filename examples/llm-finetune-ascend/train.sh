#!/bin/bash
export CUDA_VISIBLE_DEVICES=0,1
export NCCL_DEBUG=WARN
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
torchrun --nproc_per_node 2 finetune.py "$@"
