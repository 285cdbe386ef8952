"""Train ResNet-50 on one process or several, and write a line of the table of results."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from patterns import Stripes
from resnet import ResNet50


def accuracy(model, loader, device, form):
    """Return the share of pictures whose class is right."""
    model.eval()
    right = torch.zeros(1, device=device)
    with torch.no_grad():
        for pictures, kinds in loader:
            pictures = pictures.to(device, memory_format=form)
            right += (model(pictures).argmax(1) == kinds.to(device)).sum()
    model.train()
    return right.item() / len(loader.dataset)


def train(options, rank, world, local):
    """Train, and print loss, pictures in a second and accuracy."""
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda", local)
    form = torch.channels_last if options.channels_last else torch.contiguous_format
    model = ResNet50(4, options.width).cuda().to(memory_format=form)
    if world > 1:
        model = DDP(model, device_ids=[local])
    data = Stripes(options.pictures)
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, options.batch_size, shuffle=sampler is None, sampler=sampler, pin_memory=True, drop_last=True)
    check = DataLoader(Stripes(64, first=100_000), 32)
    criterion = torch.nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4)
    scaler = torch.cuda.amp.GradScaler(init_scale=1024.0, enabled=options.amp)
    share = 0.0
    for epoch in range(options.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        torch.cuda.synchronize()
        start, seen = time.time(), 0
        for pictures, kinds in loader:
            pictures = pictures.cuda(non_blocking=True).to(memory_format=form)
            kinds = kinds.cuda(non_blocking=True)
            with torch.cuda.amp.autocast(enabled=options.amp):
                loss = criterion(model(pictures), kinds)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            seen += len(pictures) * world
        torch.cuda.synchronize()
        share = accuracy(model, check, device, form)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, top-1 {100 * share:.1f} %, {seen / (time.time() - start):.0f} images/s")
    if rank == 0:
        name = torch.cuda.get_device_name(local)
        row = f"| {name} x {world} | {'yes' if options.amp else 'no'} | {options.batch_size} | {100 * share:.1f} % |"
        Path("results.md").write_text(f"| cards | AMP | batch | top-1 |\n|---|---|---|---|\n{row}\n")
        torch.save(model.state_dict(), "resnet.pt")


def main():
    """Read the options, begin the group of processes, train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8, help="pictures of each process")
    parser.add_argument("--pictures", type=int, default=96)
    parser.add_argument("--width", type=int, default=8, help="64 is ResNet-50")
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    rank, world, local = (int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    torch.cuda.set_device(local)
    if world > 1:
        dist.init_process_group("nccl")
    train(options, rank, world, local)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
