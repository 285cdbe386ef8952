"""Profile two steps on one card, and write a trace, which `torchferry profile show result` reads."""

import os

import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

from network import Network, batch

model = Network().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=tensorboard_trace_handler("result"),
    record_shapes=True,
) as profiler:
    for step in range(4):
        images, labels = batch(seed=step)
        with record_function("training_step"):
            loss = F.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()
print("traces:", len(os.listdir("result")))
