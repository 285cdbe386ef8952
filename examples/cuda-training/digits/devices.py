"""Where the program runs."""

import os

import torch
import torch.distributed as dist

DEFAULT_DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(backend="nccl"):
    """Join the process group when torchrun started several processes."""
    rank = int(os.environ.get("LOCAL_RANK", 0))
    if "WORLD_SIZE" in os.environ:
        torch.cuda.set_device(rank)
        dist.init_process_group(backend=backend if dist.is_nccl_available() else "gloo")
    return torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")


def seed_everything(seed):
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True


def memory_used(device):
    """Return the peak memory in MiB; 0 on the CPU (CUDA counts only its own)."""
    if device.type != "cuda":
        return 0
    return torch.cuda.max_memory_allocated(device) // 2**20
