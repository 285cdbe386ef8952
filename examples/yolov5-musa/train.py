"""Train the detector: on one device, or on several with torch.distributed.run."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
import yaml
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import val
from models.detector import Detector
from utils.devices import init_seeds, memory, select_device
from utils.loss import ComputeLoss
from utils.shapes import Shapes, collate

LOCAL_RANK = int(os.getenv("LOCAL_RANK", -1))
RANK = int(os.getenv("RANK", -1))
WORLD_SIZE = int(os.getenv("WORLD_SIZE", 1))


def train(options, device):
    """Train and leave the weights in the folder of the run."""
    init_seeds(options.seed + RANK + 1)
    cuda = device.type != "cpu"
    data = yaml.safe_load(Path(options.data).read_text())
    shapes = Shapes(data["train"], data["size"])
    sampler = DistributedSampler(shapes) if RANK != -1 else None
    loader = DataLoader(shapes, options.batch_size // WORLD_SIZE, shuffle=sampler is None, sampler=sampler,
                        collate_fn=collate, drop_last=True, pin_memory=cuda)
    model = Detector(len(data["names"])).to(device)
    compute_loss = ComputeLoss(model)
    parallel = DDP(model, device_ids=[LOCAL_RANK], output_device=LOCAL_RANK) if cuda and RANK != -1 else model
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    scaler = torch.cuda.amp.GradScaler(init_scale=2.0 ** 10, enabled=cuda)
    for epoch in range(options.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        mean = torch.zeros(3, device=device)
        for pictures, wanted in loader:
            pictures = pictures.to(device, non_blocking=True)
            wanted = wanted.to(device)
            with torch.cuda.amp.autocast(enabled=cuda):
                levels = parallel(pictures)
            loss, parts = compute_loss([level.float() for level in levels], wanted)
            if RANK != -1:
                loss *= WORLD_SIZE
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parallel.parameters(), max_norm=10.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()
            mean += parts / len(loader)
        if RANK in (-1, 0):
            box, obj, kind = mean.tolist()
            print(f"epoch {epoch}: loss {box + obj + kind:.3f} (box {box:.3f}, object {obj:.3f}, class {kind:.3f}), "
                  f"{memory()}")
    if RANK in (-1, 0):
        folder = Path(options.project)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.half().state_dict(), "data": data}, folder / "last.pt")
        val.report(model.float(), data, device)
    torch.cuda.empty_cache()


def main():
    """Read the options, choose the device, train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data/shapes.yaml")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8, help="of all devices together")
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--device", default="", help="cuda device: 0 or 0,1 or cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--project", default="runs")
    options = parser.parse_args()
    device = select_device(options.device, batch_size=options.batch_size)
    if LOCAL_RANK != -1:
        assert options.batch_size % WORLD_SIZE == 0, "the batch size is not a multiple of the processes"
        assert torch.cuda.device_count() > LOCAL_RANK, "too few CUDA devices for this many processes"
        torch.cuda.set_device(LOCAL_RANK)
        device = torch.device("cuda", LOCAL_RANK)
        dist.init_process_group(backend="nccl" if dist.is_nccl_available() else "gloo")
    train(options, device)
    if LOCAL_RANK != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
