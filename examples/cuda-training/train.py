"""Train the classifier: `python train.py --device cuda`."""

import argparse
import os

import torch
from torch.cuda.amp import GradScaler, autocast
from torch.nn.parallel import DistributedDataParallel

from digits.devices import DEFAULT_DEVICE, memory_used, seed_everything, setup
from digits.model import Digits


def batches(count, size, device):
    generator = torch.Generator(device="cuda" if device.type == "cuda" else "cpu").manual_seed(0)
    for _ in range(count):
        labels = torch.randint(0, 10, (size,), device=device, generator=generator)
        rows = torch.eye(10, device=device)[labels].repeat(1, 7)[:, :64].reshape(size, 8, 8)
        yield rows + 0.1 * torch.randn(size, 8, 8, device=device, generator=generator), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default=DEFAULT_DEVICE, choices=["cuda", "cpu"], help="cuda or cpu")
    parser.add_argument("--dist-backend", default="nccl")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    seed_everything(0)
    device = setup(args.dist_backend) if args.device == "cuda" else torch.device(args.device)
    model = Digits().to(device)
    if torch.distributed.is_initialized():
        model = DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = GradScaler(enabled=device.type == "cuda")

    for step, (rows, labels) in enumerate(batches(args.steps, 64, device)):
        with autocast(enabled=device.type == "cuda"):
            loss = torch.nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {memory_used(device)} MiB on cuda or cpu")

    torch.cuda.synchronize() if device.type == "cuda" else None
    if os.environ.get("RANK", "0") == "0":
        torch.save(model.state_dict(), "digits_cuda.pt")
        torch.load("digits_cuda.pt", map_location="cuda:0" if device.type == "cuda" else "cpu")


if __name__ == "__main__":
    main()
