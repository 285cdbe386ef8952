"""Devices and seeds."""

import os
import random

import numpy as np
import torch


def select_device(device="", batch_size=0):
    """Return the first device of `cpu`, `0`, `0,1` or `cuda:0`, and let the process see only those that are asked for."""
    device = str(device).strip().lower().replace("cuda:", "")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    elif device:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
        assert torch.cuda.is_available() and torch.cuda.device_count() >= len(device.split(",")), \
            f"--device {device} was asked for: no such CUDA device is here"
    if device != "cpu" and torch.cuda.is_available():
        asked = device.split(",") if device else ["0"]
        assert batch_size % len(asked) == 0, f"{batch_size} pictures cannot be divided by {len(asked)} devices"
        for index, name in enumerate(asked):
            card = torch.cuda.get_device_properties(index)
            print(f"CUDA:{name} ({card.name}, {card.total_memory / (1 << 20):.0f} MiB)")
        return torch.device("cuda:0")
    print("CPU")
    return torch.device("cpu")


def init_seeds(seed=0):
    """Make a run repeatable."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def memory():
    """Return the reserved memory as text."""
    reserved = torch.cuda.memory_reserved() / 2 ** 30 if torch.cuda.is_available() else 0
    return f"{reserved:.3g} GiB"
