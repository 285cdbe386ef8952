"""Train the classifier on one card, or on several with torchrun."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from reviews import Reviews
from textnet import TextNet


def share_of_right(model, loader):
    """Return the share of texts whose class is right."""
    model.eval()
    right = torch.zeros((), dtype=torch.float64, device="cuda")
    with torch.no_grad():
        for words, kinds in loader:
            right += (model(words.cuda()).argmax(1) == kinds.cuda()).double().sum()
    model.train()
    return (right / len(loader.dataset)).item()


def train(options, rank, world, local):
    """Train, print loss, texts in a second and accuracy, and save the weights."""
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = TextNet().cuda()
    if world > 1:
        model = DDP(model, device_ids=[local])
    data = Reviews(options.texts)
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, options.batch_size, shuffle=sampler is None, sampler=sampler, pin_memory=True, drop_last=True)
    check = DataLoader(Reviews(128, first=100_000), 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    for epoch in range(options.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        torch.cuda.synchronize()
        start = time.time()
        for words, kinds in loader:
            words, kinds = words.cuda(non_blocking=True), kinds.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=options.amp):
                loss = torch.nn.functional.cross_entropy(model(words), kinds)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        share = share_of_right(model, check)
        if rank == 0:
            speed = len(loader) * options.batch_size * world / (time.time() - start)
            print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {100 * share:.1f} %, {speed:.0f} texts/s")
    if rank == 0:
        torch.save((model.module if world > 1 else model).state_dict(), "textnet.pt")
        print(f"peak memory: {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB of {torch.cuda.get_device_name(local)}")


def main():
    """Read the options, begin the group of processes, train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32, help="texts of each process")
    parser.add_argument("--texts", type=int, default=768)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--amp", action="store_true")
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
