"""Train: python train.py configs/kaggle.py"""

import argparse
import time
from pathlib import Path

import torch
from segmenter.config import prepare, read
from segmenter.data import load
from segmenter.model import build
from torch.cuda.amp import GradScaler, autocast
from torch.nn import functional


def main():
    """Train as the file says, and save the weights."""
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--launcher", choices=("none", "pytorch"), default="none")
    options = parser.parse_args()
    config = read(options.config)
    device = prepare(config, options.launcher)
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = build(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["optim_wrapper"]["optimizer"]["lr"])
    scaler = GradScaler()
    pictures, labels = load(config, "train")
    batch, iterations = config["data"]["samples_per_gpu"], config["train_cfg"]["max_iters"]
    begun, total = time.perf_counter(), 0.0
    for step in range(iterations):
        first = step * batch % len(pictures)
        with autocast():
            scores = model(pictures[first : first + batch].cuda())
        loss = functional.cross_entropy(scores.float(), labels[first : first + batch].cuda())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        if (step + 1) % config["train_cfg"]["log_interval"] == 0:
            speed = (step + 1) * batch / (time.perf_counter() - begun)
            print(f"Iter(train) [{step + 1:3d}/{iterations}]  loss: {total / (step + 1):.4f}  imgs/s: {speed:.1f}")
    file = Path(config["checkpoint"])
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), file)
    print(f"saved {file.name}")


if __name__ == "__main__":
    main()
