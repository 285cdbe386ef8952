"""Profile each rank into a trace of its own: `torchrun --nproc_per_node 2 profile_ranks.py`."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

from network import Network, batch

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(Network().cuda(), device_ids=[torch.cuda.current_device()])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=2),
    on_trace_ready=tensorboard_trace_handler("result_ddp", worker_name=f"worker{dist.get_rank()}"),
) as profiler:
    for step in range(4):
        images, labels = batch(seed=step)
        F.cross_entropy(model(images.cuda()), labels.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()
        profiler.step()
dist.barrier()
if dist.get_rank() == 0:
    print("traces:", len(os.listdir("result_ddp")))
dist.destroy_process_group()
