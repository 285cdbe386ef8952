#!/bin/bash
# two cards of one host
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0,1}
echo "cards: $CUDA_VISIBLE_DEVICES"
nvidia-smi -L
torchrun --nproc_per_node=2 train.py --device cuda --dist-backend nccl
