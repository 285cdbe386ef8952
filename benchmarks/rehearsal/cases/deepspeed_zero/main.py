"""Train a small network with deepspeed's ZeRO, and keep its losses."""

import argparse

import deepspeed
import torch
from record import keep
from torch import nn


def main():
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--stage", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
    deepspeed.init_distributed()
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_batch_size": 8,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
            "zero_optimization": {"stage": options.stage},
        },
    )
    for step in range(options.steps):
        mine = slice(deepspeed.comm.get_rank(), None, deepspeed.comm.get_world_size())
        inputs, labels = torch.randn(8, 8)[mine], torch.randint(0, 3, (8,))[mine]
        loss = nn.functional.cross_entropy(engine(inputs.to(engine.device)), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
        keep(f"loss {step}", loss)
    for name, parameter in engine.module.named_parameters():
        keep(name, parameter)
    print("device:", engine.device)


if __name__ == "__main__":
    main()
