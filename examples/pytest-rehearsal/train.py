"""One training step, on the accelerator of this machine or on its CPU."""

import torch
from torch.nn.functional import cross_entropy


def pick_device():
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def train_step(model, optimizer, rows, labels):
    with torch.autocast(rows.device.type, dtype=torch.bfloat16):
        loss = cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
