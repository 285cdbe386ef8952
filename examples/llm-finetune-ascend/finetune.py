"""Fine-tune a language model with low-rank adapters: python finetune.py --steps 60, or torchrun ... finetune.py --model NAME"""

import argparse
import os
import time

import tiny
import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def main():
    """Train the adapters, print the loss, and save them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="tiny", help="`tiny`, or a model of the hub")
    parser.add_argument("--bits", type=int, choices=(4, 16), default=16)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--deepspeed", help="with a model of the hub: a file of DeepSpeed's settings, such as deepspeed.json")
    parser.add_argument("--out", default="adapters.pt")
    options = parser.parse_args()
    rank, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = True
    if ranks > 1:
        dist.init_process_group("nccl")
    if options.model != "tiny":
        import hub

        rows = [row for batch in tiny.batches(options.steps, options.batch) for row in batch]
        hub.trainer(hub.load(options.model, options.bits, rank), rows, options.out, options.deepspeed).train()
        return
    torch.manual_seed(0)
    torch.cuda.manual_seed_all(0)
    model = tiny.with_adapters(tiny.TinyGPT()).cuda()
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    runner = DistributedDataParallel(model, device_ids=[rank]) if ranks > 1 else model
    if rank == 0:
        print(f"{torch.cuda.get_device_name()}: {sum(weight.numel() for weight in trained)} trained weights")
    begun = time.perf_counter()
    for step, batch in enumerate(tiny.batches(options.steps, options.batch, seed=rank), 1):
        batch = batch.cuda(non_blocking=True)
        with torch.cuda.amp.autocast(dtype=torch.bfloat16):
            scores = runner(batch[:, :-1])
        loss = functional.cross_entropy(scores.float().flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            speed = step * batch.numel() / (time.perf_counter() - begun)
            print(f"step {step} loss {loss.item():.4f} {speed:.0f} tokens/s")
    if rank == 0:
        torch.save({name: weight for name, weight in model.state_dict().items() if "up" in name or "down" in name}, options.out)
        print(f"peak memory: {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
