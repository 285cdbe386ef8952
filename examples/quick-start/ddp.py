"""Train on all cards of a machine: `torchrun --nproc_per_node 2 ddp.py`; on several machines with `--nnodes`."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from network import Network, batch

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
torch.manual_seed(0)
model = DistributedDataParallel(Network().cuda(local_rank), device_ids=[local_rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    images, labels = batch(32, seed=step * dist.get_world_size() + dist.get_rank())
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
total = loss.detach().clone()
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"{dist.get_backend()}: {dist.get_world_size()} ranks, mean loss {total.item() / dist.get_world_size():.1f}")
dist.destroy_process_group()
